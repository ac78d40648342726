"""OpenClaw (`openclaw agent --json`): nothing until the end, then one JSON document.

Verified on 2026.9.6; the recordings under `tests/fixtures/transcripts/openclaw` are its own output. From that version
on the prompt is a private file and not an argument. `ExecOptions.model` is the id of an OpenClaw *agent*, or
`provider/model`. Tools cannot be seen, so the idle clock is as wide as the tool clock; log lines on stderr are life.
A key that was refused is benched by OpenClaw for a minute or more: other runs then fail without asking the provider.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from callboard_adapters import failures, openclaw_config, openclaw_document
from callboard_adapters.base import (
    Adapter,
    Alive,
    CommandDone,
    FileContent,
    FileWrite,
    Launch,
    Outcome,
    Output,
    ProcessExit,
    ReadFiles,
    Request,
    RunCommand,
    RunContext,
    SessionId,
    TurnEnded,
    Usage,
)
from callboard_adapters.capabilities import (
    ArgMode,
    ArgStyle,
    Capabilities,
    McpVia,
    ModelSource,
    PromptVia,
    Timeouts,
    UsageVia,
)
from callboard_adapters.errors import LaunchRefused
from callboard_adapters.messages import FailureDetail, Message, MessageType, RunStatus, TokenUsage
from callboard_adapters.openclaw_document import Document, Finder
from callboard_adapters.openclaw_events import Events
from callboard_adapters.options import ExecOptions
from callboard_wire.failures import FailureReason

CLI_TIMEOUT_SETTING = "CALLBOARD_OPENCLAW_CLI_TIMEOUT"
_CLI_TIMEOUT = 30.0  # seconds for one question to the CLI, which takes ten on a slow machine
_VERIFIED = (2026, 9, 6)
_NO_LIMIT = 86_400  # its own limit is 600 s, and there is no "none"
_SPARE = 60  # seconds it may take longer than our own clock, which is to fire first
_EXIT_GRACE = 2.0  # seconds between the document and an exit that may never come
_ALIVE: tuple[Output, ...] = (Alive(),)
_LEVEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_OWN_SERVERS = "a gateway has MCP servers of its own; those of the agent are not used"
_HAS_AGENTS = re.compile(rb"\$include|\b(?:entries|list)\b[\"']?\s*:")
_HAS_SERVERS = re.compile(rb"\$include|\bmcp\b[\"']?\s*:")
_BLOCKED = {
    "--local": ArgMode.STANDALONE,
    "--json": ArgMode.STANDALONE,
    "--session-id": ArgMode.VALUE,
    "--session-key": ArgMode.VALUE,
    "--message": ArgMode.VALUE,
    "-m": ArgMode.VALUE,
    "--message-file": ArgMode.VALUE,
    "--system-prompt": ArgMode.VALUE,
    "--thinking": ArgMode.VALUE,
    "--timeout": ArgMode.VALUE,
    "--help": ArgMode.STANDALONE,
    "-h": ArgMode.STANDALONE,
    "exec": ArgMode.STANDALONE,  # a subcommand: another protocol
}
_VALUES = frozenset(
    {"--agent", "--channel", "--model", "--reply-account", "--reply-channel", "--reply-to", "--to", "-t", "--verbose"}
)


class OpenclawAdapter(Adapter):
    indented_output = True
    capabilities = Capabilities(
        name="openclaw",
        executable="openclaw",
        launch_header="openclaw agent (json)",
        prompt=PromptVia.FILE,
        minimum_version="2026.5.5",
        resume=True,
        resume_rejection=True,
        early_session_id=True,
        mcp=McpVia.CONFIG,
        usage=UsageVia.STREAM,
        cost=True,
        thinking_levels=("off", "minimal", "low", "medium", "high", "xhigh", "adaptive", "max"),
        model_source=ModelSource.COMMAND,
        gateway=True,
        system_prompt=True,
        context_file="AGENTS.md",
        skills_folder="skills",
        user_skills_folder="~/.openclaw/skills",
        blocked_args=_BLOCKED,
        value_args=_VALUES,
        arg_style=ArgStyle(attached_short=True, abbreviations=False),
        timeouts=Timeouts(handshake=None, idle=2 * 3600.0),
        relevant_env=("OPENCLAW_CONFIG_PATH", "OPENCLAW_STATE_DIR", "OPENCLAW_INCLUDE_ROOTS", CLI_TIMEOUT_SETTING),
        login_env=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY"),
        login_files=("~/.openclaw/openclaw.json",),
        config_files=("~/.openclaw/openclaw.json",),
        login_hint="run `openclaw onboard`",
    )

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.session_id = ""
        self.requested = ""
        self.model = ""
        self._active = ""  # the user's configuration file
        self._agents: Any = None
        self._users_servers: list[str] = []
        self._wants_servers = False
        self._begin()

    def _begin(self) -> None:
        self.finders = {"stdout": Finder(), "stderr": Finder()}
        self.events = Events()
        self.document: Document | None = None
        self.usage: dict[str, TokenUsage] = {}
        self._announced = False
        self._began_anew = False  # the file of the requested conversation holds this turn alone

    # before ------------------------------------------------------------------------

    def before_launch(self, options: ExecOptions) -> Sequence[Request]:
        self._wants_servers = options.mcp_config is not None
        if openclaw_config.names_a_gateway(options):
            return []
        paths = openclaw_config.candidates(self.context.env, self.context.home)
        if not paths:
            return [RunCommand("file", ["config", "file"], timeout=self._cli_timeout)]
        return [ReadFiles("config", paths, max_files=len(paths), max_bytes=4 << 20)]

    def files(self, purpose: str, found: Sequence[FileContent]) -> Sequence[Output]:
        if purpose == "session":
            self._began_anew = any(openclaw_document.began_with_this_turn(f.data) for f in found)
            return ()
        order = openclaw_config.candidates(self.context.env, self.context.home) or [self._active]
        found = sorted(found, key=lambda f: order.index(f.path) if f.path in order else len(order))
        if not found:
            named = self.context.env.get("OPENCLAW_CONFIG_PATH")
            self._active = ""
            return [] if named or purpose == "named" else [self._ask("file", "config", "file")]
        self._active, text = found[0].path, found[0].data
        questions: list[Output] = []
        # The CLI takes seconds a question: it is asked only where the file can hold an answer. It is JSON5.
        if _HAS_AGENTS.search(text):
            questions.append(self._ask("agents", "config", "get", "agents", "--json"))
        if self._wants_servers and _HAS_SERVERS.search(text):
            questions.append(self._ask("servers", "config", "get", "mcp.servers", "--json"))
        return questions

    def command(self, purpose: str, done: CommandDone) -> Sequence[Output]:
        text = done.stdout.decode("utf-8", "replace")
        if done.code is None:
            self._refuse("did not answer in time", FailureReason.RUNTIME_CLI_TIMEOUT)
        if purpose == "file":
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            if done.code != 0 or not lines:
                return ()  # an older build without the command: it has no configuration we know of
            self._active = lines[-1].replace("~", self.context.home, 1) if lines[-1].startswith("~") else lines[-1]
            return [ReadFiles("named", [self._active])]
        value = openclaw_config.json_in(text)
        if done.code != 0 or value is None:
            if "Unknown config path" in text + done.stderr.decode("utf-8", "replace"):
                return ()  # nothing is set there
            self._refuse(f"could not say its `{purpose}`", FailureReason.MISSING_CONFIG)
        if purpose == "agents":
            self._agents = value
        elif isinstance(value, dict):
            self._users_servers = list(value)
        return ()

    def launch(self, prompt: str, options: ExecOptions) -> Launch:
        self._begin()
        self.requested = options.resume_session_id or ""
        self.session_id = self.requested or f"callboard-{self.context.unique}"
        version = self.context.version
        known = version is None or version >= _VERIFIED
        is_llm = bool(options.model) and "/" in str(options.model) and known
        also = {"--model": ArgMode.VALUE} if is_llm or not known else None
        user, notices = self.user_args(options, also)
        remote = options.openclaw_mode == "gateway"
        args = ["agent", *([] if remote else ["--local"]), "--json"]
        args += self.flag("--session-id", self.session_id)
        limit = options.timeout or 0
        args += ["--timeout", str(math.ceil(limit) + _SPARE if limit > 0 else _NO_LIMIT)]
        self.model = str(options.model or "") if is_llm else ""
        if is_llm:
            args += self.flag("--model", options.model)
        elif not any(a == "--agent" or a.startswith("--agent=") for a in user):
            args += self.flag("--agent", options.model)
        level = options.thinking_level
        if level and known and _LEVEL.fullmatch(level):
            args += ["--thinking", level]
        text = f"{options.system_prompt}\n\n{prompt}" if options.system_prompt else prompt
        files = [self._config(options)]
        env = {"OPENCLAW_CONFIG_PATH": files[0].path, "OPENCLAW_INCLUDE_ROOTS": self._include_roots()}
        if remote and options.mcp_config:
            notices.append(Message(MessageType.LOG, _OWN_SERVERS, level="warn"))
        if known:
            files.append(FileWrite(self.scratch_file("message.md"), text.encode()))
            args += [*user, "--message-file", files[-1].path]
        else:
            args += [*user, "--message", text]
        return Launch(args, env=env, files=files, notices=notices)

    def _config(self, options: ExecOptions) -> FileWrite:
        servers: dict[str, Any] | None = None
        if options.mcp_config is not None:
            given = options.mcp_config.get("mcpServers")
            servers = dict(given) if isinstance(given, dict) else {}
        try:
            content = openclaw_config.wrapper(
                self._active,
                self.context.cwd,
                self._agents,
                servers,
                self._users_servers,
                openclaw_config.gateway(options),
            )
        except openclaw_config.BadConfig as error:
            raise LaunchRefused(
                f"the agent's configuration cannot work: {error}",
                provider="openclaw",
                failure_reason=FailureReason.MISSING_CONFIG,
            ) from error
        return FileWrite(self.scratch_file("openclaw.json"), content)

    def _include_roots(self) -> str:
        """An include from outside the wrapper's own folder is refused unless its folder is named."""
        folder = self._active.rpartition("/")[0] or "/"
        theirs = self.context.env.get("OPENCLAW_INCLUDE_ROOTS")
        return f"{folder}:{theirs}" if theirs else folder

    # during ------------------------------------------------------------------------

    def receive(self, line: bytes) -> Sequence[Output]:
        return self._line("stdout", line)

    def receive_stderr(self, line: bytes) -> Sequence[Output]:
        return self._line("stderr", line)

    def noise(self) -> tuple[int, int]:
        return self.finders["stdout"].noise, 0

    def _line(self, pipe: str, line: bytes) -> Sequence[Output]:
        value = self.finders[pipe].feed(line)
        if value is None and self._announced:
            return _ALIVE
        outputs: list[Output] = [Alive()]
        if not self._announced:
            self._announced = True
            outputs.append(SessionId(self.session_id))
        if value is None:
            return outputs
        if openclaw_document.is_document(value):
            return [*outputs, *self._take(openclaw_document.read(value))]
        if pipe == "stdout":
            outputs += self.events.receive(value)
        return outputs

    def _take(self, document: Document) -> list[Output]:
        """The last word; it may keep running for minutes after it."""
        self.document = document
        outputs: list[Output] = [*document.messages()]
        if document.session_id and document.session_id != self.session_id:
            self.session_id = document.session_id
            outputs.append(SessionId(self.session_id))
        if document.usage is not None and (document.usage.tokens or document.usage.cost_usd_ticks):
            self.usage = {document.model or self.model or "unknown": document.usage}
            outputs.append(Usage(dict(self.usage)))
        return [*outputs, TurnEnded(_EXIT_GRACE)]

    # the end ---------------------------------------------------------------------------

    def after_exit(self, exit: ProcessExit) -> Sequence[Request]:
        """Up to 2026.5.7 the document does not say whether the conversation was there before."""
        document = self.document
        if not self.requested or document is None or document.began_empty is not None:
            return ()
        return [ReadFiles("session", document.session_files, lines_with=[openclaw_document.USER_LINE])]

    def finish(self, exit: ProcessExit) -> Outcome:
        for finder in self.finders.values():
            value = finder.leftover()
            if self.document is None and value is not None and openclaw_document.is_document(value):
                self._take(openclaw_document.read(value))
        status, output, error, failure = self._judge(exit)
        return Outcome(
            status,
            output=output,
            error=error,
            failure=failure,
            session_id=self.session_id,
            # It silently begins a new conversation under the old id; the empty history gives it away.
            resume_rejected=bool(self.requested and self.document and (self.document.began_empty or self._began_anew)),
            usage=self.usage or self.events.usage(self.model),
        )

    def _judge(self, exit: ProcessExit) -> tuple[RunStatus, str, str, FailureDetail | None]:
        document, events = self.document, self.events
        if document is not None:
            if document.aborted and not document.error:
                error = "the turn was interrupted"
                return RunStatus.ABORTED, document.answer, error, FailureDetail(FailureReason.PROCESS, error)
            if document.error:
                return RunStatus.FAILED, document.answer, document.error, openclaw_document.classify(document, exit)
            return RunStatus.COMPLETED, document.answer, "", None
        if events.seen:
            if events.error:
                return RunStatus.FAILED, events.answer, events.error, failures.classify(events.error, exit)
            if exit.clean:
                return RunStatus.COMPLETED, events.answer, "", None
        plain = self.finders["stdout"].plain()
        if exit.clean and plain and not events.seen:
            return RunStatus.COMPLETED, plain, "", None
        failure = openclaw_document.missing(exit)
        return RunStatus.FAILED, events.answer, failure.detail, failure

    # pieces ----------------------------------------------------------------------------

    def _ask(self, purpose: str, *args: str) -> RunCommand:
        return RunCommand(purpose, args, timeout=self._cli_timeout)

    @property
    def _cli_timeout(self) -> float:
        """Seconds, from the environment, between 1 and 60."""
        try:
            asked = float(self.context.env.get(CLI_TIMEOUT_SETTING, "").removesuffix("s") or _CLI_TIMEOUT)
        except ValueError:
            return _CLI_TIMEOUT
        return min(60.0, max(1.0, asked)) if math.isfinite(asked) else _CLI_TIMEOUT

    def _refuse(self, what: str, reason: FailureReason) -> None:
        raise LaunchRefused(
            f"openclaw {what}, so its run cannot be set up",
            provider="openclaw",
            repair=f"run `openclaw doctor`, or raise {CLI_TIMEOUT_SETTING}",
            failure_reason=reason,
        )
