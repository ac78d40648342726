"""What outlives one process of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from callboard_adapters.dialects.json_values import flatten
from callboard_adapters.messages import Message, MessageType, TokenUsage
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
class _Call:
    running: int = 0
    use: tuple[str, Mapping[str, Any] | None] | None = None  # the last start, while it runs
    ended: bool = False
    parent: str = ""


@dataclass(slots=True)
class RunState:
    """`lines` and `bytes` are of the processes that have ended."""

    stream: MessageStream
    watchdogs: Watchdogs
    usage: dict[str, TokenUsage] = field(default_factory=dict)
    session_id: str = ""
    lines: int = 0
    bytes: int = 0
    _calls: dict[str, _Call] = field(default_factory=dict)

    def say(self, message: Message, now: float) -> bool:
        """Pass a message on; True when the clocks must be looked at."""
        if in_words(message).call_id and self._told_before(message):
            self.watchdogs.alive(now)
            return False
        self.stream.put(message)
        return self.watchdogs.message(message, now)

    def close(self) -> None:
        """End every tool call that still runs: its process is gone, and a consumer would wait for its end for ever."""
        for call_id, call in self._calls.items():
            for _ in range(call.running):
                said = "the run ended before this call's result came"
                result = Message(MessageType.TOOL_RESULT, call_id=call_id, parent_call_id=call.parent, output=said)
                result.status = "failed"
                self.stream.put(result)
            call.running = 0

    def _told_before(self, message: Message) -> bool:
        """A tool's start or end that an earlier event told. Models of some providers give several calls one id: another
        tool or input, or a start after an end, is another call."""
        call = self._calls.setdefault(message.call_id, _Call())
        if message.type is MessageType.TOOL_USE:
            use = (message.tool, message.input)
            if call.running and call.use == use:
                return True
            call.running, call.use, call.parent = call.running + 1, use, message.parent_call_id
        elif message.type is MessageType.TOOL_RESULT:
            if call.ended and not call.running:
                return True
            call.running, call.use, call.ended = max(0, call.running - 1), None, True
        return False
