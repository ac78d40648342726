"""Messages for people: a title, a kind to fold and colour by, and blocks to show.

Providers name their tools differently and mean the same few things by them; what a tool does is read from its name
and from the shape of its input. A provider with a dialect of its own overrides `Adapter.render`.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from callboard_adapters.messages import Message, MessageType

_MAX_DIFF = 200_000  # characters; a larger change is shown as its new text
_TITLE = 80


class Kind(StrEnum):
    ANSWER = "answer"
    THOUGHT = "thought"
    COMMAND = "command"
    READ = "read"
    EDIT = "edit"
    SEARCH = "search"
    FETCH = "fetch"
    AGENT = "agent"
    TOOL = "tool"
    OUTCOME = "outcome"  # what a tool gave back
    STATE = "state"
    PROBLEM = "problem"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Block:
    """`form` is markdown, terminal, diff, code or json; `path` the file a diff or code belongs to."""

    form: str
    text: str
    path: str = ""


@dataclass(frozen=True, slots=True)
class Rendered:
    title: str
    kind: Kind
    blocks: tuple[Block, ...] = ()


_TOOLS: tuple[tuple[re.Pattern[str], Kind], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (r"bash|shell|terminal|execute|exec_command|run_command|powershell", Kind.COMMAND),
        (r"web|fetch|browse|http", Kind.FETCH),
        (r"grep|glob|search|find|list|^ls$", Kind.SEARCH),
        (r"edit|write|patch|replace|create_file|apply|append", Kind.EDIT),
        (r"read|view|open|cat", Kind.READ),
        (r"^task$|agent|delegate|subagent", Kind.AGENT),
    )
)


def render(message: Message) -> Rendered:
    """Any message. Never raises; an input of an unknown shape is shown as JSON."""
    match message.type:
        case MessageType.TEXT:
            return Rendered(_first_line(message.content), Kind.ANSWER, (Block("markdown", message.content),))
        case MessageType.THINKING:
            return Rendered(_first_line(message.content), Kind.THOUGHT, (Block("markdown", message.content),))
        case MessageType.TOOL_USE:
            return _tool_use(message)
        case MessageType.TOOL_RESULT:
            title = "failed" if message.status == "failed" else _first_line(message.output) or "done"
            return Rendered(title, Kind.OUTCOME, (Block("terminal", message.output),) if message.output else ())
        case MessageType.STATUS:
            return Rendered(message.content or message.status, Kind.STATE)
        case MessageType.ERROR:
            return Rendered(_first_line(message.content), Kind.PROBLEM, (Block("terminal", message.content),))
        case MessageType.LOG:
            return Rendered(_first_line(message.content), Kind.NOTE)


def _tool_use(message: Message) -> Rendered:
    given = message.input or {}
    kind = next((kind for pattern, kind in _TOOLS if pattern.search(message.tool)), Kind.TOOL)
    path = _word(given, "file_path", "path", "filePath", "filename", "target_file")
    command = _word(given, "command", "cmd", "script")
    if command:
        return Rendered(f"{message.tool}: {_first_line(command)}", Kind.COMMAND, (Block("terminal", command),))
    if kind is Kind.EDIT:
        block = _edit(given, path)
        return Rendered(f"{message.tool}: {path}" if path else message.tool, kind, (block,) if block else ())
    subject = path or _word(given, "pattern", "query", "url", "description", "prompt")
    title = f"{message.tool}: {_first_line(subject)}" if subject else message.tool
    return Rendered(title, kind, (Block("json", _json(given)),) if given else ())


def _edit(given: Mapping[str, Any], path: str) -> Block | None:
    old = _word(given, "old_string", "oldText", "old_str", "old")
    new = _word(given, "new_string", "newText", "new_str", "new")
    patch = _word(given, "patch", "diff")
    if patch:
        return Block("diff", patch, path)
    if old or new:
        if len(old) + len(new) > _MAX_DIFF:
            return Block("code", new, path)
        lines = difflib.unified_diff(old.splitlines(), new.splitlines(), path, path, lineterm="")
        return Block("diff", "\n".join(lines), path)
    content = _word(given, "content", "contents", "text", "file_text")
    if content:
        return Block("code", content, path)
    return Block("json", _json(given), path) if given else None


def _word(given: Mapping[str, Any], *names: str) -> str:
    """The first of `names` that holds text; a list of words (an argv) is joined."""
    for name in names:
        value = given.get(name)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, list) and value and all(isinstance(v, str) for v in value):
            return " ".join(value)
    return ""


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(dict(value), ensure_ascii=False, indent=2, default=str)


def _first_line(text: str) -> str:
    line = text.strip().split("\n", 1)[0].strip()
    return line if len(line) <= _TITLE else f"{line[: _TITLE - 1]}…"
