"""The adapter contract.

An adapter turns one provider's command line and wire into this library's messages. It is **sans-IO**: it starts
nothing, reads no clock and touches no disk. The driver (`session.py`) calls it and does what it asks:

    adapter = Adapter(context)                     one object per run
    adapter.before_launch(options) → requests      files to read, commands to run before the launch (answers below)
    adapter.launch(prompt, options) → Launch       what to start; again after a `Relaunch`
    adapter.receive(line) → outputs                every stdout line, without its line end
    adapter.receive_stderr(line) → outputs         every stderr line
    adapter.tick(timer) → outputs                  a `Timer` it asked for ran out
    adapter.files(purpose, found) → outputs        the answer to `ReadFiles`
    adapter.command(purpose, done) → outputs       the answer to `RunCommand`
    adapter.ran_out(clock) → outputs               a clock ran out; a `Relaunch` here is done instead of ending the run
    adapter.cancel() → outputs                     the caller wants the end: say it in the protocol's words, or nothing
    adapter.after_exit(exit) → requests            side files to read once the process has gone
    adapter.finish(exit) → Outcome | Relaunch      how it ended

Calls never overlap. `receive` must not raise, whatever the bytes; if it does, the run fails and the process is ended.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Literal, TypeAlias

from callboard_adapters import codec, custom_args, rendering
from callboard_adapters.capabilities import ArgMode, Capabilities
from callboard_adapters.errors import LaunchRefused
from callboard_adapters.messages import FailureDetail, Message, RunStatus, TokenUsage, Watchdog
from callboard_adapters.options import ExecOptions
from callboard_adapters.outputs import (
    Alive,
    CloseStdin,
    CommandDone,
    FileContent,
    HandshakeDone,
    HandshakeStep,
    Output,
    ReadFiles,
    Relaunch,
    Reply,
    Request,
    RunCommand,
    SessionId,
    Stop,
    Timer,
    TurnEnded,
    TurnResumed,
    Usage,
)
from callboard_adapters.rendering import Rendered
from callboard_wire.failures import FailureReason

__all__ = [
    "MAX_RELAUNCHES",
    "Adapter",
    "Alive",
    "CloseStdin",
    "CommandDone",
    "FileContent",
    "FileLink",
    "FileWrite",
    "HandshakeDone",
    "HandshakeStep",
    "Launch",
    "Outcome",
    "Output",
    "ProcessExit",
    "ReadFiles",
    "Relaunch",
    "Reply",
    "Request",
    "RunCommand",
    "RunContext",
    "SessionId",
    "Stop",
    "StopCause",
    "Timer",
    "TurnEnded",
    "TurnResumed",
    "Usage",
    "Version",
]

Version: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class RunContext:
    """The world an adapter may know: everything it would otherwise have to look up.

    `env` is the child's environment before `Launch.env`; `scratch` a private 0700 folder for `Launch.files`, made when
    a file lands in it and removed after the run; `unique` a fresh random id for whoever must invent one;
    `started_at` the wall clock in seconds since 1970 when the run began; `version` is None when the CLI was not asked
    or its answer could not be read (`version_text` is that answer).
    """

    provider: str
    executable: str
    launch_prefix: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    home: str
    scratch: str
    run_id: str
    unique: str
    started_at: float
    platform: str
    euid: int | None
    version: Version | None = None
    version_text: str = ""


@dataclass(frozen=True, slots=True)
class FileWrite:
    """A file the driver writes before the start. `path` is absolute.

    `after`: `remove` deletes it when the run ends; `restore` puts back what was there before (or deletes it);
    `keep` leaves it. A file that may hold a secret is 0600 and never `keep`.
    """

    path: str
    content: bytes
    mode: int = 0o600
    after: Literal["remove", "restore", "keep"] = "remove"


@dataclass(frozen=True, slots=True)
class FileLink:
    """A symbolic link at `path` to `target`, made after the files; a link or file that is there already is replaced.

    `directory` makes the target (0700) when it is missing. When the run ends a link is removed (`remove`) or left
    (`keep`). If the CLI has replaced it by a file of its own meanwhile, as many do when they save, that file's bytes go
    to the target first: a login that was refreshed during the run must not be lost.
    """

    path: str
    target: str
    directory: bool = False
    after: Literal["remove", "keep"] = "remove"


@dataclass(frozen=True, slots=True)
class Launch:
    """What to start: `<executable> <launch prefix> <args>`.

    `stdin` is written at once and concurrently with reading; then stdin is closed unless `keep_stdin`. Empty `stdin`
    without `keep_stdin` gives the child the null device. `args` never hold a secret or a line feed.
    `notices` are messages the user sees first (a flag that was dropped, an option without effect). `timers` start with
    the process, for a CLI that says nothing for a long time.
    """

    args: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    env_remove: Sequence[str] = ()
    files: Sequence[FileWrite] = ()
    links: Sequence[FileLink] = ()
    stdin: bytes = b""
    keep_stdin: bool = False
    cwd: str | None = None
    notices: Sequence[Message] = ()
    timers: Sequence[Timer] = ()


MAX_RELAUNCHES = 2


class StopCause(StrEnum):
    """Why the driver ended a process that had not ended its turn."""

    CANCEL = "cancel"
    WATCHDOG = "watchdog"
    ADAPTER = "adapter"  # `Stop`
    RELAUNCH = "relaunch"
    LINE_TOO_LONG = "line_too_long"
    STDOUT_CLOSED = "stdout_closed"  # stdout ended, the process lived on
    BROKEN_ADAPTER = "broken_adapter"  # the adapter raised
    CLOSED = "closed"  # the event loop is going away


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """How the process ended. Exactly one of `code` and `signal` is set.

    `cause` is None when it ended by itself, or was ended after its turn had ended. `turn_ended`: the adapter had said
    `TurnEnded`. `stderr_tail` are the last few KiB of stderr as text. `stdin_broken`: it stopped reading its input.
    """

    code: int | None
    signal: int | None
    cause: StopCause | None
    turn_ended: bool
    stderr_tail: str
    stdin_broken: bool = False

    @property
    def clean(self) -> bool:
        return self.code == 0 and self.cause is None

    def __str__(self) -> str:
        """`exit status 3` or `killed by signal SIGTERM`: the words the classifier knows."""
        from signal import Signals

        if self.signal is None:
            return f"exit status {self.code}"
        try:
            return f"killed by signal {Signals(self.signal).name}"
        except ValueError:
            return f"killed by signal {self.signal}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The adapter's view of the end. `outcome.conclude` lays cancel, clocks and signals over it.

    `status` is completed, failed or aborted. A failure carries `error` (a sentence) and, where there is structured
    evidence, `failure`; without it the sentence is classified. `resume_rejected` only on positive evidence that the
    requested session is gone: `session_id` is then the new one or empty. `usage` None means "as last said".
    """

    status: RunStatus
    output: str = ""
    error: str = ""
    failure: FailureDetail | None = None
    session_id: str = ""
    resume_rejected: bool = False
    usage: Mapping[str, TokenUsage] | None = None


class Adapter(ABC):
    """One run of one provider. Subclasses set `capabilities` and keep their state in the object."""

    capabilities: ClassVar[Capabilities]
    indented_output: ClassVar[bool] = False
    """Stdout is one document over many indented lines: `receive` gets a line with those indented under it."""

    def __init__(self, context: RunContext) -> None:
        self.context = context

    # before ------------------------------------------------------------------

    def before_launch(self, options: ExecOptions) -> Sequence[Request]:
        """What must be known before `launch`, e.g. how large a resumed session's usage file is."""
        return ()

    @abstractmethod
    def launch(self, prompt: str, options: ExecOptions) -> Launch:
        """What to start. Raises `LaunchRefused` when it cannot work (invalid configuration, refused as root)."""

    # during ------------------------------------------------------------------

    @abstractmethod
    def receive(self, line: bytes) -> Sequence[Output]:
        """One line of stdout. Never raises; a line that is not the protocol's is counted, not fatal."""

    def receive_stderr(self, line: bytes) -> Sequence[Output]:
        return ()

    def tick(self, timer: str) -> Sequence[Output]:
        return ()

    def files(self, purpose: str, found: Sequence[FileContent]) -> Sequence[Output]:
        return ()

    def command(self, purpose: str, done: CommandDone) -> Sequence[Output]:
        return ()

    def cancel(self) -> Sequence[Output]:
        """The protocol's own cancel. With nothing to say (or nothing said) the ladder starts at once."""
        return ()

    def ran_out(self, dog: Watchdog) -> Sequence[Output]:
        """A clock ran out. Asked once before the driver ends the run for it; a `Relaunch` happens instead."""
        return ()

    # after -------------------------------------------------------------------

    def after_exit(self, exit: ProcessExit) -> Sequence[Request]:
        """Side files to read before `finish`, now that nobody writes them any more."""
        return ()

    @abstractmethod
    def finish(self, exit: ProcessExit) -> Outcome | Relaunch:
        """How it ended. Called once per process, after the last line."""

    def noise(self) -> tuple[int, int]:
        """(lines that were not the protocol's, lines with invalid UTF-8) so far, for `Result.counts`."""
        return (0, 0)

    # beside the run ------------------------------------------------------------

    @classmethod
    def render(cls, message: Message) -> Rendered:
        """A message as a UI shows it, where the usual reading of tool names and inputs is not enough."""
        return rendering.render(message)

    @classmethod
    def display_session(cls, session_id: str) -> str:
        """A session id short enough for a table."""
        return codec.display_id(session_id)

    # for subclasses ------------------------------------------------------------

    def user_args(
        self, options: ExecOptions, also_blocked: Mapping[str, ArgMode] | None = None
    ) -> tuple[list[str], list[Message]]:
        """The machine's and the agent's own arguments without those the protocol owns, and a notice for each drop."""
        return custom_args.user_args(self.capabilities, options, also_blocked)

    def scratch_file(self, name: str) -> str:
        """The absolute path of a file in the run's private folder, for a `FileWrite`."""
        return f"{self.context.scratch}/{name}"

    def flag(self, name: str, value: str | None) -> list[str]:
        """`[name, value]`, or nothing for an empty value. Raises `LaunchRefused` for a value that the CLI would read as
        another flag: a model or session id is data and must not become an option."""
        if not value:
            return []
        if value.startswith("-") or "\n" in value or "\0" in value:
            raise LaunchRefused(
                f"{name} cannot be {value[:40]!r}",
                provider=self.capabilities.name,
                failure_reason=FailureReason.API_INVALID_REQUEST,
            )
        return [name, value]
