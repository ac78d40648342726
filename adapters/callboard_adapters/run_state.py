"""What outlives one process of a run."""

from __future__ import annotations

from dataclasses import dataclass, field

from callboard_adapters.messages import Message, TokenUsage
from callboard_adapters.stream import MessageStream
from callboard_adapters.watchdogs import Watchdogs


@dataclass(slots=True)
class RunState:
    """`lines` and `bytes` are of the processes that have ended."""

    stream: MessageStream
    watchdogs: Watchdogs
    usage: dict[str, TokenUsage] = field(default_factory=dict)
    session_id: str = ""
    lines: int = 0
    bytes: int = 0

    def say(self, message: Message, now: float) -> bool:
        """Pass a message on; True when the clocks must be looked at."""
        self.stream.put(message)
        return self.watchdogs.message(message, now)
