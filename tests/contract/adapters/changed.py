"""Recordings of a CLI that is newer than the adapter: one field renamed, missing, null or of another type."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from callboard_adapters.base import Adapter, Outcome
from callboard_adapters.conformance import Recording
from callboard_adapters.conformance.pure import PureRun
from callboard_adapters.messages import Message, MessageType, RunStatus

KINDS = ("rename", "null", "remove", "type", "value")
_LONGEST = 20_000  # characters of a line worth changing
_WORDS = range(10, 2000)  # characters of a text that must not get lost: no name by chance, nothing a log would shorten
_SHOWN = (MessageType.TEXT, MessageType.THINKING, MessageType.TOOL_USE, MessageType.TOOL_RESULT)
Path: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True)
class Change:
    """`line` of the recording with the field at `path` changed; `says` is the kind of message it is in."""

    line: int
    says: str
    path: Path
    kind: str
    data: bytes

    def __str__(self) -> str:
        return f"{self.says} {'.'.join(map(str, self.path))} {self.kind}"


def changes(recording: Recording) -> Iterator[Change]:
    """One of each kind for every field that the recording's messages have; list elements count as one field."""
    done = set()
    for number, line in enumerate(recording.lines):
        try:
            message = json.loads(line) if len(line) < _LONGEST else None
        except ValueError:
            continue
        for path in _paths(message):
            for kind in KINDS:
                field = (_says(message), tuple("#" if type(k) is int else k for k in path), kind)
                changed = None if field in done else _changed(message, path, kind)
                if changed is not None:
                    done.add(field)
                    data = json.dumps(changed, ensure_ascii=False, separators=(",", ":")).encode()
                    yield Change(number, field[0], path, kind, data)


class Undisturbed:
    """What an adapter makes of a recording, and what must stay true of a changed one."""

    def __init__(self, adapter: type[Adapter], recording: Recording) -> None:
        self.adapter, self.recording = adapter, recording
        run = PureRun.of(adapter, recording)
        self.outcome = run.play()
        self._texts = {t for m in run.messages if m.type in _SHOWN for t in _texts(m) if len(t) in _WORDS}

    def problem(self, change: Change) -> str:
        """What `change` broke that it must not: "" for nothing."""
        lines = [*self.recording.lines]
        lines[change.line] = change.data
        run = PureRun.of(self.adapter, replace(self.recording, lines=tuple(lines)))
        try:
            outcome = run.play()
        except Exception as error:  # noqa: BLE001 - whatever an adapter raises is what this looks for
            return f"raised {error!r}"
        if not isinstance(outcome, Outcome) or not isinstance(self.outcome, Outcome):
            return "" if type(outcome) is type(self.outcome) else f"ended as {type(outcome).__name__}"
        if outcome.status is RunStatus.COMPLETED and self.outcome.status is not RunStatus.COMPLETED:
            return f"completed, and the run had failed: {self.outcome.error}"
        shown = "".join(m.content for m in run.messages if m.type in (MessageType.TEXT, MessageType.THINKING))
        shown = "\n".join([shown, *(t for m in run.messages for t in _texts(m))])
        for text in self._texts if change.kind in ("rename", "type", "value") and not _is_answer(change) else ():
            escaped = json.dumps(text, ensure_ascii=False)[1:-1]
            still_said = escaped.encode() in change.data
            if still_said and not any(t in shown for t in (text, escaped, json.dumps(escaped)[1:-1])):
                return f"lost {text!r}"
        return ""


def _is_answer(change: Change) -> bool:
    """An answer of a conversation that cannot be read ends it; what would have followed is not lost."""
    return b'"result":' in change.data and b'"id":' in change.data and b'"type":"result"' not in change.data


def _texts(message: Message) -> Iterator[str]:
    yield message.content
    yield message.output
    for value in (message.input or {}).values():
        yield value if type(value) is str else json.dumps(value, ensure_ascii=False, default=str)


def _paths(value: Any, at: Path = ()) -> Iterator[Path]:
    inside = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, one in inside:
        yield (*at, key)
        yield from _paths(one, (*at, key))


def _changed(message: Any, path: Path, kind: str) -> Any:
    """A copy with one field changed; None where this kind of change does not apply."""
    message = copy.deepcopy(message)
    parent, key = message, path[-1]
    for step in path[:-1]:
        parent = parent[step]
    value = parent[key]
    if kind == "null":
        parent[key] = None
    elif kind == "remove":
        del parent[key]
    elif kind == "type":
        parent[key] = [value] if isinstance(value, dict) else {"value": value}
    elif kind == "value" and type(value) is str and len(value) < 30:
        parent[key] = f"{value}_v2"
    elif kind == "rename" and type(key) is str:
        items = [(f"{k}V2" if k == key else k, v) for k, v in parent.items()]
        parent.clear()
        parent.update(items)
    else:
        return None
    return message


def _says(message: Any) -> str:
    """What kind of message it is, in any of the protocols."""
    message = message if isinstance(message, dict) else {}
    params = message.get("params") if isinstance(message.get("params"), dict) else {}
    parts = [message.get("type"), message.get("subtype"), message.get("method")]
    for inner in (params.get("update"), params.get("item"), message.get("assistantMessageEvent")):
        if isinstance(inner, dict):
            parts += [inner.get("sessionUpdate"), inner.get("type")]
    return "/".join(str(p) for p in parts if p) or "answer"
