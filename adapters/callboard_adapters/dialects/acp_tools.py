"""Tool calls of an ACP session: one tool-use and one tool-result per call, whatever order the pieces come in.

Agents announce a call before they know its input, stream the input as text, or never say it. A tool-use can be sent
only once, so it waits for its input, but never longer than `PATIENCE`: the tool clock starts with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from callboard_adapters.base import Alive, Output, Timer
from callboard_adapters.dialects.acp_content import content_text, says_nothing
from callboard_adapters.dialects.acp_offer import first_text, mapping, text
from callboard_adapters.dialects.json_rpc import method_key
from callboard_adapters.messages import Message, MessageType

PATIENCE = 2.0
"""Seconds a tool-use waits for the input of its call after the last news of it."""
TIMER = "tool-input"

_OVER = {
    **dict.fromkeys(("completed", "complete", "success", "succeeded", "done"), "completed"),
    **dict.fromkeys(("failed", "error", "errored", "cancelled", "canceled", "rejected", "denied"), "failed"),
}
Namer: TypeAlias = Callable[[str, str, str], str]
"""(title, kind, name) → the tool's name."""


class Announces(Enum):
    """What the first frame of a call holds."""

    INPUT_LATER = "input later"
    STREAMED_INPUT = "streamed input"  # updates repeat the arguments so far as content text, JSON once complete
    EVERYTHING = "everything"  # the frame is final; the input is its content text


@dataclass(slots=True)
class Call:
    id: str
    title: str = ""
    kind: str = ""
    name: str = ""
    input: dict[str, Any] | None = None
    said_so_far: str = ""  # content text of the frames before the end
    status: str = ""  # completed or failed
    shown: bool = False
    shown_with: str = ""  # what had been said when it was shown: its input, not its result
    tool: str = ""


class Tools:
    def __init__(self, announces: Announces, namer: Namer, on_over: Callable[[Call], None]) -> None:
        self.announces = announces
        self._namer = namer
        self._on_over = on_over
        self._calls: dict[str, Call] = {}  # running
        self._over: set[str] = set()

    def frame(self, update: dict[str, Any]) -> list[Output]:
        """A `tool_call` or `tool_call_update`: the same fields, any of them missing."""
        call_id = _call_id(update)
        if call_id in self._over:
            return [Alive()]
        call = self._calls.get(call_id)
        new = call is None
        if call is None:
            call = self._calls[call_id] = Call(call_id)
        status = _OVER.get(method_key(text(update.get("status"))), "")
        self._learn(call, update, over=bool(status))
        if status:
            return self._end(call, update, status)
        outputs: list[Output] = []
        if self._is_known(call, update) or (new and self.announces is Announces.EVERYTHING):
            outputs += self._show(call)
        if not call.shown:
            outputs.append(Timer(TIMER, PATIENCE))
        return outputs or [Alive(progress=True)]  # a running tool says something

    def asked(self, tool_call: dict[str, Any]) -> list[Output]:
        """Permission was asked for this call: it is about to run, so it is shown with what is known."""
        call = self._calls.get(_call_id(tool_call))
        if call is None:
            return []
        self._learn(call, tool_call, over=True)
        return self._show(call)

    def flush(self) -> list[Output]:
        """Show every call that still waits for its input."""
        return [output for call in list(self._calls.values()) for output in self._show(call)]

    def close(self, why: str) -> list[Output]:
        """End every call that still runs: nothing will be said about it any more. What it had said is kept."""
        outputs: list[Output] = []
        for call in list(self._calls.values()):
            is_output = self.announces is not Announces.STREAMED_INPUT and call.said_so_far != call.shown_with
            said = f"{call.said_so_far}\n" if is_output else ""
            outputs += self._end(call, {"content": f"{said}{why}"}, "failed")
        return outputs

    def knows(self, update: dict[str, Any]) -> bool:
        """Whether the call of a frame was announced before."""
        call_id = _call_id(update)
        return call_id in self._calls or call_id in self._over

    # the parts -------------------------------------------------------------------

    def _learn(self, call: Call, update: dict[str, Any], *, over: bool) -> None:
        call.title = call.title or text(update.get("title"))
        call.kind = call.kind or text(update.get("kind"))
        call.name = call.name or text(update.get("name")) or _vendor_name(update)
        for key in ("rawInput", "input", "parameters", "raw_input"):
            given = update.get(key)
            if isinstance(given, dict) and given:
                call.input = given
                return
            if isinstance(given, str) and given.strip():
                call.input = _as_object(given) or {"text": given}
                return
        if not over:  # the content of the last frame is the result
            call.said_so_far = _shown(update) or call.said_so_far

    def _is_known(self, call: Call, update: dict[str, Any]) -> bool:
        if call.input is not None:
            # A call that is pending may still be written by the model: OpenCode's first frame has the folder alone.
            return method_key(text(update.get("status"))) != "pending"
        if self.announces is Announces.STREAMED_INPUT:
            # A cut-off object never parses, so the first that does is whole.
            call.input = _as_object(call.said_so_far)
        return call.input is not None

    def _show(self, call: Call) -> list[Output]:
        if call.shown:
            return []
        call.shown, call.shown_with = True, call.said_so_far
        call.tool = self._namer(call.title, call.kind, call.name) or "tool"
        if call.input is None:
            said = "" if call.said_so_far.strip() == "{}" else call.said_so_far  # called without arguments
            call.input = _as_object(said) or _worded(said) or _worded_title(call.title)
        return [Message(MessageType.TOOL_USE, tool=call.tool, call_id=call.id, input=call.input)]

    def _end(self, call: Call, update: dict[str, Any], status: str) -> list[Output]:
        outputs = self._show(call)
        call.status = status
        self._calls.pop(call.id, None)
        if call.id:
            self._over.add(call.id)
        self._on_over(call)
        shown = "failed" if _exit_code(update) else status
        result = Message(MessageType.TOOL_RESULT, call_id=call.id, output=_output(update), status=shown)
        return [*outputs, result]


def _vendor_name(update: dict[str, Any]) -> str:
    """The tool's own name where a vendor adds it: `_meta: {"kiro": {"toolName": …}}`."""
    return first_text(mapping(extra).get("toolName") for extra in mapping(update.get("_meta")).values())


def _call_id(update: dict[str, Any]) -> str:
    value = first_text((update.get("toolCallId"), update.get("tool_call_id"), update.get("id")))
    return value or str(update.get("toolCallId") or "")


def _as_object(said: str) -> dict[str, Any] | None:
    if not said.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(said)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and value else None


def _worded(said: str) -> dict[str, Any] | None:
    """An input made of words: `$ ls` is a command, anything else is text."""
    said = said.strip()
    if said.startswith("$ "):
        return {"command": said[2:]}
    return {"text": said} if said else None


def _worded_title(title: str) -> dict[str, Any] | None:
    """A title of one word is the tool's name and no input."""
    return {"text": title} if ":" in title or " " in title.strip() else None


def _exit_code(update: dict[str, Any]) -> int:
    """Of a command. The tool "completed" whatever the command ended with; whoever reads the run wants to know."""
    raw = mapping(update.get("rawOutput"))
    code = raw.get("exit_code", raw.get("exitCode"))
    return code if type(code) is int else 0


def _shown(update: dict[str, Any]) -> str:
    """The content as text; as JSON where it has a shape nobody has seen."""
    content = update.get("content")
    if says_nothing(content):
        return ""
    return content_text(content) or json.dumps(content, ensure_ascii=False, default=str)


def _output(update: dict[str, Any]) -> str:
    """The result as text: the raw one where it is text, else the shown content, else the raw one as JSON."""
    raw = next((update[k] for k in ("rawOutput", "output", "raw_output") if update.get(k) is not None), None)
    if isinstance(raw, str) and raw:
        return raw
    shown = content_text(update.get("content")) if raw else _shown(update)
    if shown or raw is None or raw == "":
        return shown
    return json.dumps(raw, ensure_ascii=False, default=str)
