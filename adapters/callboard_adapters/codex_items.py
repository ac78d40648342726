"""What codex shows of its work → messages: the items of today's protocol and the shapes the older events share.

Pure functions on one item each. Whether an item belongs to this run is `codex_turn`'s question.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from callboard_adapters import redact
from callboard_adapters.dialects.json_rpc import method_key

MAX_PATCH = 64 << 10
"""Bytes of diffs and file contents in one tool-use, together."""
_MOVED = "\n\nMoved to: "


@dataclass(frozen=True, slots=True)
class Tool:
    """An item that is a tool call. `output` and `failed` count once it has completed."""

    name: str
    input: dict[str, Any] = field(default_factory=dict)
    output: str = ""
    failed: bool = False
    early: bool = True  # what it does is known when it starts; otherwise the call is shown when it ends


def tool_of(item: Mapping[str, Any]) -> Tool | None:
    """The tool call an item is, or None for text, thought and bookkeeping. Raises nothing for missing fields."""
    read = _TOOLS.get(method_key(str(item.get("type") or "")))
    return None if read is None else read(item)


def reasoning_text(item: Mapping[str, Any]) -> str:
    """The summary of a thought, else its raw content, paragraphs apart."""
    for key in ("summary", "content"):
        parts = [_text(part) for part in _list(item.get(key))]
        said = "\n\n".join(part for part in parts if part.strip())
        if said:
            return said
    return ""


def call_id_of(item: Mapping[str, Any]) -> str:
    return str(item.get("id") or item.get("call_id") or "")


# ── tools of today's protocol ────────────────────────────────────────────────────


def _command(item: Mapping[str, Any]) -> Tool:
    given = {"command": command_text(item.get("command"))}
    if item.get("cwd"):
        given["cwd"] = str(item["cwd"])
    status, code = str(item.get("status") or ""), item.get("exitCode")
    failed = _failed(status) or (type(code) is int and code != 0)
    output = _text(item.get("aggregatedOutput"))
    if not output.strip() and failed:
        output = f"exit code {code}" if type(code) is int else status
    return Tool("exec_command", given, output, failed)


def _patch(item: Mapping[str, Any]) -> Tool:
    changes = [change for change in _list(item.get("changes")) if isinstance(change, dict)]
    status = str(item.get("status") or "")
    files = f"{len(changes)} file{'s' if len(changes) != 1 else ''}"
    return Tool("patch_apply", patch_input([_change(c) for c in changes]), f"{status} ({files})", _failed(status))


def _mcp(item: Mapping[str, Any]) -> Tool:
    status = str(item.get("status") or "")
    problem = _error_message(item.get("error"))
    lines = [f"error: {redact.diagnostic(problem)}"] if problem else []
    result = item.get("result")
    if isinstance(result, dict):
        lines += [text for part in _list(result.get("content")) if (text := _content(part))]
    given = {"server": str(item.get("server") or ""), "arguments": item.get("arguments")}
    name = str(item.get("tool") or "mcp_tool")
    return Tool(name, given, "\n".join(lines) or status, _failed(status) or bool(problem))


def _dynamic(item: Mapping[str, Any]) -> Tool:
    parts = [text for part in _list(item.get("contentItems")) if (text := _content(part))]
    status = str(item.get("status") or "")
    failed = _failed(status) or item.get("success") is False
    return Tool(
        str(item.get("tool") or "dynamic_tool"),
        {"arguments": item.get("arguments")},
        "\n".join(parts) or status,
        failed,
    )


def _web_search(item: Mapping[str, Any]) -> Tool:
    given: dict[str, Any] = {"query": _text(item.get("query"))}
    if isinstance(item.get("action"), dict):
        given["action"] = item["action"]
    results = item.get("results")
    output = "completed" if not results else json.dumps(results, ensure_ascii=False, default=str)
    # The query is empty until the search has been made.
    return Tool("web_search", given, output, early=bool(given["query"]))


def _agents(item: Mapping[str, Any]) -> Tool:
    given = {key: item[key] for key in ("prompt", "model", "receiverThreadIds") if item.get(key)}
    status = str(item.get("status") or "")
    states = item.get("agentsStates")
    output = json.dumps(states, ensure_ascii=False, default=str) if states else status
    return Tool(str(item.get("tool") or "collab_agent"), given, output, _failed(status))


def _view_image(item: Mapping[str, Any]) -> Tool:
    return Tool("view_image", {"path": str(item.get("path") or "")}, "completed")


def _make_image(item: Mapping[str, Any]) -> Tool:
    given = {"prompt": item["revisedPrompt"]} if item.get("revisedPrompt") else {}
    status = str(item.get("status") or "completed")
    return Tool("image_generation", given, str(item.get("savedPath") or status), _failed(status))


def _sleep(item: Mapping[str, Any]) -> Tool:
    return Tool("sleep", {"duration_ms": item.get("durationMs")}, "completed")


def _function(item: Mapping[str, Any]) -> Tool:
    return Tool(str(item.get("name") or "function"), {}, _text(item.get("output")), early=False)


_TOOLS: dict[str, Callable[[Mapping[str, Any]], Tool]] = {
    "commandexecution": _command,
    "filechange": _patch,
    "mcptoolcall": _mcp,
    "dynamictoolcall": _dynamic,
    "websearch": _web_search,
    "collabagenttoolcall": _agents,
    "imageview": _view_image,
    "imagegeneration": _make_image,
    "sleep": _sleep,
    "functioncalloutput": _function,
}


# ── shared with the legacy events ───────────────────────────────────────────────────


def command_text(command: Any) -> str:
    """A command as one line: today's protocol gives a string, the older events a list of words."""
    if isinstance(command, list):
        return shlex.join(map(str, command))
    return _text(command)


def legacy_changes(changes: Any) -> list[dict[str, Any]]:
    """`{path: {type, content | unified_diff, move_path}}` → the same list as `_change` gives, sorted by path."""
    if not isinstance(changes, dict):
        return []
    found = []
    for path, change in sorted(changes.items()):
        change = change if isinstance(change, dict) else {}
        kind = str(change.get("type") or "update")
        one = {"path": path, "kind": kind}
        if change.get("move_path"):
            one["move_path"] = str(change["move_path"])
        if kind == "update":
            one["diff"] = _text(change.get("unified_diff"))
        else:
            one["content"] = _text(change.get("content"))
        found.append(one)
    return found


def patch_input(changes: list[dict[str, Any]]) -> dict[str, Any]:
    """`{"changes": […]}` with secrets out and at most `MAX_PATCH` bytes of text.

    Redaction comes first: cutting first could leave half a private key that no pattern knows any more.
    """
    left, whole = MAX_PATCH, 0
    for change in changes:
        for key in ("diff", "content"):
            if key in change:
                raw = redact.text(change[key]).encode("utf-8", "replace")
                whole += len(raw)
                change[key] = raw[:left].decode("utf-8", "ignore")
                left -= min(left, len(raw))
    given: dict[str, Any] = {"changes": changes}
    if whole > MAX_PATCH:
        given |= {"truncated": True, "original_bytes": whole}
    return given


def _change(change: dict[str, Any]) -> dict[str, Any]:
    kind = change.get("kind")
    details = kind if isinstance(kind, dict) else {"type": kind}
    name = str(details.get("type") or "update")
    one = {"path": str(change.get("path") or ""), "kind": name}
    diff = _text(change.get("diff"))
    if details.get("move_path"):
        one["move_path"] = str(details["move_path"])
        diff = diff.removesuffix(f"{_MOVED}{one['move_path']}")
    # For a new and a deleted file "diff" is the whole file.
    one["diff" if name == "update" else "content"] = diff
    return one


def _failed(status: str) -> bool:
    return status in ("failed", "declined")


def _error_message(error: Any) -> str:
    return _text(error.get("message") or error) if isinstance(error, dict) else _text(error)


def _content(part: Any) -> str:
    """One block of an MCP or tool answer as text; pictures and sounds are named, not shown."""
    if not isinstance(part, dict):
        return _text(part)
    if isinstance(part.get("text"), str):
        return str(part["text"])
    return f"[{part.get('type') or 'data'}]"


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        return str(value["text"])
    return json.dumps(value, ensure_ascii=False, default=str)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
