"""Copilot's own event stream (`copilot --output-format json`): `{"type": "a.b", "data": {...}, "id", "timestamp"}`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from callboard_adapters.base import Alive, Output, SessionId, TurnEnded, TurnResumed
from callboard_adapters.copilot_usage import StdoutUsage
from callboard_adapters.dialects.json_values import flatten
from callboard_adapters.dialects.ndjson import LineParser
from callboard_adapters.messages import Message, MessageType

_UNKNOWN_SHOWN = 4000  # characters of an event nobody knows yet
_ALIVE: tuple[Output, ...] = (Alive(),)
_NO_CONTENT = re.compile(r"The model returned no content because ")
_EXITED = re.compile(r"<[^<>\n]{0,80}exit code (\d{1,9})>\s*\Z")
_QUIET_FAMILIES = (
    "session.",
    "model.",
    "user.",
    "system.",
    "hook.",
    "skill.",
    "external_tool.",
    "permission.",
    "subagent.",
)
"""Families of events that tell about the CLI's own workings, dozens a tool call."""
_QUIET = frozenset(
    {
        "assistant.turn_end",
        "assistant.message_start",
        "assistant.tool_call_delta",
        "assistant.intent",
        "tool.execution_partial_result",
        "tool.execution_progress",
        "tool.shell_output",
        "agent.interrupted",
    }
)


class CopilotStream:
    """State of one process."""

    def __init__(self, session_id: str = "") -> None:
        self.parser = LineParser()
        self.expected = session_id  # chosen by us or asked for: known before the CLI says it
        self.session_id = ""
        self.events = 0
        self.usage = StdoutUsage()
        self.answer = ""  # the last whole message of the main agent that called no tool
        self.partial = ""  # deltas of a message that is not whole yet
        self.no_content = ""  # copilot's own sentence in place of an answer that never came
        self.error: dict[str, Any] | None = None  # the last `session.error` that no message came after
        self.aborted = False
        self.result: dict[str, Any] | None = None
        self.idle = False
        self.api_status: int | None = None  # of the last refused model call
        self.api_code: str | None = None
        self.api_text = ""
        self._told: dict[str, int] = {}  # message or thought id → characters already told
        self._thoughts = 0  # characters of thinking told since the last message
        self._tools: set[str] = set()
        self._last: dict[str, Any] = {}
        self._unknown: set[str] = set()
        self._handlers: dict[str, Callable[[dict[str, Any], dict[str, Any]], Sequence[Output]]] = {
            "assistant.message_delta": self._delta,
            "assistant.message": self._message,
            "assistant.reasoning_delta": self._thought_delta,
            "assistant.reasoning": self._thought,
            "assistant.turn_start": self._turn_start,
            "assistant.turn_retry": self._retry,
            "assistant.usage": self._usage,
            "assistant.idle": self._idle,
            "tool.execution_start": self._tool_start,
            "tool.execution_complete": self._tool_end,
            "model.call_failure": self._call_failure,
            "session.start": self._session_start,
            "session.error": self._session_error,
            "session.info": self._info,
            "session.warning": self._warning,
            "session.shutdown": self._shutdown,
            "session.mcp_server_status_changed": self._mcp_status,
            "subagent.failed": self._sub_agent_failed,
            "abort": self._abort,
            "result": self._result,
        }

    def receive(self, line: bytes) -> Sequence[Output]:
        """One line. Never raises: an event of an unexpected shape is shown as a log message."""
        event = self.parser.parse(line)
        if event is None:
            return self.parser.notices()
        outputs: list[Output] = list(self.parser.notices()) if self.parser.has_notices else []
        if not self.events and self.expected:
            # The CLI prints the id in its very last line; a killed run would have none.
            self.session_id = self.expected
            outputs.append(SessionId(self.expected))
        self.events += 1
        named = event.get("id")
        if named is not None and named == self._last.get("id") and event == self._last:
            return _ALIVE  # the same event twice
        self._last = event
        kind, data = event.get("type"), event.get("data")
        handler = self._handlers.get(kind) if type(kind) is str else None
        try:
            if handler is not None:
                outputs += handler(event, data if isinstance(data, dict) else {})
            elif kind in _QUIET or str(kind).startswith(_QUIET_FAMILIES):
                outputs.append(_ALIVE[0])
            else:
                outputs += self._unheard_of(f"event {kind!r}", event)
        except (AttributeError, KeyError, TypeError, ValueError):
            outputs += self._unheard_of(f"shape of event {kind!r}", event)
        return outputs

    @property
    def exit_code(self) -> int | None:
        """What the CLI says that it will exit with; it exits with the same."""
        code = (self.result or {}).get("exitCode")
        code = int(code) if isinstance(code, str) and code.isascii() and code.isdecimal() and len(code) < 4 else code
        return code if type(code) is int else None

    # what the agent says ---------------------------------------------------------------

    def _turn_start(self, event: dict[str, Any], data: dict[str, Any]) -> Sequence[Output]:
        return self._go_on() or _ALIVE

    def _delta(self, event: dict[str, Any], data: dict[str, Any]) -> Sequence[Output]:
        text = flatten(data["deltaContent"])
        if not text:
            return _ALIVE
        key, parent = str(data.get("messageId")), _parent(event, data)
        if key not in self._told and not parent:
            self.partial = ""
        self._told[key] = self._told.get(key, 0) + len(text)
        if not parent:
            self.partial += text
        return [Message(MessageType.TEXT, text, parent_call_id=parent)]

    def _message(self, event: dict[str, Any], data: dict[str, Any]) -> Sequence[Output]:
        """The whole message. Its deltas have told the text already; what they did not tell is told now."""
        parent = _parent(event, data)
        content = flatten(data.get("content"))
        calls = [c for c in data.get("toolRequests") or () if isinstance(c, dict)]
        outputs: list[Output] = [*self._go_on()]
        if data.get("content") is None:
            content = "" if parent else self.partial
            outputs += [] if "content" in data else self._unheard_of("shape of a message", event)
        thought = flatten(data.get("reasoningText"))
        if thought and not self._thoughts:
            outputs.append(Message(MessageType.THINKING, thought, parent_call_id=parent))
        self._thoughts = len(thought)  # `assistant.reasoning` repeats it
        told = self._told.pop(str(data.get("messageId")), 0)
        self.no_content = content if not (told or parent) and _NO_CONTENT.match(content) else ""
        if self.no_content:
            return [*outputs, Message(MessageType.ERROR, content)]
        missing = content[told:]
        if missing:
            outputs.append(Message(MessageType.TEXT, missing, parent_call_id=parent))
        if not parent:
            self.partial = ""
            self.error = None
            if calls:
                self.answer = ""
            elif content:
                self.answer = content
        for call in calls:
            if not ("name" in call and "arguments" in call):
                outputs += self._unheard_of("shape of a tool call", call)
            outputs += self._tool(str(call.get("toolCallId") or ""), call.get("name"), call.get("arguments"), parent)
        self.usage.message(data)
        return outputs or _ALIVE

    def _thought_delta(self, event: dict[str, Any], data: dict[str, Any]) -> Sequence[Output]:
        text = flatten(data["deltaContent"])
        key = str(data.get("reasoningId"))
        self._told[key] = self._told.get(key, 0) + len(text)
        self._thoughts += len(text)
        return [Message(MessageType.THINKING, text, parent_call_id=_parent(event, data))] if text else _ALIVE

    def _thought(self, event: dict[str, Any], data: dict[str, Any]) -> Sequence[Output]:
        content = flatten(data.get("content"))
        told = self._told.pop(str(data.get("reasoningId")), 0) or self._thoughts
        self._thoughts = 0
        missing = content[told:]
        return [Message(MessageType.THINKING, missing, parent_call_id=_parent(event, data))] if missing else _ALIVE

    # tools -------------------------------------------------------------------------------

    def _tool(self, call_id: str, name: Any, given: Any, parent: str) -> list[Output]:
        if call_id and call_id in self._tools:
            return []
        self._tools.add(call_id)
        use = Message(
            MessageType.TOOL_USE,
            tool=str(name or ""),
            call_id=call_id,
            parent_call_id=parent,
            input=given if isinstance(given, dict) else {"input": given},
        )
        return [use]

    def _tool_start(self, event: dict[str, Any], data: dict[str, Any]) -> Sequence[Output]:
        call_id, parent = str(data.get("toolCallId") or ""), _parent(event, data)
        return self._tool(call_id, data.get("toolName"), data.get("arguments"), parent) or _ALIVE

    def _tool_end(self, event: dict[str, Any], data: dict[str, Any]) -> Sequence[Output]:
        result, error, shell = (data.get(k) for k in ("result", "error", "shellExecution"))
        said = result.get("content") if isinstance(result, dict) else result
        failed = data.get("success") is False
        if failed and isinstance(error, dict) and error.get("message"):
            said = f"Error: {error['message']}"
        # A command that exits 3 counts as a success of the tool; whoever reads the run wants to know.
        code = shell.get("exitCode") if isinstance(shell, dict) else _exit_code(said)
        ended = Message(
            MessageType.TOOL_RESULT,
            tool=str(data.get("toolName") or ""),
            call_id=str(data.get("toolCallId") or ""),
            parent_call_id=_parent(event, data),
            output=flatten(said),
            status="failed" if failed or code not in (None, 0) else "completed",
        )
        if said is None:
            return [ended, *self._unheard_of("shape of a tool's end", event)]
        return [ended]

    # trouble -------------------------------------------------------------------------------

    def _call_failure(self, event: dict[str, Any], data: dict[str, Any]) -> Sequence[Output]:
        status = data.get("statusCode")
        self.api_status = status if type(status) is int else None
        self.api_code, self.api_text = _provider_error(data.get("errorMessage"))
        return _ALIVE

    def _retry(self, event: dict[str, Any], data: dict[str, Any]) -> Sequence[Output]:
        said = " ".join(str(p) for p in (self.api_status, self.api_text or data.get("reason")) if p)
        return [Message(MessageType.STATUS, f"the provider said {said or 'nothing'}: trying again", status="retrying")]

    def _session_error(self, event: dict[str, Any], data: dict[str, Any]) -> Sequence[Output]:
        if not _of_sub_agent(event):
            self.error = data
        return [Message(MessageType.ERROR, str(data.get("message") or data.get("errorType") or "an error"))]

    def _warning(self, event: dict[str, Any], data: dict[str, Any]) -> Sequence[Output]:
        return [Message(MessageType.LOG, flatten(data.get("message")), level="warn")]

    def _info(self, event: dict[str, Any], data: dict[str, Any]) -> Sequence[Output]:
        if data.get("infoType") == "model_retry":  # `assistant.turn_retry` has told
            return _ALIVE
        return [Message(MessageType.LOG, flatten(data.get("message")), level="info")]

    def _mcp_status(self, event: dict[str, Any], data: dict[str, Any]) -> Sequence[Output]:
        if data.get("status") != "failed":
            return _ALIVE
        text = f"MCP server {data.get('serverName')} did not start: {data.get('error')}"
        return [Message(MessageType.LOG, text, level="warn")]

    def _abort(self, event: dict[str, Any], data: dict[str, Any]) -> Sequence[Output]:
        self.aborted = self.aborted or not _of_sub_agent(event)
        return _ALIVE

    # frame -----------------------------------------------------------------------------------

    def _session_start(self, event: dict[str, Any], data: dict[str, Any]) -> Sequence[Output]:
        self.usage.model = str(data.get("selectedModel") or self.usage.model)
        return self._session(data.get("sessionId"))

    def _usage(self, event: dict[str, Any], data: dict[str, Any]) -> Sequence[Output]:
        self.usage.call(data)
        return _ALIVE

    def _shutdown(self, event: dict[str, Any], data: dict[str, Any]) -> Sequence[Output]:
        self.usage.shutdown = data
        return _ALIVE

    def _idle(self, event: dict[str, Any], data: dict[str, Any]) -> Sequence[Output]:
        if not _of_sub_agent(event):
            self.idle = True
            self.aborted = self.aborted or bool(data.get("aborted"))
        return _ALIVE

    def _sub_agent_failed(self, event: dict[str, Any], data: dict[str, Any]) -> Sequence[Output]:
        text = f"the sub-agent {data.get('agentName') or ''} failed: {flatten(data.get('error')) or 'no reason given'}"
        return [Message(MessageType.LOG, text, level="warn", parent_call_id=str(data.get("toolCallId") or ""))]

    def _result(self, event: dict[str, Any], data: dict[str, Any]) -> Sequence[Output]:
        self.result = event
        return [*self._session(event.get("sessionId")), TurnEnded()]

    def _session(self, value: Any) -> list[Output]:
        if not isinstance(value, str) or not value or value == self.session_id:
            return []
        self.session_id = value
        return [SessionId(value)]

    def _go_on(self) -> list[Output]:
        """The agent speaks after a `result`: that was not the end."""
        self.idle = False
        resumed: list[Output] = [TurnResumed()] if self.result is not None else []
        self.result = None
        return resumed

    def _unheard_of(self, what: str, value: dict[str, Any]) -> list[Output]:
        level = "debug" if what in self._unknown else "warn"
        self._unknown.add(what)
        shown = json.dumps(value, ensure_ascii=False, default=str)[:_UNKNOWN_SHOWN]
        return [Message(MessageType.LOG, f"unknown {what}: {shown}", level=level)]


def _parent(event: dict[str, Any], data: dict[str, Any]) -> str:
    """The tool call whose sub-agent speaks, "" for the main agent."""
    found = data.get("parentToolCallId") or event.get("parentToolCallId")
    return found if isinstance(found, str) else ""


def _of_sub_agent(event: dict[str, Any]) -> bool:
    """Whether another agent than the main one speaks: what ends it does not end the run."""
    return bool(event.get("agentId"))


def _exit_code(said: Any) -> int | None:
    """The exit status at the end of a shell tool's text: 1.0.48 tells it nowhere else."""
    found = _EXITED.search(said) if isinstance(said, str) else None
    return int(found[1]) if found else None


def _provider_error(said: Any) -> tuple[str | None, str]:
    """(code, sentence) of the provider's own answer, which comes as JSON inside a string."""
    try:
        value = json.loads(said) if isinstance(said, str) else said
    except (ValueError, RecursionError):
        return None, str(said)
    if not isinstance(value, dict):
        return None, flatten(value)
    code = value.get("code")
    return code if isinstance(code, str) else None, flatten(value.get("message"))
