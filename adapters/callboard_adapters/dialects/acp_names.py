"""Names for tools: ACP agents put what a person reads into `title` (`terminal: ls`, `Running: ls`, `Bash`)."""

from __future__ import annotations

from collections.abc import Mapping

_PREFIXES = {
    "terminal": "terminal",
    "read": "read_file",
    "write": "write_file",
    "patch": "patch",
    "search": "search_files",
    "web search": "web_search",
    "extract": "web_extract",
    "delegate": "delegate_task",
    "analyze image": "vision_analyze",
    "execute code": "execute_code",
}
_KINDS = {
    "read": "read_file",
    "edit": "write_file",
    "execute": "terminal",
    "search": "search_files",
    "fetch": "web_search",
    "think": "thinking",
}
_COMMON = {
    "read": "read_file",
    "read file": "read_file",
    "write": "write_file",
    "write file": "write_file",
    "edit": "edit_file",
    "patch": "edit_file",
    "shell": "terminal",
    "bash": "terminal",
    "terminal": "terminal",
    "run command": "terminal",
    "run shell command": "terminal",
    "search": "search_files",
    "grep": "search_files",
    "find": "search_files",
    "glob": "glob",
    "web search": "web_search",
    "fetch": "web_fetch",
    "web fetch": "web_fetch",
    "todo": "todo_write",
    "todo write": "todo_write",
}
KIRO = {**_COMMON, "glob": "glob", "code": "code", "todo list": "todo_write", "todo_list": "todo_write"}


def tool_name(title: str, kind: str, name: str) -> str:
    """The tool's name from what the agent said about it; the prefix of the title, else its kind, else its words."""
    prefix, colon, _ = title.partition(":")
    low = prefix.strip().lower()
    if colon or low == "execute code":
        if low in _PREFIXES:
            return _PREFIXES[low]
        if low.startswith("patch"):
            return "patch"
        # `Running: ls` names no tool; its kind does.
        return _KINDS.get(kind, prefix.strip()) or name
    return _KINDS.get(kind) or title or kind or name


def common_name(title: str, kind: str, name: str, table: Mapping[str, str] = _COMMON) -> str:
    """As `tool_name`, then in the words most share: `Run Command` → `terminal`, `My Tool` → `my_tool`."""
    found = tool_name(title, kind, name).partition(":")[0].strip().lower()
    return table.get(found, found.replace(" ", "_"))
