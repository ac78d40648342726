"""Pi (`pi -p --mode json`, prompt by stdin).

Verified on 0.73.1, whose own output the recordings under `tests/fixtures/transcripts/pi` are, on 0.52.6 and 0.63.1
(which count reasoning twice, in `output`), and on 1.6.0 of `@earendil-works/pi-coding-agent`, its name since. The
session id is pi's own (first line of the stream); a resume may also name a session file, as other products do. Pi
begins a new session without a word when a file is missing, so the file is looked for first. It exits 0 after every
provider error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from callboard_adapters import failures
from callboard_adapters.base import (
    Adapter,
    FileContent,
    Launch,
    Outcome,
    Output,
    ProcessExit,
    ReadFiles,
    Request,
    RunContext,
    SessionId,
)
from callboard_adapters.capabilities import ArgMode, ArgStyle, Capabilities, ModelSource, PromptVia, UsageVia
from callboard_adapters.errors import LaunchRefused
from callboard_adapters.messages import FailureDetail, Message, MessageType, RunStatus
from callboard_adapters.options import ExecOptions
from callboard_adapters.pi_args import VALUES, options_only
from callboard_adapters.pi_stream import PiStream
from callboard_wire.failures import FailureReason

_BLOCKED = {
    "-p": ArgMode.STANDALONE,
    "--print": ArgMode.STANDALONE,
    "--mode": ArgMode.VALUE,
    "--session": ArgMode.VALUE,
    "--thinking": ArgMode.VALUE,
    "--fork": ArgMode.VALUE,
    "--continue": ArgMode.STANDALONE,
    "-c": ArgMode.STANDALONE,
    "--resume": ArgMode.STANDALONE,
    "-r": ArgMode.STANDALONE,
    "--no-session": ArgMode.STANDALONE,
    "--export": ArgMode.VALUE,
    "--list-models": ArgMode.OPTIONAL,
    "--help": ArgMode.STANDALONE,
    "-h": ArgMode.STANDALONE,
    "--version": ArgMode.STANDALONE,
    "-v": ArgMode.STANDALONE,
}
_READS_STDIN = "0.48.0"
"""Since 0.47.0 pi takes its prompt from stdin (0.30.2 does nothing and calls that a success), since 0.48.0 it finds a
session of another folder by its id; by pi's own list of changes."""
_LEVEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ID = re.compile(r"[0-9A-Za-z-]{8,64}")
_GONE = re.compile(rb"No session found matching", re.IGNORECASE)
_REFUSED = frozenset({"refusal", "content_filter"})
_STATUS = re.compile(r"\s*([45]\d\d)\b")
_DROPPED = re.compile(r"terminated|fetch failed|socket hang up|other side closed|econn|network", re.IGNORECASE)


class PiAdapter(Adapter):
    capabilities = Capabilities(
        name="pi",
        executable="pi",
        launch_header="pi (json mode)",
        prompt=PromptVia.STDIN_EOF,
        minimum_version=_READS_STDIN,
        resume=True,
        resume_rejection=True,
        early_session_id=True,
        usage=UsageVia.STREAM,
        cost=True,
        thinking_levels=("off", "minimal", "low", "medium", "high", "xhigh", "max"),
        model_source=ModelSource.COMMAND,
        context_file="AGENTS.md",
        skills_folder=".pi/skills",
        user_skills_folder="~/.pi/agent/skills",
        tools_leave_group=True,
        blocked_args=_BLOCKED,
        value_args=VALUES,
        arg_style=ArgStyle(attached_short=False, abbreviations=False),
        relevant_env=("PI_CODING_AGENT_DIR", "PI_CODING_AGENT_SESSION_DIR", "PI_OFFLINE"),
        login_env=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "XAI_API_KEY"),
        login_files=("~/.pi/agent/auth.json", "~/.pi/agent/models.json"),
        config_files=("~/.pi/agent/settings.json", "~/.pi/agent/models.json"),
        login_hint="run `pi` and `/login`, or set the API key of your provider",
    )

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.stream = PiStream()
        self.requested = ""
        self.found = ""  # the file of the requested session
        self.gone = False

    # before ------------------------------------------------------------------------

    def before_launch(self, options: ExecOptions) -> Sequence[Request]:
        self.requested = options.resume_session_id or ""
        if not self.requested:
            return ()
        if _is_path(self.requested):
            return [ReadFiles("session", [self.requested], max_bytes=0)]
        if not _ID.fullmatch(self.requested):
            return ()
        # By its file, so that a session is found from another folder too: by id pi would ask whether to copy it.
        env = self.context.env
        home = env.get("PI_CODING_AGENT_DIR") or f"{self.context.home}/.pi/agent"
        folders = [f"{home}/sessions/*"]
        if env.get("PI_CODING_AGENT_SESSION_DIR"):
            folders.append(env["PI_CODING_AGENT_SESSION_DIR"])
        return [ReadFiles("session", [f"{f}/*_{self.requested}.jsonl" for f in folders], max_files=1, max_bytes=0)]

    def files(self, purpose: str, found: Sequence[FileContent]) -> Sequence[Output]:
        self.found = found[-1].path if found else ""
        return ()

    def launch(self, prompt: str, options: ExecOptions) -> Launch:
        if not prompt.strip():
            raise LaunchRefused(
                "pi does nothing with an empty prompt and calls that a success",
                provider="pi",
                failure_reason=FailureReason.API_INVALID_REQUEST,
            )
        self.stream = PiStream(options.model or "")
        self.gone = False
        user, notices = self.user_args(options, {"--model": ArgMode.VALUE} if options.model else None)
        user, dropped = options_only(user)
        if dropped:
            text = f"dropped {dropped} words from the arguments: pi would add them to the prompt"
            notices.append(Message(MessageType.LOG, text, level="warn"))
        self._without_effect(options, notices)
        args = ["-p", "--mode", "json", *self._session_args(), *self.flag("--model", options.model)]
        level = options.thinking_level
        if level and _LEVEL.fullmatch(level):
            args += ["--thinking", level]
        elif level:
            notices.append(Message(MessageType.LOG, "ignored a thinking level that is no word", level="warn"))
        # Under systemd an open stdin keeps it waiting for ever: the driver closes it after the prompt.
        return Launch([*args, *user], stdin=prompt.encode(), notices=notices)

    def _session_args(self) -> list[str]:
        if not self.requested:
            return []
        if self.found:
            return self.flag("--session", self.found)
        if not _is_path(self.requested):
            return self.flag("--session", self.requested)
        # A missing file would quietly become a new session; a name that is none makes pi say that it is gone.
        name = self.requested.replace("\\", "/").rstrip("/").rpartition("/")[2]
        return self.flag("--session", name.removesuffix(".jsonl") or "missing")

    def _without_effect(self, options: ExecOptions, notices: list[Message]) -> None:
        if options.mcp_config and options.mcp_config.get("mcpServers"):
            notices.append(Message(MessageType.LOG, "pi takes no MCP servers; ignored", level="warn"))
        if options.max_turns:
            notices.append(Message(MessageType.LOG, "pi has no limit on turns; ignored", level="warn"))

    # during ------------------------------------------------------------------------

    def receive(self, line: bytes) -> Sequence[Output]:
        outputs = self.stream.receive(line)
        if self.found and _is_path(self.requested):
            # Whoever resumes by a file goes on by that file.
            return [SessionId(self.requested) if isinstance(o, SessionId) else o for o in outputs]
        return outputs

    def receive_stderr(self, line: bytes) -> Sequence[Output]:
        if self.requested and not self.stream.events and _GONE.search(line):
            self.gone = True
        return ()

    def noise(self) -> tuple[int, int]:
        return self.stream.parser.noise, self.stream.parser.invalid_utf8

    # the end ---------------------------------------------------------------------------

    def finish(self, exit: ProcessExit) -> Outcome:
        status, error, failure = self._judge(exit)
        missing = _is_path(self.requested) and not self.found
        rejected = bool(self.requested) and (self.gone or missing)
        by_file = bool(self.found) and _is_path(self.requested)
        own = self.requested if by_file and self.stream.session_id else self.stream.session_id
        return Outcome(
            status,
            output=self.stream.answer or ("" if status is RunStatus.COMPLETED else self.stream.partial),
            error=error,
            failure=failure,
            session_id=own,
            resume_rejected=rejected,
            usage=self.stream.usage,
        )

    def _judge(self, exit: ProcessExit) -> tuple[RunStatus, str, FailureDetail | None]:
        stream = self.stream
        if stream.turn_error:
            error = stream.turn_error
            if stream.stop_reason == "aborted":
                return RunStatus.ABORTED, error, failures.classify(error, exit)
            if stream.raw_stop_reason in _REFUSED:
                refused = FailureDetail(FailureReason.AGENT_BLOCKED, error, provider_code=stream.raw_stop_reason)
                return RunStatus.FAILED, error, refused
            return RunStatus.FAILED, error, _classified(error, exit)
        if stream.ended and not stream.turn_open:
            return RunStatus.COMPLETED, "", None
        said = exit.stderr_tail
        if not stream.events:
            error = f"pi returned empty output ({exit})" + (f"; pi stderr: {said}" if said else "")
            worded = failures.classify(said, exit)
            empty = worded.reason is FailureReason.UNKNOWN
            return RunStatus.FAILED, error, FailureDetail(FailureReason.EMPTY_OUTPUT if empty else worded.reason, error)
        error = f"pi ended with {exit} in the middle of its work" + (f"; pi stderr: {said}" if said else "")
        return RunStatus.FAILED, error, FailureDetail(FailureReason.PROCESS, error)


def _is_path(session: str) -> bool:
    return "/" in session or "\\" in session or session.endswith(".jsonl")


def _classified(error: str, exit: ProcessExit) -> FailureDetail:
    """Pi's error is a sentence that begins with the provider's status. The words tell more: a full account is 429."""
    found = failures.classify(error, exit)
    status = _STATUS.match(error)
    if found.reason is FailureReason.UNKNOWN:
        if status:
            found = failures.classify(error, exit, http_status=int(status[1]))
        elif _DROPPED.search(error):
            found = replace(found, reason=FailureReason.NETWORK)
    return replace(found, http_status=int(status[1])) if status else found
