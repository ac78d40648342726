"""What an adapter may say: the outputs of its calls, carried out by the driver in the order they were said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from callboard_adapters.messages import FailureDetail, Message, TokenUsage


@dataclass(frozen=True, slots=True)
class SessionId:
    """The conversation's id, as early as it is known. The user gets it as a status message when it is new."""

    value: str


@dataclass(frozen=True, slots=True)
class Usage:
    """The running total of this run so far, per model: it replaces what was said before."""

    by_model: Mapping[str, TokenUsage]


@dataclass(frozen=True, slots=True)
class Reply:
    """Bytes for the CLI's stdin, line end included."""

    data: bytes


@dataclass(frozen=True, slots=True)
class CloseStdin:
    """End of file on the CLI's stdin, after everything written so far."""


@dataclass(frozen=True, slots=True)
class Timer:
    """Call `tick(name)` in `seconds`. The same name again moves it; None takes it back."""

    name: str
    seconds: float | None


@dataclass(frozen=True, slots=True)
class HandshakeDone:
    """The CLI is ready: ends the handshake clock (only where `Capabilities.explicit_handshake`)."""


@dataclass(frozen=True, slots=True)
class HandshakeStep:
    """One of several startup requests was answered: the handshake clock starts anew."""


@dataclass(frozen=True, slots=True)
class Alive:
    """A sign of life that is no message: moves the idle clock, and with `progress` the progress clocks too."""

    progress: bool = False


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The provider said its last word. The driver closes stdin, gives the process `grace` seconds, then ends it.

    With `quiet` stdin is closed only when no output came for that many seconds (at most `grace`): some agents send the
    last pieces of an answer after its end. Lines that still come are received. What happens to the process after this
    (exit code, signal, cancel) no longer changes the outcome.
    """

    grace: float = 3.0
    quiet: float = 0.0


@dataclass(frozen=True, slots=True)
class TurnResumed:
    """Takes `TurnEnded` back as far as possible: another turn began by itself (a background agent came home)."""


@dataclass(frozen=True, slots=True)
class Stop:
    """End the process now and fail with `failure`: waiting is useless. Nothing more is received from this process."""

    failure: FailureDetail


@dataclass(frozen=True, slots=True)
class Relaunch:
    """End this process and call `launch` again on this same adapter, within the same run (at most `MAX_RELAUNCHES`)."""

    reason: str


@dataclass(frozen=True, slots=True)
class ReadFiles:
    """Read files and answer with `files(purpose, …)`, missing ones left out, newest last.

    `patterns` are absolute paths or globs (`**` allowed). At most `max_files` of the newest, `max_bytes` of each:
    from the start, or from the end with `tail`; `offsets` gives the byte to start at per path. With `lines_with` only
    lines holding one of these byte strings are kept and `max_bytes` counts what is kept: the way through a file of
    hundreds of megabytes. `max_bytes=0` asks for sizes alone.
    """

    purpose: str
    patterns: Sequence[str]
    max_files: int = 4
    max_bytes: int = 8 << 20
    tail: bool = False
    offsets: Mapping[str, int] = field(default_factory=dict)
    lines_with: Sequence[bytes] = ()


@dataclass(frozen=True, slots=True)
class FileContent:
    path: str
    size: int
    data: bytes
    offset: int = 0


@dataclass(frozen=True, slots=True)
class RunCommand:
    """Run `<executable> <launch prefix> <args>` to its end, stdin empty, and answer with `command(purpose, …)`."""

    purpose: str
    args: Sequence[str]
    timeout: float = 30.0
    max_bytes: int = 4 << 20


@dataclass(frozen=True, slots=True)
class CommandDone:
    """`code` is None when the command did not end within its time (it has been killed) or could not start."""

    code: int | None
    stdout: bytes
    stderr: bytes


Request: TypeAlias = ReadFiles | RunCommand
Output: TypeAlias = (
    Message
    | SessionId
    | Usage
    | Reply
    | CloseStdin
    | Timer
    | HandshakeDone
    | HandshakeStep
    | Alive
    | TurnEnded
    | TurnResumed
    | Stop
    | Relaunch
    | ReadFiles
    | RunCommand
)
