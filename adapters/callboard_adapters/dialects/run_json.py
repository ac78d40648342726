"""Run JSON: the line protocol of `opencode run --format json` and of products on its engine (deveco).

There is no result event: a run is over when its last step closed and did not ask to go on. `RunJson` turns lines into
outputs and remembers what decides that; `RunJsonAdapter` makes the outcome of it.

One event carries one finished part (no deltas); `tool_use` comes when the tool has ended. An `error` need not be the
end: a full context window is reported, compacted away and answered, and the CLI still exits 1.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from callboard_adapters.base import Alive, Output, SessionId, TurnEnded, TurnResumed, Usage
from callboard_adapters.dialects.json_values import count, flatten
from callboard_adapters.dialects.ndjson import LineParser
from callboard_adapters.messages import Message, MessageType, TokenUsage

EXIT_GRACE = 5.0  # seconds between the last step and an exit; a healthy CLI needs a tenth of one
_UNKNOWN_SHOWN = 4000  # characters of an event nobody knows yet
_TICKS = 10**10  # per US dollar
_ALIVE: tuple[Output, ...] = (Alive(),)
_RUNNING = ("pending", "running")
_FINAL = frozenset({"stop", "length", "content-filter", "end_turn"})
"""Finish reasons after which the CLI says no more by itself. On `unknown` some versions go on: the end tells."""


@dataclass(slots=True)
class Step:
    """One model call: from `step_start` to `step_finish`."""

    open: bool = True
    announced: bool = False  # by a `step_start`
    text: str = ""
    called: bool = False  # a tool that the CLI ran: its result must go back to the model
    anything: bool = False  # text, thought, tool or tokens
    reason: str = ""

    @property
    def wants_more(self) -> bool:
        """Whether the model must be asked again. Some providers say `stop` although they called a tool."""
        return self.reason == "tool-calls" or (bool(self.reason) and self.called)


class RunJson:
    """State of one process."""

    def __init__(self, model: str = "") -> None:
        self.parser = LineParser()
        self.session_id = ""
        self.model = model or "unknown"
        self.events = 0
        self.last_part = ""  # the id of the last part that arrived whole; ids grow
        self.step: Step | None = None
        self.error: dict[str, Any] | None = None  # the last one, until a later step ends well
        self.answer = ""  # text of the last step, "" when that step called a tool
        self.truncated = False  # the provider's output limit cut the last step off
        self.silent_after_tool = False  # the last thing said was a tool's end
        self.delegated = False  # a sub-agent was at work: what it cost is not in the stream
        self._ended = False
        self._last: dict[str, Any] = {}  # the last event with a part of a name
        self._tokens = TokenUsage()
        self._shown: set[str] = set()  # tool calls already told
        self._unknown: set[str] = set()
        self._handlers: dict[str, Callable[[dict[str, Any]], Sequence[Output]]] = {
            "step_start": self._step_start,
            "text": self._text,
            "reasoning": self._reasoning,
            "tool_use": self._tool_use,
            "step_finish": self._step_finish,
            "error": self._error,
        }

    def receive(self, line: bytes) -> Sequence[Output]:
        """One line. Never raises: an event of an unexpected shape is shown as a log message."""
        event = self.parser.parse(line)
        if event is None:
            return self.parser.notices()
        self.events += 1
        outputs: list[Output] = list(self.parser.notices()) if self.parser.has_notices else []
        session_id = event.get("sessionID")
        if session_id and type(session_id) is str and session_id != self.session_id:
            self.session_id = session_id
            outputs.append(SessionId(session_id))
        part = event.get("part")
        kind = event.get("type")
        if isinstance(part, dict) and isinstance(part.get("id"), str):
            self.last_part = max(self.last_part, part["id"])
            last, self._last = self._last, event
            if event == last:
                return _ALIVE  # the same part twice
        handler = self._handlers.get(kind) if type(kind) is str else None
        try:
            outputs += handler(event) if handler else self._unheard_of(f"event {kind!r}", event)
        except (AttributeError, KeyError, TypeError, ValueError):
            outputs += self._unheard_of(f"shape of event {kind!r}", event)
        return outputs

    def usage(self) -> dict[str, TokenUsage]:
        """This run's tokens: the sum over its steps, {} when no step said any."""
        return {self.model: self._tokens} if self._tokens.tokens or self._tokens.cost_usd_ticks else {}

    # events ----------------------------------------------------------------------

    def _step_start(self, event: dict[str, Any]) -> Sequence[Output]:
        if self.step is None or not self.step.open or self.step.announced:
            self.step = Step()
            self.answer = ""
            self.silent_after_tool = False
        self.step.announced = True  # its first part may have come before it
        return self._go_on() or _ALIVE

    def _text(self, event: dict[str, Any]) -> Sequence[Output]:
        part = event["part"]
        text = flatten(part["text"])
        if part.get("synthetic") or _mapping(part.get("metadata")).get("compaction_continue"):
            # The CLI speaks to the model by itself: after a compaction it goes on with another call.
            return [*self._go_on(), Message(MessageType.LOG, text, level="debug")]
        if not text:
            return _ALIVE
        step = self._current()
        step.anything = True
        step.text += text
        self.answer = "" if step.called else step.text
        return [*self._go_on(), Message(MessageType.TEXT, text)]

    def _reasoning(self, event: dict[str, Any]) -> Sequence[Output]:
        text = flatten(event["part"]["text"])
        self._current().anything = True
        return [*self._go_on(), Message(MessageType.THINKING, text)] if text else _ALIVE

    def _tool_use(self, event: dict[str, Any]) -> Sequence[Output]:
        part = event["part"]
        state = part["state"]
        call_id = flatten(part.get("callID"))
        step = self._current()
        step.anything = True
        if not _mapping(part.get("metadata")).get("providerExecuted"):
            step.called, self.answer = True, ""
        outputs: list[Output] = [*self._go_on()]
        tool = flatten(part.get("tool"))
        self.delegated = self.delegated or "sessionId" in _mapping(state.get("metadata"))
        # A call that fits no tool is given to one called `invalid`, which says so and "completes".
        meant = _mapping(state.get("input")).get("tool") if tool == "invalid" else None
        tool = meant if isinstance(meant, str) and meant else tool
        if call_id not in self._shown or not call_id:
            self._shown.add(call_id)
            given = state.get("input")
            outputs.append(
                Message(
                    MessageType.TOOL_USE,
                    tool=tool,
                    call_id=call_id,
                    input=given if isinstance(given, dict) else {"input": given},
                )
            )
            if not ("tool" in part and "input" in state):
                outputs += self._unheard_of("shape of a tool call", event)
        status = state.get("status")
        # Under another word for the end the result is there all the same.
        ended = status not in _RUNNING and bool(state.get("error") or state.get("output") is not None)
        if status in ("completed", "error") or ended:
            self.silent_after_tool = True
            # A command that exits 3 is a completed tool; whoever reads the run wants to know.
            code = _mapping(state.get("metadata")).get("exit")
            failed = status == "error" or bool(state.get("error")) or (type(code) is int and code != 0)
            failed = failed or meant is not None
            said = state.get("error") if failed and state.get("error") else state.get("output")
            outputs.append(
                Message(
                    MessageType.TOOL_RESULT,
                    tool=tool,
                    call_id=call_id,
                    output=said if type(said) is str else flatten(said),
                    status="failed" if failed else "completed",
                )
            )
            if said is None:
                outputs += self._unheard_of("shape of a tool's end", event)
        return outputs

    def _step_finish(self, event: dict[str, Any]) -> Sequence[Output]:
        part = event["part"]
        step = self._current()
        step.open = False
        step.reason = str(part.get("reason") or "")
        used = step_usage(part)
        self._tokens = self._tokens + used
        step.anything = step.anything or bool(used.tokens or used.cost_usd_ticks) or _total(part) > 0
        outputs: list[Output] = [Usage(self.usage())] if used.tokens or used.cost_usd_ticks else [Alive()]
        if not isinstance(part.get("tokens"), dict):
            outputs += self._unheard_of("shape of a step's end", event)
        if step.reason == "error":
            return outputs
        if not step.wants_more and step.anything:
            self.error = None
        if step.reason == "length":
            self.truncated = True
            outputs.append(Message(MessageType.LOG, "the answer was cut off at the model's output limit", level="warn"))
        if step.reason in _FINAL and not step.wants_more and step.anything:
            self._ended = True
            outputs.append(TurnEnded(EXIT_GRACE))
        return outputs

    def _error(self, event: dict[str, Any]) -> Sequence[Output]:
        error = event.get("error")
        self.error = error if isinstance(error, dict) else {"name": "", "data": {"message": flatten(error)}}
        return [*self._go_on(), Message(MessageType.ERROR, error_text(self.error))]

    # helpers -----------------------------------------------------------------------

    def _current(self) -> Step:
        if self.step is None or not self.step.open:
            self.step = Step()
        return self.step

    def _go_on(self) -> list[Output]:
        """Something came after a last word: it was not the last."""
        if not self._ended:
            return []
        self._ended = False
        return [TurnResumed()]

    def _unheard_of(self, what: str, value: dict[str, Any]) -> list[Output]:
        level = "debug" if what in self._unknown else "warn"
        self._unknown.add(what)
        shown = json.dumps(value, ensure_ascii=False, default=str)[:_UNKNOWN_SHOWN]
        return [Message(MessageType.LOG, f"unknown {what}: {shown}", level=level)]


def error_text(error: Mapping[str, Any]) -> str:
    """The sentence of an `error` object: its message, else its name."""
    data = _mapping(error.get("data"))
    said = data.get("message") or error.get("message") or error.get("name") or "an error without a text"
    return flatten(said).strip()


def step_usage(part: Mapping[str, Any]) -> TokenUsage:
    """`input` is what no cache served; `output` leaves the reasoning out, so it is put in here.

    Not in 1.2.27, which counts the reasoning in `output` and tells it again: there `total` is the sum without it.
    """
    tokens = _mapping(part.get("tokens"))
    cache = _mapping(tokens.get("cache"))
    written, read = count(cache.get("write")), count(cache.get("read"))
    uncached, said, thought = (count(tokens.get(name)) for name in ("input", "output", "reasoning"))
    if thought <= said and count(tokens.get("total")) == uncached + said + read + written:
        thought = 0
    cost = part.get("cost")
    priced = isinstance(cost, int | float) and 0 < cost < 1e6  # 0 is what a model without a known price costs
    return TokenUsage(
        uncached,
        said + thought,
        read,
        written,
        round(float(cost) * _TICKS) if priced and cost is not None else None,
    )


def _total(part: Mapping[str, Any]) -> int:
    return count(_mapping(part.get("tokens")).get("total"))


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
