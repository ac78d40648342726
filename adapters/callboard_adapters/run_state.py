"""What outlives one process of a run."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from callboard_adapters.dialects.json_values import flatten
from callboard_adapters.messages import Message, TokenUsage
from callboard_adapters.stream import MessageStream
from callboard_adapters.watchdogs import Watchdogs

_WORDS = tuple(one.name for one in fields(Message) if one.type == "str")
"""What a consumer may rely on to be text. CLIs have put numbers, objects and nothing at all where ids and names belong,
and one such event must not cost the run."""


def in_words(message: Message) -> Message:
    """The same message, with text in every field that promises text."""
    for name in _WORDS:
        if type(getattr(message, name)) is not str:
            setattr(message, name, flatten(getattr(message, name)))
    return message


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
        self.stream.put(in_words(message))
        return self.watchdogs.message(message, now)
