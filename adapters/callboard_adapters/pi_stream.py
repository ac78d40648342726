"""Pi's own event stream (`pi --mode json`).

Every `message_update` repeats the whole message so far, twice: an answer of 2 MB becomes 219 MB of stdout with lines of
6 MB. Of those lines only the small beginning with the delta is parsed; nothing of them is kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from callboard_adapters.base import Alive, Output, SessionId, TurnEnded, TurnResumed, Usage
from callboard_adapters.dialects.json_values import count, flatten, word
from callboard_adapters.dialects.ndjson import LineParser
from callboard_adapters.messages import Message, MessageType, TokenUsage, add_usage
from callboard_adapters.pi_markup import MarkupFilter, without_markup

_UPDATE = b'{"type":"message_update","assistantMessageEvent":{"type":"'
_REPEATED = b',"partial":'
_UNKNOWN_SHOWN = 4000  # characters of an event nobody knows yet
_TICKS = 10**10  # per US dollar
_ALIVE: tuple[Output, ...] = (Alive(),)
_QUIET = frozenset(
    {
        "agent_start",
        "message_start",
        "tool_execution_update",
        "queue_update",
        "session_info_changed",
        "thinking_level_changed",
        "entry_appended",
        "summarization_retry_attempt_start",
        "summarization_retry_finished",
    }
)
_QUIET_PARTS = frozenset(
    {
        *("start", "done", "error", "text_start", "thinking_start", "thinking_end"),
        *("toolcall_start", "toolcall_delta", "toolcall_end"),  # told by `tool_execution_start`
    }
)
_BLOCKS = frozenset({"text", "thinking", "toolCall", "image"})


class PiStream:
    """State of one process."""

    def __init__(self, model: str = "") -> None:
        self.parser = LineParser()
        self.session_id = ""
        self.model = model or "unknown"
        self.events = 0
        self.turn_error = ""  # of the last turn, "" once another began
        self.answer = ""  # text of the last turn, "" when it called a tool
        self.stop_reason = ""
        self.raw_stop_reason = ""  # the provider's own word, where pi (1.x) tells it
        self.turn_open = False
        self.ended = False  # `agent_end` was the last word
        self.usage: dict[str, TokenUsage] = {}
        self._marks = MarkupFilter()
        self._streamed: dict[str, list[str]] = {"text": [], "thinking": []}  # of the current message, already told
        self._counted = False  # the current turn's tokens are in `usage`
        self._last: dict[str, Any] = {}  # the last whole message, which may be told twice
        self._unknown: set[str] = set()
        self._handlers: dict[str, Callable[[dict[str, Any]], Sequence[Output]]] = {
            "message_update": self._update,
            "message_end": self._message_end,
            "tool_execution_start": self._tool_start,
            "tool_execution_end": self._tool_end,
            "turn_start": self._turn_start,
            "turn_end": self._turn_end,
            "agent_end": self._agent_end,
            "agent_settled": self._agent_settled,
            "session": self._session,
            "auto_retry_start": self._retry_start,
            "auto_retry_end": self._retry_end,
            "summarization_retry_scheduled": self._retry_start,
            "compaction_start": self._compaction,
            "compaction_end": self._compaction_end,
            "auto_compaction_start": self._compaction,
            "auto_compaction_end": self._compaction_end,
            "error": self._error,
        }

    def receive(self, line: bytes) -> Sequence[Output]:
        """One line. Never raises: an event of an unexpected shape is shown as a log message."""
        event = self._parse(line)
        if event is None:
            return self.parser.notices()
        self.events += 1
        kind = event.get("type")
        handler = self._handlers.get(kind) if type(kind) is str else None
        outputs: Sequence[Output]
        try:
            if handler is None:
                outputs = _ALIVE if kind in _QUIET else self._unheard_of(f"event {kind!r}", event)
            else:
                outputs = handler(event)
        except (AttributeError, KeyError, TypeError, ValueError):
            outputs = self._unheard_of(f"shape of event {kind!r}", event)
        if self.parser.has_notices:
            return [*self.parser.notices(), *outputs]
        return outputs

    @property
    def partial(self) -> str:
        """What has come of a message whose end has not."""
        return without_markup("".join(self._streamed["text"]))

    def _parse(self, line: bytes) -> dict[str, Any] | None:
        if line.startswith(_UPDATE):
            # A quote after a comma is never inside a string: the first `,"partial":` is a key. Before it stand only
            # the delta's own small fields, except where a whole tool call is repeated too.
            cut = line.find(_REPEATED)
            if cut > 0 and b'"toolCall":' not in line[:cut]:
                return self.parser.parse(line[:cut] + b"}}")
        return self.parser.parse(line)

    # events ----------------------------------------------------------------------

    def _session(self, event: dict[str, Any]) -> Sequence[Output]:
        self.session_id = str(event.get("id") or "")
        return [SessionId(self.session_id)] if self.session_id else _ALIVE

    def _turn_start(self, event: dict[str, Any]) -> Sequence[Output]:
        self.turn_open, self._counted = True, False
        self.answer, self.turn_error, self.stop_reason, self.raw_stop_reason = "", "", "", ""
        return self._go_on() or _ALIVE

    def _update(self, event: dict[str, Any]) -> Sequence[Output]:
        part = event["assistantMessageEvent"]
        kind = part["type"]
        if kind == "text_delta":
            delta = flatten(part["delta"])
            self._streamed["text"].append(delta)
            shown = self._marks.feed(delta)
            return [Message(MessageType.TEXT, shown)] if shown else _ALIVE
        if kind == "thinking_delta":
            delta = flatten(part["delta"])
            self._streamed["thinking"].append(delta)
            return [Message(MessageType.THINKING, delta)] if delta else _ALIVE
        if kind == "text_end":
            rest = self._marks.flush()
            return [Message(MessageType.TEXT, rest)] if rest else _ALIVE
        return _ALIVE if kind in _QUIET_PARTS else self._unheard_of(f"part {kind!r} of a message", part)

    def _message_end(self, event: dict[str, Any]) -> Sequence[Output]:
        """The whole message: what its deltas did not tell (renamed, or lost) is told now."""
        message = event["message"]
        if message == self._last:
            return _ALIVE
        self._last = message
        outputs: list[Output] = []
        if message.get("role") != "assistant":
            self._add(message.get("usage"), message.get("model"), outputs)  # of a tool that asked a model itself
            return outputs or _ALIVE
        rest = self._marks.flush()
        if rest:
            outputs.append(Message(MessageType.TEXT, rest))
        self.answer = without_markup("".join(self._streamed["text"]))
        for kind, told, show in (
            ("thinking", MessageType.THINKING, str),
            ("text", MessageType.TEXT, without_markup),
        ):
            missing = _rest(_joined(message, kind), "".join(self._streamed[kind]))
            if missing and show(missing):
                outputs.append(Message(told, show(missing)))
        for block in _blocks(message):
            if block.get("type") not in _BLOCKS:
                outputs += self._unheard_of(f"content block {block.get('type')!r}", block)
        self._streamed = {"text": [], "thinking": []}
        self._marks = MarkupFilter()
        self._note_end(message)
        self._count(message, outputs)
        return outputs or _ALIVE

    def _note_end(self, message: dict[str, Any]) -> None:
        """How the turn's message ended. It is told twice, with the message and with the turn."""
        self.stop_reason = word(message.get("stopReason")) or self.stop_reason
        self.raw_stop_reason = word(message.get("rawStopReason")) or self.raw_stop_reason
        error = flatten(message.get("errorMessage"))
        if error or self.stop_reason in ("error", "aborted"):
            self.turn_error = error or f"the turn ended with {self.stop_reason}"
        if self.stop_reason in ("stop", "length"):
            self.turn_open = False
        said = without_markup(_joined(message, "text"))
        called = any(b.get("type") == "toolCall" for b in _blocks(message))
        self.answer = "" if called else said or self.answer

    def _turn_end(self, event: dict[str, Any]) -> Sequence[Output]:
        self.turn_open = False
        message = event["message"]
        outputs: list[Output] = []
        self._note_end(message)
        self._count(message, outputs)  # where no `message_end` came before
        if self.stop_reason == "length":
            outputs.append(Message(MessageType.LOG, "the answer was cut off at the model's output limit", level="warn"))
        return outputs or _ALIVE

    def _agent_end(self, event: dict[str, Any]) -> Sequence[Output]:
        self.ended = True
        # After a failed turn a retry or a compaction may follow at once; without one the process exits by itself.
        return _ALIVE if self.turn_error or event.get("willRetry") else [TurnEnded()]

    def _agent_settled(self, event: dict[str, Any]) -> Sequence[Output]:
        """From 1.x on: nothing follows by itself, whatever came after `agent_end`."""
        self.ended = True
        return [TurnEnded()]

    def _tool_start(self, event: dict[str, Any]) -> Sequence[Output]:
        given = event.get("args")
        use = Message(
            MessageType.TOOL_USE,
            tool=str(event.get("toolName") or ""),
            call_id=str(event.get("toolCallId") or ""),
            input=given if isinstance(given, dict) else {"input": given},
        )
        known = "toolName" in event and "args" in event
        return [use] if known else [use, *self._unheard_of("shape of a tool's start", event)]

    def _tool_end(self, event: dict[str, Any]) -> Sequence[Output]:
        result = event.get("result")
        content = result.get("content") if isinstance(result, dict) and "content" in result else result
        ended = Message(
            MessageType.TOOL_RESULT,
            tool=str(event.get("toolName") or ""),
            call_id=str(event.get("toolCallId") or ""),
            output=flatten(content),
            status="failed" if event.get("isError") else "completed",
        )
        return [ended] if "result" in event else [ended, *self._unheard_of("shape of a tool's end", event)]

    def _retry_start(self, event: dict[str, Any]) -> Sequence[Output]:
        delay = event.get("delayMs")
        wait = f", next in {delay / 1000:.1f} s" if isinstance(delay, int | float) else ""
        attempt = f"attempt {event.get('attempt', '?')} of {event.get('maxAttempts', '?')}"
        text = f"{event.get('errorMessage') or 'the provider did not answer'}: {attempt}{wait}"
        return [*self._go_on(), Message(MessageType.STATUS, text, status="retrying")]

    def _retry_end(self, event: dict[str, Any]) -> Sequence[Output]:
        if event.get("success") is not False:
            return _ALIVE
        self.turn_error = str(event.get("finalError") or self.turn_error or "every retry failed")
        return [Message(MessageType.ERROR, self.turn_error)]

    def _compaction(self, event: dict[str, Any]) -> Sequence[Output]:
        return [*self._go_on(), Message(MessageType.LOG, "pi makes room in the context window", level="info")]

    def _compaction_end(self, event: dict[str, Any]) -> Sequence[Output]:
        if event.get("errorMessage"):
            return [Message(MessageType.LOG, f"no room could be made: {event['errorMessage']}", level="warn")]
        outputs: list[Output] = []
        result = event.get("result")
        if isinstance(result, dict):
            self._add(result.get("usage"), None, outputs)
        if self.turn_error or event.get("willRetry"):
            return outputs or _ALIVE
        self.ended = True
        return [*outputs, TurnEnded()]

    def _error(self, event: dict[str, Any]) -> Sequence[Output]:
        said = event.get("message") or event.get("error") or "an error without a text"
        self.turn_error = flatten(said)
        return [*self._go_on(), Message(MessageType.ERROR, self.turn_error)]

    # helpers -----------------------------------------------------------------------

    def _go_on(self) -> list[Output]:
        """Something came after `agent_end`: it was not the last word."""
        resumed: list[Output] = [TurnResumed()] if self.ended else []
        self.ended = False
        return resumed

    def _count(self, message: dict[str, Any], outputs: list[Output]) -> None:
        """The tokens of one turn, said in `message_end` and again in `turn_end` and `agent_end`."""
        if not self._counted and isinstance(message.get("usage"), dict):
            self._counted = True
            self._add(message["usage"], message.get("model"), outputs)

    def _add(self, used: Any, model: Any, outputs: list[Output]) -> None:
        """Add one call's tokens to the run's, where there are any."""
        if not isinstance(used, dict):
            return
        cost = used.get("cost")
        total = cost.get("total") if isinstance(cost, dict) else None
        priced = isinstance(total, int | float) and 0 < total < 1e6
        before = dict(self.usage)
        add_usage(
            self.usage,
            str(model or self.model),
            TokenUsage(
                count(used.get("input")),
                count(used.get("output")),
                count(used.get("cacheRead")),
                count(used.get("cacheWrite")),
                round(float(total) * _TICKS) if priced and total is not None else None,
            ),
        )
        if self.usage != before:
            outputs.append(Usage(dict(self.usage)))

    def _unheard_of(self, what: str, value: dict[str, Any]) -> list[Output]:
        level = "debug" if what in self._unknown else "warn"
        self._unknown.add(what)
        shown = json.dumps(value, ensure_ascii=False, default=str)[:_UNKNOWN_SHOWN]
        return [Message(MessageType.LOG, f"unknown {what}: {shown}", level=level)]


def _rest(whole: str, told: str) -> str:
    """What of a message was not told yet; all of it where the pieces that were told are not its beginning."""
    return whole[len(told) :] if whole.startswith(told) else whole


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []


def _joined(message: dict[str, Any], kind: str) -> str:
    """All text (or thinking) of a message."""
    return "".join(str(b.get(kind) or "") for b in _blocks(message) if b.get("type") == kind)
