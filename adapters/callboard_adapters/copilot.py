"""GitHub Copilot CLI (`copilot --output-format json`, prompt by stdin).

Verified on 1.0.102, 1.0.85 and 1.0.48; the recordings under `tests/fixtures/transcripts/copilot` are of 1.0.102. Stdin
was seen to take the prompt from 1.0.48 on, older ones get it as an argument. From 1.0.85 on the session id is chosen by
us: the CLI prints it in its last line only, too late for a killed run. 1.0.48 begins a new session without a word under
an id that it does not know; the session's file gives it away.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from callboard_adapters import failures, rendering
from callboard_adapters.base import (
    Adapter,
    FileContent,
    FileWrite,
    Launch,
    Outcome,
    Output,
    ProcessExit,
    ReadFiles,
    Request,
    RunContext,
    Usage,
)
from callboard_adapters.capabilities import (
    ArgMode,
    ArgStyle,
    Capabilities,
    McpVia,
    ModelSource,
    PromptVia,
    UsageVia,
)
from callboard_adapters.copilot_stream import CopilotStream
from callboard_adapters.copilot_usage import MARKERS, from_session_file
from callboard_adapters.messages import FailureDetail, Message, MessageType, RunStatus, TokenUsage
from callboard_adapters.options import ExecOptions
from callboard_adapters.rendering import Rendered
from callboard_wire.failures import FailureReason

_READS_STDIN = (1, 0, 48)
_TAKES_AN_ID = (1, 0, 85)  # and levels of thinking
_LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_BLOCKED = {
    "-p": ArgMode.VALUE,
    "--prompt": ArgMode.VALUE,
    "-i": ArgMode.VALUE,
    "--interactive": ArgMode.VALUE,
    "--output-format": ArgMode.VALUE,
    "--stream": ArgMode.VALUE,
    "-s": ArgMode.STANDALONE,
    "--silent": ArgMode.STANDALONE,
    "-r": ArgMode.OPTIONAL,
    "--resume": ArgMode.OPTIONAL,
    "--continue": ArgMode.STANDALONE,
    "--session-id": ArgMode.VALUE,
    "--connect": ArgMode.OPTIONAL,
    "--reasoning-effort": ArgMode.VALUE,
    "--effort": ArgMode.VALUE,
    "--allow-all": ArgMode.STANDALONE,
    "--allow-all-tools": ArgMode.STANDALONE,
    "--allow-all-paths": ArgMode.STANDALONE,
    "--allow-all-urls": ArgMode.STANDALONE,
    "--yolo": ArgMode.STANDALONE,
    "--assisted-approval": ArgMode.STANDALONE,
    "--no-ask-user": ArgMode.STANDALONE,
    "--mode": ArgMode.VALUE,
    "--plan": ArgMode.STANDALONE,
    "--acp": ArgMode.STANDALONE,
    "--environment-host": ArgMode.VALUE,
    "-C": ArgMode.VALUE,
    "--help": ArgMode.STANDALONE,
    "-h": ArgMode.STANDALONE,
    "--version": ArgMode.STANDALONE,
    "-v": ArgMode.STANDALONE,
}
_VALUES = frozenset(
    {
        "--model",
        "--agent",
        "--context",
        "--name",
        "-n",
        "--log-dir",
        "--log-level",
        "--add-dir",
        "--attachment",
        "--plugin-dir",
        "--additional-mcp-config",
        "--disable-mcp-server",
        "--enable-mcp-server",
        "--add-github-mcp-toolset",
        "--add-github-mcp-tool",
        "--mcp-github-auth",
        "--max-autopilot-continues",
        "--max-ai-credits",
        "--usage-output-file",
        "--dynamic-retrieval",
        "--extension-sdk-path",
        "--auto-tier",
    }
)
_FILTERED = frozenset({"content_filter", "content-filter", "refusal"})
_GONE = b"No session, task, or name matched"
_NOT_LOGGED_IN = "no authentication information found"
_KINDS = {
    "authentication": FailureReason.AUTH,
    "authorization": FailureReason.AUTH,
    "quota": FailureReason.QUOTA,
    "rate_limit": FailureReason.RATE_LIMIT,
    "context_limit": FailureReason.CONTEXT_OVERFLOW,
}
_NO_CONNECTION = ("could not connect", "connection", "interrupted", "transport")


class CopilotAdapter(Adapter):
    capabilities = Capabilities(
        name="copilot",
        executable="copilot",
        launch_header="copilot (json)",
        prompt=PromptVia.STDIN_EOF,
        minimum_version="1.0.0",
        resume=True,
        resume_rejection=True,
        early_session_id=True,
        mcp=McpVia.FILE,
        usage=UsageVia.SIDE_FILE,
        thinking_levels=_LEVELS,
        model_source=ModelSource.PROTOCOL,
        context_file="AGENTS.md",
        skills_folder=".github/skills",
        user_skills_folder="~/.copilot/skills",
        tools_leave_group=True,
        blocked_args=_BLOCKED,
        value_args=_VALUES,
        arg_style=ArgStyle(attached_short=True, abbreviations=False),
        relevant_env=("COPILOT_HOME", "COPILOT_MODEL", "COPILOT_PROVIDER_BASE_URL", "COPILOT_OFFLINE"),
        login_env=("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY"),
        login_files=("~/.copilot/config.json", "~/.config/gh/hosts.yml"),
        config_files=("~/.copilot/config.json", "~/.copilot/mcp-config.json"),
        login_hint="run `copilot` and `/login`, or set COPILOT_GITHUB_TOKEN",
    )

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.stream = CopilotStream()
        self.requested = ""
        self.gone = False
        self.recorded: dict[str, TokenUsage] = {}
        self.began_anew = False  # the requested session was not there, and was made
        self.filtered = False  # the provider refused the last answer, which only the session's file tells
        self._users_servers: set[str] = set()

    # before ------------------------------------------------------------------------

    def before_launch(self, options: ExecOptions) -> Sequence[Request]:
        if options.mcp_config is None:
            return ()
        cwd = self.context.cwd
        return [ReadFiles("mcp", [f"{self._home}/mcp-config.json", f"{cwd}/.mcp.json", f"{cwd}/.github/mcp.json"])]

    def files(self, purpose: str, found: Sequence[FileContent]) -> Sequence[Output]:
        if purpose == "mcp":
            self._users_servers = set().union(*(_server_names(f.data) for f in found))
            return ()
        file = from_session_file(b"\n".join(f.data for f in found), self.stream.usage.told_output)
        self.recorded, self.began_anew = file.usage, file.began_anew
        self.filtered = file.finish_reason in _FILTERED
        outputs: list[Output] = [Usage(dict(self.recorded))] if self.recorded else []
        if file.finish_reason == "length":
            outputs.append(Message(MessageType.LOG, "the answer was cut off at the model's output limit", level="warn"))
        return outputs

    def launch(self, prompt: str, options: ExecOptions) -> Launch:
        self.requested = options.resume_session_id or ""
        self.gone = False
        version = self.context.version
        known = version is None or version >= _TAKES_AN_ID
        self.stream = CopilotStream(self.requested or (self.context.unique if known else ""))
        user, notices = self.user_args(options, {"--model": ArgMode.VALUE} if options.model else None)
        args = ["--output-format", "json", "--allow-all", "--no-ask-user", *self.flag("--model", options.model)]
        if self.requested:
            args += self.flag("--resume", self.requested)
        elif known:
            args += ["--session-id", self.context.unique]
        if options.thinking_level:
            args += self._effort(options.thinking_level, known, notices)
        files = self._mcp(options, args)
        if options.max_turns:
            notices.append(Message(MessageType.LOG, "copilot has no limit on turns; ignored", level="warn"))
        if version is not None and version < _READS_STDIN:
            return Launch(["-p", prompt, *args, *user], files=files, notices=notices)
        return Launch([*args, *user], files=files, stdin=prompt.encode(), notices=notices)

    def _effort(self, level: str, known: bool, notices: list[Message]) -> list[str]:
        if known and level in _LEVELS:
            return ["--reasoning-effort", level]
        why = f"the levels are {', '.join(_LEVELS)}" if known else "this version has no such flag"
        notices.append(Message(MessageType.LOG, f"ignored the thinking level: {why}", level="warn"))
        return []

    def _mcp(self, options: ExecOptions, args: list[str]) -> list[FileWrite]:
        """None inherits. A managed set is added by a file, and everything else the user has is switched off by name."""
        config = options.mcp_config
        if config is None:
            return []
        given = config.get("mcpServers")
        servers: dict[str, Any] = dict(given) if isinstance(given, dict) else {}
        args.append("--disable-builtin-mcps")
        for name in sorted(self._users_servers - set(servers)):
            args += self.flag("--disable-mcp-server", name)
        if not servers:
            return []
        path = self.scratch_file("mcp.json")
        args += ["--additional-mcp-config", f"@{path}"]
        return [FileWrite(path, json.dumps({"mcpServers": servers}).encode())]

    # during ------------------------------------------------------------------------

    def receive(self, line: bytes) -> Sequence[Output]:
        return self.stream.receive(line)

    def receive_stderr(self, line: bytes) -> Sequence[Output]:
        if self.requested and not self.stream.events and _GONE in line:
            self.gone = True
        return ()

    def noise(self) -> tuple[int, int]:
        return self.stream.parser.noise, self.stream.parser.invalid_utf8

    # the end ---------------------------------------------------------------------------

    def after_exit(self, exit: ProcessExit) -> Sequence[Request]:
        session = self.stream.session_id
        if not session or "/" in session or session in (".", ".."):
            return ()
        path = f"{self._home}/session-state/{session}/events.jsonl"
        return [ReadFiles("usage", [path], tail=True, lines_with=MARKERS)]

    def finish(self, exit: ProcessExit) -> Outcome:
        status, error, failure = self._judge(exit)
        gone = self.gone and status is RunStatus.FAILED
        return Outcome(
            status,
            # Deltas without their whole message: the process was ended, or a version names it otherwise.
            output=self.stream.answer or self.stream.partial,
            error=error,
            failure=failure,
            session_id="" if gone else self.stream.session_id,
            resume_rejected=gone or (bool(self.requested) and self.began_anew),
            usage=self.recorded or self.stream.usage.best(resumed=bool(self.requested)),
        )

    def _judge(self, exit: ProcessExit) -> tuple[RunStatus, str, FailureDetail | None]:
        stream = self.stream
        if stream.error is not None:
            return RunStatus.FAILED, *self._reported(stream.error, exit)
        if stream.aborted:
            # It reports exit code 0 after an abort.
            error = "the turn was interrupted"
            return RunStatus.ABORTED, error, FailureDetail(FailureReason.PROCESS, error)
        if not stream.events:
            return RunStatus.FAILED, *self._silent(exit)
        code = stream.exit_code
        code = exit.code if code is None else code
        if self.filtered or stream.no_content:
            error = stream.no_content or "the provider's content filter blocked the answer"
            return RunStatus.FAILED, error, failures.classify(error, exit)
        if (stream.result is not None or stream.idle) and code == 0:
            return RunStatus.COMPLETED, "", None
        said = f"; copilot stderr: {exit.stderr_tail}" if exit.stderr_tail else ""
        last = f"{stream.api_status or ''} {stream.api_text}".strip()
        what = f"copilot reported exit code {code}" if stream.result is not None else f"copilot ended with {exit}"
        error = f"{what}, no answer{': ' + last if last else ''}{said}"
        if not last:
            return RunStatus.FAILED, error, FailureDetail(FailureReason.PROCESS, error)
        return (
            RunStatus.FAILED,
            error,
            failures.classify(error, exit, http_status=stream.api_status, provider_code=stream.api_code),
        )

    def _reported(self, data: dict[str, Any], exit: ProcessExit) -> tuple[str, FailureDetail]:
        stream = self.stream
        kind = str(data.get("errorType") or "")
        text = str(data.get("message") or kind or "copilot reported an error without a text")
        status = data.get("statusCode")
        status = status if type(status) is int else stream.api_status
        # The provider's own code and sentence say more than copilot's kind: a full account is a `rate_limit` to it.
        found = failures.classify(text, exit, http_status=status, provider_code=stream.api_code)
        worded = failures.from_wording(f"{stream.api_text}")
        if worded in (FailureReason.QUOTA, FailureReason.CONTEXT_OVERFLOW):
            found = replace(found, reason=worded)
        elif found.reason in (FailureReason.UNKNOWN, FailureReason.API_INVALID_REQUEST) and kind in _KINDS:
            found = replace(found, reason=_KINDS[kind])
        elif found.reason is FailureReason.UNKNOWN and any(w in text.lower() for w in _NO_CONNECTION):
            found = replace(found, reason=FailureReason.NETWORK)
        return text, replace(found, provider_code=found.provider_code or kind or None)

    def _silent(self, exit: ProcessExit) -> tuple[str, FailureDetail]:
        said = exit.stderr_tail
        if _NOT_LOGGED_IN in said.lower():
            error = f"copilot is not logged in: {self.capabilities.login_hint}"
            return error, FailureDetail(FailureReason.AUTH, error)
        hint = "" if said else f"; it says nothing when it is not logged in: {self.capabilities.login_hint}"
        error = f"copilot returned empty output ({exit}){hint}" + (f"; copilot stderr: {said}" if said else "")
        worded = failures.classify(said, exit)
        empty = worded.reason is FailureReason.UNKNOWN
        return error, FailureDetail(FailureReason.EMPTY_OUTPUT if empty else worded.reason, error)

    @classmethod
    def render(cls, message: Message) -> Rendered:
        """Its tool for a new file is called `create`."""
        return rendering.render(replace(message, tool="create_file") if message.tool == "create" else message)

    @property
    def _home(self) -> str:
        return self.context.env.get("COPILOT_HOME") or f"{self.context.home}/.copilot"


def _server_names(data: bytes) -> set[str]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return set()
    servers = value.get("mcpServers") if isinstance(value, dict) else None
    return set(servers) if isinstance(servers, dict) else set()
