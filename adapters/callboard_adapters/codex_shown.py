"""What a turn of codex has shown so far, whichever of its two protocols told it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from callboard_adapters.base import Alive, Output, Stop, Timer
from callboard_adapters.codex_errors import TurnError
from callboard_adapters.codex_items import Tool
from callboard_adapters.messages import Message, MessageType

ALIVE: tuple[Output, ...] = (Alive(),)
_WORKING: tuple[Output, ...] = (Alive(progress=True),)
IDLE_WAIT = 5.0
"""Seconds between "the thread is idle" (or a final error) and taking the turn for over without its own end. Today's
servers say idle a millisecond before `turn/completed`, and only the latter says whether the turn failed."""
_NETWORK_WAITS = 3
"""Without a network codex waits for ever and says so after 10, 17, 30, 53 seconds and ever less often. Work that has
begun is left to it; a turn in which nothing has happened yet is ended at this announcement: it can be run again."""
_UNKNOWN_SHOWN = 4000  # characters of an event nobody knows yet


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How the turn ended, in codex's view: `completed`, `failed` or `interrupted`."""

    status: str
    error: TurnError | None = None


class Shown:
    """What a turn has shown so far, whichever protocol told it."""

    def __init__(self) -> None:
        self.end: TurnEnd | None = None
        self.error: TurnError | None = None  # final; the first one counts
        self.retrying: TurnError | None = None  # the last one codex went on after
        self.progressed = False  # a word, thought or tool call came
        self.tools: dict[str, str] = {}  # call id → tool, still running
        self._final = ""
        self._last = ""
        self._partial: dict[str, list[str]] = {}  # item id → what has arrived of its text
        self._abandoned = ""
        self._done: set[str] = set()  # ids of items that have been shown whole
        self._unknown: set[str] = set()
        self._waits = 0

    @property
    def answer(self) -> str:
        """The text marked as final answer, else the last message, else what had arrived of one."""
        return self._final or self._last or self._unfinished() or self._abandoned

    def text(self, text: str, phase: Any = None, item_id: str = "") -> list[Output]:
        self._partial.pop(item_id, None)
        if not text.strip() or self._again(item_id):
            return [Alive()]
        # Pieces of another message whose end never came stand before this one, and are not the last word. Under no id,
        # or a wrong one, they may be this message's own.
        before = [whole for parts in self._partial.values() if (whole := "".join(parts)).strip() and whole not in text]
        self._partial.clear()
        self._last = text
        if phase == "final_answer":
            self._final = text
        return [*(Message(MessageType.TEXT, one) for one in before), *self._progress(Message(MessageType.TEXT, text))]

    def partial(self, item_id: str, delta: Any) -> Sequence[Output]:
        if isinstance(delta, str) and item_id not in self._done:
            self._partial.setdefault(item_id, []).append(delta)
        return self.alive()

    def thinking(self, text: str) -> Sequence[Output]:
        if not text.strip():
            return self.alive()
        return self._progress(Message(MessageType.THINKING, text))

    def alive(self) -> Sequence[Output]:
        """Work that leaves nothing to show: a piece of text, a thought codex keeps to itself."""
        self.progressed = True
        return _WORKING

    def tool_started(self, call_id: str, tool: Tool) -> Sequence[Output]:
        if not tool.early or call_id in self.tools or call_id in self._done:
            return self.alive()
        self.tools[call_id] = tool.name
        return self._progress(Message(MessageType.TOOL_USE, tool=tool.name, call_id=call_id, input=tool.input))

    def tool_ended(self, call_id: str, tool: Tool) -> list[Output]:
        """The result; with the call before it where its start was not shown."""
        if self._again(call_id):
            return [Alive()]
        outputs: list[Output] = []
        if call_id not in self.tools:
            outputs += self._progress(Message(MessageType.TOOL_USE, tool=tool.name, call_id=call_id, input=tool.input))
        name = self.tools.pop(call_id, tool.name)
        status = "failed" if tool.failed else "completed"
        result = Message(MessageType.TOOL_RESULT, tool=name, call_id=call_id, output=tool.output, status=status)
        return [*outputs, *self._progress(result)]

    def failing(self, error: TurnError, *, will_retry: bool) -> list[Output]:
        if will_retry:
            self.retrying = error
            # What had arrived of a message is sent again from its start: half of it counts only if nothing follows.
            self._abandoned = self._unfinished() or self._abandoned
            self._partial.clear()
            retrying = Message(MessageType.STATUS, error.text, status="retrying")
            self._waits += "waiting for network" in error.text
            if self._waits < _NETWORK_WAITS or self.progressed:
                return [retrying]
            return [retrying, Stop(error.failure())]
        self.error = self.error or error
        return [Message(MessageType.ERROR, error.text), Timer("idle", IDLE_WAIT)]

    def finish(self, end: TurnEnd) -> list[Output]:
        """The turn is over: show what had arrived of an unfinished message and close the tools that were running."""
        self.end = end
        rest = self._unfinished() or ("" if self._last else self._abandoned)
        outputs: list[Output] = [Timer("idle", None)]
        if rest.strip():
            self._last = rest
            outputs.append(Message(MessageType.TEXT, rest))
        for call_id, name in self.tools.items():
            outputs.append(
                Message(
                    MessageType.TOOL_RESULT,
                    tool=name,
                    call_id=call_id,
                    output=f"the turn ended ({end.status}) while this ran",
                    status="failed",
                )
            )
        self.tools.clear()
        self._partial.clear()
        return outputs

    def unheard_of(self, what: str, event: Any) -> list[Output]:
        """Nothing is dropped because a newer codex says something new."""
        level = "debug" if what in self._unknown else "warn"
        if len(self._unknown) < 1000:
            self._unknown.add(what)
        shown = json.dumps(event, ensure_ascii=False, default=str)[:_UNKNOWN_SHOWN]
        return [Message(MessageType.LOG, f"unknown {what}: {shown}", level=level)]

    def _again(self, item_id: str) -> bool:
        """Whether this item has been shown before: an event told twice is one event."""
        if item_id in self._done:
            return True
        if item_id:
            self._done.add(item_id)
        return False

    def _progress(self, message: Message) -> list[Output]:
        self.progressed = True
        return [message]

    def _unfinished(self) -> str:
        return "\n\n".join("".join(parts) for parts in self._partial.values())
