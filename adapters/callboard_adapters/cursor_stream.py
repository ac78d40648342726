"""The stream of `cursor-agent --output-format stream-json`: like claude's at first sight, and not the same.

Tool calls are events of their own, the final word is the end (a worker may linger behind it), and usage comes in the
result in camel case. `CursorStream` turns lines into outputs; `CursorAdapter` judges the run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from callboard_adapters.base import Alive, Output, SessionId, TurnEnded, Usage
from callboard_adapters.dialects.json_values import count, flatten
from callboard_adapters.dialects.ndjson import LineParser
from callboard_adapters.messages import Message, MessageType, TokenUsage

LINGERS = 0.5  # seconds the process gets after its last word; it is known to stay for ever
_PREFIX = re.compile(rb"\s*std(?:out|err)\s*[:=]?\s*(?=\{)", re.IGNORECASE)  # some wrappers name the pipe on each line
_UNKNOWN_SHOWN = 4000  # characters of an event nobody knows yet
_ALIVE: tuple[Output, ...] = (Alive(),)
_UNUSUAL = (AttributeError, KeyError, TypeError, ValueError)
_FAILED = frozenset({"error", "failure", "rejected", "permissionDenied", "timeout", "aborted"})
_ALIASES = {
    "input": ("inputTokens", "input_tokens"),
    "output": ("outputTokens", "output_tokens"),
    "read": (
        "cacheReadTokens",
        "cachedInputTokens",
        "cached_input_tokens",
        "cache_read_input_tokens",
        "cacheReadInputTokens",
    ),
    "write": ("cacheWriteTokens", "cache_creation_input_tokens", "cacheCreationInputTokens"),
}


class CursorStream:
    """State of one process."""

    def __init__(self, model: str = "") -> None:
        self.parser = LineParser()
        self.session_id = ""
        self.model = model
        self.result: dict[str, Any] | None = None
        self.error = ""  # the last error event's sentence
        self.answer = ""  # what was said since the last tool call
        self.said_anything = False
        self.last = ""  # the type of the last event, for the diagnosis of a run without a result
        self._thinking = False
        self._thought_before = False
        self._steps = TokenUsage()
        self._calls: dict[str, str] = {}  # open tool calls: id → name
        self._unknown: set[str] = set()
        self._handlers: dict[str, Callable[[dict[str, Any]], Sequence[Output]]] = {
            "system": self._system,
            "assistant": self._assistant,
            "thinking": self._thought,
            "tool_call": self._tool_call,
            "tool_use": self._old_tool_use,
            "tool_result": self._old_tool_result,
            "text": self._old_text,
            "step_finish": self._old_step,
            "error": self._failed,
            "result": self._result,
            "user": lambda _: _ALIVE,
            "connection": lambda _: _ALIVE,
            "retry": self._retry,
        }

    def receive(self, line: bytes) -> Sequence[Output]:
        """One line. Never raises: an event of an unexpected shape is shown as a log message."""
        prefix = _PREFIX.match(line)
        event = self.parser.parse(line[prefix.end() :] if prefix else line)
        if event is None:
            return self.parser.notices()
        outputs: list[Output] = [*self.parser.notices()]
        session_id = event.get("session_id")
        if session_id and type(session_id) is str and session_id != self.session_id:
            self.session_id = session_id
            outputs.append(SessionId(session_id))
        kind = event.get("type")
        self.last = str(kind)
        handler = self._handlers.get(kind) if type(kind) is str else None
        try:
            outputs += handler(event) if handler else self._unheard_of(f"event {kind!r}", event)
        except _UNUSUAL:
            outputs += self._unheard_of(f"shape of event {kind!r}", event)
        return outputs

    def usage(self) -> dict[str, TokenUsage]:
        """This run's tokens: the result's, else the sum over the steps of an old stream, {} when nobody said any."""
        used = self._steps
        for said in (self.result, (self.result or {}).get("usage")):
            stated = _usage(said) if isinstance(said, dict) else TokenUsage()
            if stated.tokens:
                used = stated
                break
        return {self.model or "cursor": used} if used.tokens else {}

    # events ----------------------------------------------------------------------

    def _system(self, event: dict[str, Any]) -> Sequence[Output]:
        subtype = event.get("subtype")
        if subtype == "error":
            return self._failed(event)
        if subtype == "init":
            self._note_model(event)
            return _ALIVE
        return self._unheard_of(f"system event {subtype!r}", event)

    def _assistant(self, event: dict[str, Any]) -> Sequence[Output]:
        content = event["message"]["content"]
        if type(content) is str:
            content = [{"type": "text", "text": content}]
        if type(content) not in (list, type(None)):
            return self._unheard_of("shape of a message", event)
        outputs: list[Output] = []
        for block in content or ():
            try:
                outputs += self._block(block)
            except _UNUSUAL:  # the other blocks still count
                outputs += self._unheard_of("shape of a content block", block)
        return outputs or _ALIVE

    def _block(self, block: dict[str, Any]) -> Sequence[Output]:
        kind = block.get("type")
        if kind in ("text", "output_text"):
            return self._say(flatten(block["text"]))
        if kind == "thinking":
            thought = flatten(block["thinking"] if "thinking" in block else block["text"])
            return [Message(MessageType.THINKING, thought)] if thought else ()
        if kind == "tool_use":
            return self._start(flatten(block.get("id")), flatten(block.get("name")), block.get("input"))
        return self._unheard_of(f"content block {kind!r}", block)

    def _thought(self, event: dict[str, Any]) -> Sequence[Output]:
        subtype = event.get("subtype")
        if subtype == "completed":
            self._thought_before = self._thought_before or self._thinking
            self._thinking = False
            return _ALIVE
        if subtype != "delta":
            return self._unheard_of(f"thinking event {subtype!r}", event)
        text = flatten(event["text"])
        if not text:
            return _ALIVE
        if not self._thinking and self._thought_before:
            text = f"\n\n{text}"  # blocks would run into one another
        self._thinking = True
        return [Message(MessageType.THINKING, text)]

    def _tool_call(self, event: dict[str, Any]) -> Sequence[Output]:
        subtype = event.get("subtype")
        if subtype not in ("started", "completed"):
            # A tool that reports its progress still runs: a result made of it would stop its clock.
            return self._unheard_of(f"tool_call event {subtype!r}", event)
        call = event["tool_call"]
        name, body = _named(call)
        # Two ids are printed as two lines; the first is the call's.
        call_id = str(event.get("call_id") or call.get("toolCallId") or "").split("\n")[0].strip()
        if subtype == "started":
            return self._start(call_id, name, body.get("args"))
        begun: list[Output] = [] if call_id in self._calls else self._start(call_id, name, body.get("args"))
        return [*begun, self._end(call_id, name, body.get("result"), failed=_has_failed(body.get("result")))]

    def _result(self, event: dict[str, Any]) -> Sequence[Output]:
        self.result = event
        self._note_model(event)
        outputs: list[Output] = []
        if not self.said_anything and not self.failed:
            outputs += self._say(flatten(event.get("result")))
        used = self.usage()
        if used:
            outputs.append(Usage(used))
        return [*outputs, TurnEnded(LINGERS)]

    @property
    def failed(self) -> bool:
        """The result says that it is none."""
        result = self.result or {}
        return bool(result.get("is_error")) or str(result.get("subtype") or "").startswith("error")

    def _failed(self, event: dict[str, Any]) -> Sequence[Output]:
        self.error = error_text(event) or "an error without a text"
        return [Message(MessageType.ERROR, self.error)]

    def _retry(self, event: dict[str, Any]) -> Sequence[Output]:
        return [Message(MessageType.STATUS, "cursor-agent tries again", status="retrying")]

    # the stream of older versions ---------------------------------------------------

    def _old_tool_use(self, event: dict[str, Any]) -> Sequence[Output]:
        return self._start(flatten(event.get("tool_id")), flatten(event.get("tool_name")), event.get("parameters"))

    def _old_tool_result(self, event: dict[str, Any]) -> Sequence[Output]:
        call_id = flatten(event.get("tool_id"))
        failed = event.get("status") == "error" or bool(event.get("is_error"))
        return [self._end(call_id, self._calls.get(call_id, ""), event.get("output"), failed=failed)]

    def _old_text(self, event: dict[str, Any]) -> Sequence[Output]:
        return self._say(flatten(event["part"].get("text")))

    def _old_step(self, event: dict[str, Any]) -> Sequence[Output]:
        self._note_model(event)
        tokens = event["part"].get("tokens") or {}
        cache = tokens.get("cache") or {}
        self._steps += TokenUsage(
            count(tokens.get("input")), count(tokens.get("output")), count(cache.get("read")), count(cache.get("write"))
        )
        used = self.usage()
        return [Usage(used)] if used else _ALIVE

    # helpers -----------------------------------------------------------------------

    def _say(self, text: str) -> list[Output]:
        if not text:
            return []
        self.said_anything = True
        self.answer += text
        return [Message(MessageType.TEXT, text)]

    def _start(self, call_id: str, name: str, given: Any) -> list[Output]:
        self._calls[call_id] = name
        self.answer = ""
        shown = given if isinstance(given, dict) else None if given is None else {"value": given}
        return [Message(MessageType.TOOL_USE, tool=name, call_id=call_id, input=shown)]

    def _end(self, call_id: str, name: str, output: Any, *, failed: bool) -> Message:
        self._calls.pop(call_id, None)
        status = "failed" if failed else "completed"
        return Message(MessageType.TOOL_RESULT, tool=name, call_id=call_id, output=flatten(output), status=status)

    def _note_model(self, event: dict[str, Any]) -> None:
        if isinstance(event.get("model"), str):
            self.model = event["model"] or self.model

    def _unheard_of(self, what: str, value: Any) -> list[Output]:
        level = "debug" if what in self._unknown else "warn"
        self._unknown.add(what)
        shown = json.dumps(value, ensure_ascii=True, default=str)[:_UNKNOWN_SHOWN]
        return [Message(MessageType.LOG, f"unknown {what}: {shown}", level=level)]


def error_text(event: Mapping[str, Any]) -> str:
    """The sentence of an error: `error`, else `detail`, else `result`; both of the first when they differ."""
    said = [_sentence(event.get(key)) for key in ("error", "detail")]
    return ": ".join(dict.fromkeys(s for s in said if s)) or _sentence(event.get("result"))


def _sentence(value: Any) -> str:
    if isinstance(value, dict):
        value = value.get("message") or value
    return flatten(value).strip()


def _named(call: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """(tool, {args, result}) of `{"readToolCall": {...}}`, or of `{"function": {"name", "arguments"}}`."""
    keys = sorted(k for k in call if k.endswith("ToolCall") and isinstance(call[k], dict))
    if keys:
        return keys[0].removesuffix("ToolCall"), call[keys[0]]
    function = call["function"]
    given = function.get("arguments")
    try:
        given = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        pass  # shown as it came
    return flatten(function.get("name")), {"args": given, "result": function.get("result", call.get("result"))}


def _has_failed(result: Any) -> bool:
    """A result is an object with one key that says how it went; a command may also end well with a bad exit code."""
    if not isinstance(result, dict):
        return False
    success = result.get("success")
    if isinstance(success, dict):
        return success.get("exitCode") not in (None, 0)
    return any(key in _FAILED for key in result)


def _usage(said: Mapping[str, Any]) -> TokenUsage:
    """The buckets under any of their names; they do not overlap."""
    found = {bucket: next((count(said[n]) for n in names if n in said), 0) for bucket, names in _ALIASES.items()}
    return TokenUsage(found["input"], found["output"], found["read"], found["write"])
