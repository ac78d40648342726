"""Stream JSON: the line protocol of Claude Code and its relatives (codebuddy, qwen).

`StreamJson` turns lines into outputs and remembers what decides the end: the last `result`, the fallback answer, who
is still working in the background, what the provider's API said. What a provider makes of that is its adapter's
business (`StreamJsonAdapter`).

One `assistant` event carries one content block; several events share a `message.id` and repeat its usage.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from callboard_adapters.base import Alive, Output, Reply, SessionId, TurnEnded, TurnResumed, Usage
from callboard_adapters.dialects.json_values import anthropic_usage, error_text, flatten, word
from callboard_adapters.dialects.message_usage import MessageUsage
from callboard_adapters.dialects.ndjson import LineParser
from callboard_adapters.dialects.stream_json_blocks import details, input_of, launched_async, retry_text
from callboard_adapters.dialects.stream_json_input import encode
from callboard_adapters.dialects.stream_json_questions import DENIED, Questions
from callboard_adapters.dialects.stream_json_questions import TIMER as QUESTION
from callboard_adapters.dialects.stream_json_work import BackgroundWork
from callboard_adapters.messages import Message, MessageType, TokenUsage

_UNKNOWN_SHOWN = 4000  # characters of an event nobody knows yet
_REMEMBERED = 64  # messages whose usage is compared with what comes next
_ALIVE: tuple[Output, ...] = (Alive(),)
SYNTHETIC = "<synthetic>"
"""The model name under which the CLI speaks for itself, mostly to report an error."""

_TEXT, _THINKING, _LOG = MessageType.TEXT, MessageType.THINKING, MessageType.LOG
_QUIET_SYSTEM = frozenset({"init", "status", "thinking_tokens", "compact_boundary", "permission_denied"})
_QUIET_FAMILIES = ("task_", "hook_", "model_refusal")
_UNUSUAL = (AttributeError, KeyError, TypeError, ValueError)
_OF_THE_USER = frozenset({"text", "image", "document"})  # what the CLI tells the model by itself
_OF_A_RESULT = frozenset({"type", "tool_use_id", "is_error", "content", "cache_control", "_meta"})


class StreamJson:
    """State of one process. Subclasses override the hooks at the end."""

    needs_a_person: ClassVar[tuple[str, ...]] = ()
    """Tools whose call waits for somebody's answer, where the CLI still listens to us."""

    def __init__(self) -> None:
        self.parser = LineParser()
        self.session_id = ""
        self.model = ""
        self.results: list[dict[str, Any]] = []
        self.error_event: dict[str, Any] | None = None
        self.api_status: int | None = None  # of the last retry or error the CLI announced
        self.api_code: str | None = None
        self.api_text = ""
        self.retries = 0
        self.resets_at: float | None = None  # when the refused quota begins anew, in seconds since 1970
        self.stop_reason = ""
        self.background = BackgroundWork()
        self.answer = ""  # text of the last assistant message, "" when it went on to call a tool
        self.narration = ""  # text of the last message that did
        self._answer_id = ""
        self._usage = MessageUsage()
        self._stated: dict[str, dict[str, Any]] = {}  # message → its usage as it came last
        self._questions = Questions(self.needs_a_person)
        self._last: dict[str, Any] = {}
        self._named = False  # an `init` or the model's own words have named the session
        self._unknown: set[str] = set()
        self._handlers: dict[str, Callable[[dict[str, Any]], Sequence[Output]]] = {
            "assistant": self._assistant,
            "user": self._user,
            "system": self._system,
            "result": self._result,
            "log": self._log,
            "control_request": self._control_request,
            "error": self._error,
            "stream_event": lambda _: _ALIVE,
            "control_response": lambda _: _ALIVE,
            "control_cancel_request": lambda _: _ALIVE,
            "keep_alive": lambda _: _ALIVE,
            "rate_limit_event": self._rate_limit,
        }

    def receive(self, line: bytes) -> Sequence[Output]:
        """One line. Never raises: an event of an unexpected shape is shown as a log message."""
        event = self.parser.parse(line)
        if event is None:
            return self.parser.notices()
        uuid = event.get("uuid")
        if uuid is not None and uuid == self._last.get("uuid") and event == self._last:
            return _ALIVE  # the same event twice; codebuddy gives each block of a message the message's uuid
        self._last = event
        kind = event.get("type")
        handler = self._handlers.get(kind) if type(kind) is str else None
        try:
            outputs = handler(event) if handler else self._unheard_of(f"event {kind!r}", event)
        except _UNUSUAL:
            outputs = self._unheard_of(f"shape of event {kind!r}", event)
        if not self.session_id and word(event.get("session_id")):
            outputs = [*self._session(event), *outputs]  # whoever says it first
        if self.parser.has_notices:
            return [*self.parser.notices(), *outputs]
        return outputs

    # events ----------------------------------------------------------------------

    def _assistant(self, event: dict[str, Any]) -> Sequence[Output]:
        message = event["message"]
        parent = event.get("parent_tool_use_id") or ""
        outputs: list[Output] = []
        if self.results and not parent:
            outputs.append(TurnResumed())
        own_words = self.own_words(event, message)
        if own_words is not None:
            return [*outputs, *self._own_words(event, message, own_words)]
        if not parent:
            if self.api_text:
                self.api_status, self.api_code, self.api_text = None, None, ""  # the provider answers again
            self.stop_reason = word(message.get("stop_reason")) or self.stop_reason
            self._named = self._named or bool(word(event.get("session_id")))
        message_id = word(message.get("id"))
        for block in self._blocks(message, outputs):
            try:
                self._block(block, parent, message_id, outputs)
            except _UNUSUAL:  # the other blocks still count
                outputs += self._unheard_of("shape of a content block", block)
        usage = message.get("usage")
        if type(usage) is dict and usage != self._stated.get(message_id):
            self._note_usage(message_id, word(message.get("model")), usage, outputs)
        return outputs

    def _blocks(self, message: dict[str, Any], outputs: list[Output]) -> list[Any]:
        content = message.get("content")
        if type(content) is list:
            return content
        if type(content) is str:
            return [{"type": "text", "text": content}]
        if content is not None or "content" not in message:
            outputs += self._unheard_of("shape of a message", message)
        return []

    def _note_usage(self, message_id: str, model: str, usage: dict[str, Any], outputs: list[Output]) -> None:
        """Each block of a message repeats its usage: it is read when it is new."""
        if len(self._stated) >= _REMEMBERED:
            self._stated.clear()
        self._stated[message_id] = usage
        if self._usage.note(message_id, model, self.message_usage(usage)):
            outputs.append(Usage(self.usage_by_message()))

    def _block(self, block: dict[str, Any], parent: str, message_id: str, outputs: list[Output]) -> None:
        kind = block["type"]
        if kind == "text":
            text = flatten(block["text"])
            if text:
                outputs.append(Message(_TEXT, text, parent_call_id=parent))
                if not parent:
                    self._note_answer(text, message_id)
        elif kind == "thinking":
            # The text is in `thinking`; an early reading of the protocol looked in `text` and lost it.
            thought = flatten(block["thinking"] if "thinking" in block else block["text"])
            if thought:
                outputs.append(Message(_THINKING, thought, parent_call_id=parent))
        elif kind == "tool_use" or kind.endswith("_tool_use"):
            outputs.append(
                Message(
                    MessageType.TOOL_USE,
                    tool=block.get("name") or kind,
                    call_id=block.get("id") or "",
                    parent_call_id=parent,
                    input=input_of(block.get("input")),
                )
            )
            outputs += self._questions.called(word(block.get("name")), word(block.get("id")))
            if not parent:
                self.answer, self.narration = "", self.answer or self.narration
            if not ("name" in block and "input" in block):
                outputs += self._unheard_of("shape of a tool call", block)
        elif kind.endswith("tool_result"):
            outputs += self._tool_result(block, parent)
        elif kind == "redacted_thinking":
            outputs.append(Alive())
        else:
            outputs += self._unheard_of(f"content block {kind!r}", block)

    def _note_answer(self, text: str, message_id: str) -> None:
        # Several text blocks of one message are one answer; another message's text replaces it.
        same = bool(message_id) and message_id == self._answer_id
        self.answer = self.answer + text if same else text
        self._answer_id = message_id

    def _user(self, event: dict[str, Any]) -> Sequence[Output]:
        content = event["message"].get("content")
        if type(content) is str:
            return _ALIVE  # what the CLI tells the model by itself
        if type(content) is not list:
            return self._unheard_of("shape of a user message", event)
        parent = event.get("parent_tool_use_id") or ""
        outputs: list[Output] = []
        for block in content:
            kind = block.get("type") if type(block) is dict else None
            if kind == "tool_result":
                outputs += self._tool_result(block, parent)
            elif kind not in _OF_THE_USER:
                outputs += self._unheard_of(f"block {kind!r} of a user message", block)
        return outputs or _ALIVE

    def _tool_result(self, block: dict[str, Any], parent: str) -> list[Output]:
        content = block.get("content")
        call_id = flatten(block.get("tool_use_id"))
        parent = "" if parent == call_id else parent  # codebuddy 2.117: a result is no part of its own call
        if type(content) is not str and launched_async(content):
            self.background.launched(call_id)
        result = Message(
            MessageType.TOOL_RESULT,
            call_id=call_id,
            parent_call_id=parent,
            output=content if type(content) is str else flatten(content),
            status="failed" if self.tool_failed(block) else "completed",
        )
        settled = self._questions.settled(call_id)
        if settled:
            return [result, *settled]
        if content is None and not _OF_A_RESULT.issuperset(block):
            return [result, *self._unheard_of("shape of a tool result", block)]
        return [result]

    def _system(self, event: dict[str, Any]) -> Sequence[Output]:
        subtype = event.get("subtype")
        outputs: list[Output] = []
        if subtype == "init":
            outputs += self._init(event)
        elif subtype in ("api_retry", "retry"):
            outputs += self._retry(event)
        elif subtype == "task_started":
            self.background.started(details(event))
        elif subtype == "task_notification":
            # Its report starts another turn, also when the first result has been printed already.
            outputs += [TurnResumed()] if self.background.over(details(event)) and self.results else []
        elif subtype == "informational":
            outputs.append(Message(_LOG, flatten(event["content"]), level="info"))
        elif subtype not in _QUIET_SYSTEM and not str(subtype).startswith(_QUIET_FAMILIES):
            outputs += self._unheard_of(f"system event {subtype!r}", event)
        return outputs or _ALIVE

    def _init(self, event: dict[str, Any]) -> list[Output]:
        """The first one names the session and its model; an agent that is started later has an `init` of its own."""
        session_id = word(event.get("session_id"))
        if self._named and session_id not in ("", self.session_id):
            return []
        self._named = self._named or bool(session_id)
        self.model = word(event.get("model")) or self.model
        return self._session(event)

    def _retry(self, event: dict[str, Any]) -> list[Output]:
        self.retries += 1
        event = details(event)
        status = event.get("error_status")
        self.api_status = status if type(status) is int else None
        self.api_code = str(event["error"]) if event.get("error") else None
        text = retry_text(event, self.api_status, self.api_code)
        self.api_text = text
        return [Message(MessageType.STATUS, text, status="retrying"), *self.on_retry(event)]

    def _rate_limit(self, event: dict[str, Any]) -> Sequence[Output]:
        info = event.get("rate_limit_info") or {}
        resets_at = info.get("resetsAt")
        if info.get("status") == "rejected" and isinstance(resets_at, int | float):
            self.resets_at = float(resets_at)
        return _ALIVE

    def _result(self, event: dict[str, Any]) -> Sequence[Output]:
        if self.results and event == self.results[-1]:
            return [TurnEnded()]
        self.results.append(event)
        return [*self._session(event), *self.on_result(event)]

    def _session(self, event: dict[str, Any]) -> list[Output]:
        session_id = word(event.get("session_id"))
        if session_id in ("", self.session_id):
            return []
        self.session_id = session_id
        return [SessionId(session_id)]

    def _own_words(self, event: dict[str, Any], message: dict[str, Any], kind: MessageType) -> list[Output]:
        """The CLI speaking in the assistant's place: an error text is never an answer."""
        text = flatten(message.get("content"))
        if kind is not MessageType.ERROR:
            return [Message(kind, text, level="info")] if text else list(_ALIVE)
        code = event.get("api_error_type") or event.get("api_error") or event.get("error")
        self.api_code = str(code or "") or self.api_code
        status = event.get("api_error_status")
        self.api_status = status if type(status) is int else self.api_status
        self.api_text = text or self.api_text
        return [Message(MessageType.ERROR, text)] if text else list(_ALIVE)

    def _log(self, event: dict[str, Any]) -> Sequence[Output]:
        log = event["log"]
        return [Message(_LOG, str(log.get("message") or ""), level=str(log.get("level") or "info"))]

    def _error(self, event: dict[str, Any]) -> Sequence[Output]:
        """A top-level error is the last word: a CLI was seen to wait for more input after it, for ever."""
        self.error_event = event
        return [Message(MessageType.ERROR, error_text(event)), TurnEnded()]

    def _control_request(self, event: dict[str, Any]) -> Sequence[Output]:
        request = event.get("request")
        request = request if type(request) is dict else {}  # the CLI waits for an answer, whatever it asked
        request_id = event["request_id"]
        if request.get("subtype") != "can_use_tool":
            body = {"subtype": "error", "request_id": request_id, "error": f"no {request.get('subtype')} here"}
        else:
            body = {"subtype": "success", "request_id": request_id, "response": self.permission(request)}
        settled = self._questions.refused(word(request.get("tool_name")), word(request.get("tool_use_id")))
        return [Reply(encode({"type": "control_response", "response": body})), Alive(), *settled]

    def tick(self, timer: str) -> Sequence[Output]:
        return self._questions.deny() if timer == QUESTION else ()

    def _unheard_of(self, what: str, event: Any) -> list[Output]:
        """A newer CLI says something unknown here: it goes out as a log, the first of its kind as a warning."""
        first = what not in self._unknown
        self._unknown.add(what)
        shown = json.dumps(event, ensure_ascii=True, default=str)[:_UNKNOWN_SHOWN]
        return [Message(_LOG, f"unknown {what}: {shown}", level="warn" if first else "debug")]

    def usage_by_message(self) -> dict[str, TokenUsage]:
        """The sum over messages, per model, for runs that end without a result."""
        return self._usage.by_model(self.model)

    # hooks -----------------------------------------------------------------------

    def on_result(self, event: dict[str, Any]) -> Sequence[Output]:
        return [TurnEnded()]

    def on_retry(self, event: dict[str, Any]) -> Sequence[Output]:
        return ()

    def own_words(self, event: dict[str, Any], message: dict[str, Any]) -> MessageType | None:
        """`ERROR` or `LOG` when the CLI itself speaks in the assistant's place, None when it is the model."""
        if event.get("error"):
            return MessageType.ERROR
        if message.get("model") == SYNTHETIC:
            return MessageType.ERROR if event.get("is_api_error_message") else _LOG
        return None

    def tool_failed(self, block: dict[str, Any]) -> bool:
        return bool(block.get("is_error"))

    def message_usage(self, usage: dict[str, Any]) -> TokenUsage:
        """Anthropic's buckets, which do not overlap. Relatives that count cached input twice override this."""
        return anthropic_usage(usage)

    def permission(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to "may I use this tool": yes, in the foreground. A question to a person is denied."""
        if request.get("tool_name") in ("AskUserQuestion", *self.needs_a_person):
            return {"behavior": "deny", "message": DENIED}
        tool_input = request.get("input") or {}
        if type(tool_input) is dict and tool_input.get("run_in_background") is True:
            # The run ends with its turn, and would take the work with it.
            tool_input = {**tool_input, "run_in_background": False}
        return {"behavior": "allow", "updatedInput": tool_input}
