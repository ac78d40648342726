"""The clocks of a run, as arithmetic on times the driver passes in.

| clock | starts | is pushed back by | while |
| --- | --- | --- | --- |
| hard | start | nothing | always |
| handshake | start | nothing | until the CLI is ready |
| first progress | ready | nothing | until the first text, thought or tool call |
| semantic inactivity | first progress | progress | no tool runs |
| idle | start | any message or sign of life | no tool runs |
| tool | a tool's start | any message or sign of life | a tool runs |

Announcements of a retry are messages and no progress: they keep a run from looking dead and cannot keep it for ever.
"""

from __future__ import annotations

from dataclasses import dataclass

from callboard_adapters.capabilities import Timeouts
from callboard_adapters.messages import Message, MessageType, Watchdog
from callboard_adapters.options import ExecOptions

_PROGRESS = frozenset({MessageType.TEXT, MessageType.THINKING, MessageType.TOOL_USE, MessageType.TOOL_RESULT})


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds; None is no limit."""

    hard: float | None
    handshake: float | None
    first_progress: float | None
    semantic_inactivity: float | None
    idle: float | None
    tool: float | None

    @classmethod
    def choose(cls, options: ExecOptions, defaults: Timeouts) -> Limits:
        """The caller's, else the provider's; 0 or less is none."""

        def limit(asked: float | None, default: float | None) -> float | None:
            value = default if asked is None else asked
            return None if value is None or value <= 0 else value

        return cls(
            limit(options.timeout, None),
            limit(options.handshake_timeout, defaults.handshake),
            limit(options.first_progress_timeout, defaults.first_progress),
            limit(options.semantic_inactivity_timeout, defaults.semantic_inactivity),
            limit(options.idle_watchdog_timeout, defaults.idle),
            limit(options.tool_watchdog_timeout, defaults.tool),
        )


class Watchdogs:
    """Times are the driver's monotonic seconds."""

    def __init__(self, limits: Limits, now: float) -> None:
        self.limits = limits
        self._start_of_run = now
        self.relaunched(now)

    @property
    def is_ready(self) -> bool:
        return self._ready is not None

    def limit_of(self, dog: Watchdog) -> float:
        """That clock's limit in seconds (0 for none)."""
        return getattr(self.limits, dog.value) or 0.0

    def relaunched(self, now: float) -> None:
        """A new process in the same run: everything but the hard limit begins anew."""
        self._start = now
        self._ready: float | None = None
        self._progress: float | None = None
        self._life = now
        self._tools: set[str] = set()

    def ready(self, now: float) -> None:
        if self._ready is None:
            self._ready = self._life = now

    def handshake_step(self, now: float) -> None:
        self._start = self._life = now

    def alive(self, now: float, progress: bool = False) -> None:
        self._life = now
        if progress:
            self._progress = now

    def message(self, message: Message, now: float) -> bool:
        """Note a message. True when it started a clock that may run out before those already running."""
        self._life = now
        kind = message.type
        if kind not in _PROGRESS:
            return False
        first = self._progress is None
        self._progress = now
        if kind is MessageType.TOOL_USE and message.call_id:
            self._tools.add(message.call_id)
            return True
        if kind is MessageType.TOOL_RESULT:
            self._tools.discard(message.call_id)
            return True
        return first

    def next(self) -> tuple[float, Watchdog] | None:
        """When the first clock runs out if nothing happens until then, and which; None when none runs."""
        ends = [(at, dog) for at, dog in self._ends() if at is not None]
        return min(ends, key=lambda e: e[0]) if ends else None

    def _ends(self) -> list[tuple[float | None, Watchdog]]:
        limits = self.limits

        def end(since: float | None, limit: float | None) -> float | None:
            return None if since is None or limit is None else since + limit

        ends = [(end(self._start_of_run, limits.hard), Watchdog.HARD)]
        if self._ready is None:
            ends.append((end(self._start, limits.handshake), Watchdog.HANDSHAKE))
        elif self._progress is None:
            ends.append((end(self._ready, limits.first_progress), Watchdog.FIRST_PROGRESS))
        if self._tools:
            ends.append((end(self._life, limits.tool), Watchdog.TOOL))
        else:
            ends.append((end(self._life, limits.idle), Watchdog.IDLE))
            ends.append((end(self._progress, limits.semantic_inactivity), Watchdog.SEMANTIC_INACTIVITY))
        return ends
