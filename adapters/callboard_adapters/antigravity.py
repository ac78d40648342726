"""Google Antigravity CLI (`agy -p`): plain text on stdout, the rest in a log file and a transcript.

Built from the fact sheet, never driven here: the CLI cannot be installed on this machine. It exits 0 after a provider
error, after its own timeout, and (1.0.14) without having printed an answer it has; the log and the transcript tell.
The prompt is an argument: 128 KiB at most, and visible to every user of the machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from callboard_adapters import failures
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
    Timer,
)
from callboard_adapters.capabilities import ArgMode, ArgStyle, Capabilities, ModelSource, PromptVia, Timeouts
from callboard_adapters.dialects.transcript import LogFacts, PlainText, answers
from callboard_adapters.errors import LaunchRefused
from callboard_adapters.messages import FailureDetail, Message, MessageType, RunStatus
from callboard_adapters.options import ExecOptions
from callboard_wire.failures import FailureReason

_NO_LIMIT = 24 * 3600  # its own limit is five minutes, and there is no "none"
_SPARE = 60  # seconds it may take longer than our own clock, which is to fire first
_LOOK_EVERY = 5.0  # seconds between looks into the log, for the session id and as a sign of life
_OVERLAP = 4096  # bytes read again, so that a line is not missed where two looks meet

_VALUE_FLAGS = ("print", "prompt", "conversation", "model", "print-timeout", "log-file", "settings")
_LONE_FLAGS = ("prompt-interactive", "continue", "dangerously-skip-permissions", "help", "version")
_BLOCKED = {
    # Its parser takes one dash or two.
    **{f"{dash}{name}": ArgMode.VALUE for name in _VALUE_FLAGS for dash in ("--", "-")},
    **{f"{dash}{name}": ArgMode.STANDALONE for name in _LONE_FLAGS for dash in ("--", "-")},
    "-p": ArgMode.VALUE,
    "-i": ArgMode.STANDALONE,
    "-c": ArgMode.STANDALONE,
    "-h": ArgMode.STANDALONE,
}


class AntigravityAdapter(Adapter):
    capabilities = Capabilities(
        name="antigravity",
        executable="agy",
        launch_header="agy -p (non-interactive)",
        prompt=PromptVia.ARGV,
        minimum_version="0.0.0",
        resume=True,
        resume_rejection=True,
        early_session_id=True,
        model_source=ModelSource.COMMAND,
        context_file="AGENTS.md",
        skills_folder=".agents/skills",
        user_skills_folder="~/.gemini/antigravity-cli/skills",
        runs_offline=False,
        blocked_args=_BLOCKED,
        value_args=frozenset({"--add-dir", "-add-dir"}),
        arg_style=ArgStyle(attached_short=True, abbreviations=False),
        timeouts=Timeouts(handshake=None),  # a log that grows is its sign of life
        login_files=("~/.gemini/antigravity-cli",),
        config_files=("~/.gemini/antigravity-cli/settings.json",),
        login_hint="run `agy` once and log in",
    )

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.model = ""
        self._begin("")

    def _begin(self, requested: str) -> None:
        self.text = PlainText()
        self.facts = LogFacts()
        self.requested = requested
        self.session_id = ""
        self.recovered: list[str] = []
        self._seen = 0  # bytes of the log

    # before ------------------------------------------------------------------------

    def before_launch(self, options: ExecOptions) -> Sequence[Request]:
        """An unknown model makes the CLI do nothing and exit 0."""
        self.model = options.model or ""
        return [RunCommand("models", ["models"], timeout=10.0)] if self.model else []

    def command(self, purpose: str, done: CommandDone) -> Sequence[Output]:
        lines = done.stdout.decode("utf-8", "replace").splitlines()
        known = {line.split("\t")[0].strip() for line in lines if line.strip()}
        if done.code == 0 and known and self.model not in known:
            raise LaunchRefused(
                f"agy does not know the model {self.model[:60]!r}: model not found",
                provider="antigravity",
                repair="see `agy models`",
                failure_reason=FailureReason.MODEL,
            )
        return ()

    def launch(self, prompt: str, options: ExecOptions) -> Launch:
        self._begin(options.resume_session_id or "")
        user, notices = self.user_args(options)
        limit = options.timeout or 0
        seconds = math.ceil(limit) + _SPARE if limit > 0 else _NO_LIMIT
        args = ["-p", prompt, "--dangerously-skip-permissions", *self.flag("--model", options.model)]
        args += ["--print-timeout", f"{seconds // 60}m{seconds % 60}s", "--log-file", self._log]
        args += self.flag("--conversation", options.resume_session_id)
        args += ["--add-dir", self.context.cwd]
        for asked, what in (
            (bool(options.mcp_config and options.mcp_config.get("mcpServers")), "MCP servers"),
            (bool(options.max_turns), "a limit on turns"),
            (bool(options.thinking_level), "a thinking level besides its models'"),
        ):
            if asked:
                notices.append(Message(MessageType.LOG, f"agy does not take {what}; ignored", level="warn"))
        return Launch(
            [*args, *user],
            files=[FileWrite(self._log, b"")],
            notices=[*notices, _RUNNING],
            timers=[Timer("log", _LOOK_EVERY)],
        )

    # during ------------------------------------------------------------------------

    def receive(self, line: bytes) -> Sequence[Output]:
        return self.text.receive(line)

    def receive_stderr(self, line: bytes) -> Sequence[Output]:
        return [Alive()]

    def tick(self, timer: str) -> Sequence[Output]:
        look = ReadFiles(
            "look",
            [self._log],
            max_files=1,
            max_bytes=1 << 16,
            offsets={self._log: max(0, self._seen - _OVERLAP)},
            lines_with=[b"conversation="],
            tail=True,
        )
        return [look, Timer("log", _LOOK_EVERY)]

    def files(self, purpose: str, found: Sequence[FileContent]) -> Sequence[Output]:
        if purpose == "transcript":
            self.recovered = answers(found[-1].data) if found else []
            return [Message(MessageType.TEXT, f"{text}\n") for text in self.recovered]
        if not found:
            return ()
        log = found[-1]
        facts = LogFacts.read(log.data)
        outputs: list[Output] = []
        if log.size > self._seen:
            self._seen = log.size
            outputs.append(Alive())
        if facts.conversation and facts.conversation != self.session_id:
            self.session_id = facts.conversation
            outputs.append(SessionId(self.session_id))
        if purpose == "end":
            self.facts = facts
            outputs += self._missing_answer()
        return outputs

    def noise(self) -> tuple[int, int]:
        return 0, self.text.invalid_utf8

    # the end ---------------------------------------------------------------------------

    def after_exit(self, exit: ProcessExit) -> Sequence[Request]:
        return [ReadFiles("end", [self._log], max_files=1, tail=True)]

    def _missing_answer(self) -> list[Output]:
        """Version 1.0.14 printed nothing into a pipe; its transcript has what it would have printed."""
        if self.text.answer or not self.session_id:
            return []
        folder = self.facts.data_folder or f"{self.context.home}/.gemini/antigravity-cli"
        path = f"{folder}/brain/{self.session_id}/.system_generated/logs/transcript.jsonl"
        return [ReadFiles("transcript", [path], max_files=1, tail=True)]

    def finish(self, exit: ProcessExit) -> Outcome:
        status, error, failure = self._judge(exit)
        other = bool(self.session_id) and self.session_id != self.requested
        rejected = bool(self.requested) and (other or (self.facts.gone and status is RunStatus.FAILED))
        return Outcome(
            status,
            output=self._answer,
            error=error,
            failure=failure,
            session_id="" if rejected and not other else self.session_id,
            resume_rejected=rejected,
            usage={},
        )

    @property
    def _answer(self) -> str:
        return self.text.answer or "\n\n".join(self.recovered)

    def _judge(self, exit: ProcessExit) -> tuple[RunStatus, str, FailureDetail | None]:
        said = f"; agy stderr: {exit.stderr_tail}" if exit.stderr_tail else ""
        facts = self.facts
        if facts.error:  # the log names what the exit code, 0 or not, does not
            return RunStatus.FAILED, facts.error, failures.classify(facts.error, exit)
        if facts.timed_out:
            error = "agy stopped waiting for the answer: its print mode timed out"
            return RunStatus.TIMEOUT, error, FailureDetail(FailureReason.TIMEOUT, error)
        if exit.code != 0:
            error = f"agy ended with {exit}{said}"
            return RunStatus.FAILED, error, failures.classify(error, exit)
        if not self._answer:
            version = self.context.version_text or "of unknown version"
            error = f"agy ({version}) returned empty output and its transcript holds no answer{said}"
            return RunStatus.FAILED, error, FailureDetail(FailureReason.EMPTY_OUTPUT, error)
        return RunStatus.COMPLETED, "", None

    # pieces ----------------------------------------------------------------------------

    @property
    def _log(self) -> str:
        return self.scratch_file("agy.log")


_RUNNING = Message(MessageType.STATUS, "agy says nothing before its answer", status="running")
