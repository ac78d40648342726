"""OpenClaw's older output: one event a line instead of one document at the end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from callboard_adapters.base import Output, SessionId
from callboard_adapters.dialects.json_values import flatten
from callboard_adapters.messages import Message, MessageType, TokenUsage
from callboard_adapters.openclaw_document import tokens

_UNKNOWN_SHOWN = 4000  # characters of an event nobody knows yet
_FAILED = frozenset({"error", "failed", "cancelled"})


class Events:
    """What the events of one process said."""

    def __init__(self) -> None:
        self.seen = False
        self.answer = ""
        self.error = ""
        self._tokens = TokenUsage()
        self._unknown: set[str] = set()

    def usage(self, model: str) -> dict[str, TokenUsage]:
        """The sum over the steps, {} when none said any."""
        return {model or "unknown": self._tokens} if self._tokens.tokens else {}

    def receive(self, event: dict[str, Any]) -> Sequence[Output]:
        """One event of any shape."""
        kind = event.get("type")
        outputs: list[Output] = []
        session = event.get("sessionId")
        if isinstance(session, str) and session:
            outputs.append(SessionId(session))
        text = flatten(event.get("text"))
        if kind == "text":
            self.seen = True
            self.answer += text
            outputs.append(Message(MessageType.TEXT, text))
        elif kind == "tool_use":
            self.seen, self.answer = True, ""
            given = event.get("input")
            outputs.append(
                Message(
                    MessageType.TOOL_USE,
                    tool=str(event.get("tool") or ""),
                    call_id=str(event.get("callId") or ""),
                    input=given if isinstance(given, dict) else {"input": given},
                )
            )
        elif kind == "tool_result":
            call_id = str(event.get("callId") or "")
            outputs.append(Message(MessageType.TOOL_RESULT, call_id=call_id, output=text, status="completed"))
        elif kind == "error" or (kind == "lifecycle" and event.get("phase") in _FAILED):
            self.seen = True
            self.error = _error_text(event) or "the run failed without a text"
            outputs.append(Message(MessageType.ERROR, self.error))
        elif kind == "step_finish":
            self.seen = True
            used = event.get("usage")
            self._tokens = self._tokens + tokens(used if isinstance(used, dict) else {})
        elif kind not in ("step_start", "lifecycle"):
            outputs += self._unheard_of(event)
        return outputs

    def _unheard_of(self, event: dict[str, Any]) -> list[Output]:
        what = str(event.get("type"))
        level = "debug" if what in self._unknown else "warn"
        self._unknown.add(what)
        shown = json.dumps(event, ensure_ascii=False, default=str)[:_UNKNOWN_SHOWN]
        return [Message(MessageType.LOG, f"unknown output: {shown}", level=level)]


def _error_text(event: dict[str, Any]) -> str:
    error = event.get("error")
    data = error.get("data") if isinstance(error, dict) else None
    nested = data.get("message") if isinstance(data, dict) else None
    name = (error.get("message") or error.get("name")) if isinstance(error, dict) else error
    return flatten(event.get("text") or event.get("message") or nested or name)
