"""What a request's body says, the same for every dialect: the words of its conversation and the tools it offers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.model_server.scenarios import UNKNOWN_TOOL, Call, Target, words_of

SHELL_NAMES = (
    "bash",  # claude and codebuddy (Bash), opencode, pi, copilot, kimi (Bash)
    "exec_command",  # codex
    "shell",  # codex with other models
    "shell_command",
    "run_shell_command",  # qwen
    "run_terminal_command",  # grok
    "terminal",  # hermes
    "exec",  # openclaw
)
COMMAND_PROPERTIES = ("command", "cmd")
SUBAGENT_NAMES = ("agent", "task", "delegate_task", "spawn_agent", "sessions_spawn", "spawn_subagent")
_PROMPT_PROPERTIES = ("prompt", "task", "message", "goal")
MCP_SERVER = "loopback"  # the tool of a server by this name is found however a CLI glues the names
MCP_TOOL = f"mcp__{MCP_SERVER}__say"  # as it is called where it was not offered
SEARCH_NAMES = ("toolsearch", "tool_search")  # claude and codebuddy, qwen
_EXECUTORS = {"deferexecutetool": ("toolName", "params"), "tool_call": ("name", "arguments")}  # codebuddy, qwen
_KNOWN_STRINGS = {"subagent_type": "general-purpose", "agent_type": "general-purpose"}


@dataclass(frozen=True)
class Tool:
    """A tool the CLI offered: its name and the JSON schema of its arguments."""

    name: str
    schema: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Conversation:
    """A request, read: `words` are its scenario words in order, `results` how many tool results follow the last one."""

    model: str
    stream: bool
    words: tuple[str, ...]
    results: int
    tools: tuple[Tool, ...]
    turns: int


def read_turns(turns: Iterable[tuple[bool, str]]) -> tuple[tuple[str, ...], int]:
    """Scenario words and how many results follow the last one, from (is a tool's result, text) pairs in order.

    Only what the person said counts: the caller leaves out the model's own turns, which may quote a prompt.
    """
    words: list[str] = []
    results = 0
    for is_tool_result, text in turns:
        if is_tool_result:
            results += bool(words)
        elif found := words_of(text):
            words += found
            results = 0
    return tuple(words), results


def spoken(tools: Sequence[Tool], call: Call) -> tuple[str, str]:
    """A call's tool and its arguments as JSON text, which a broken call breaks off in the middle.

    Raises LookupError when no tool of that kind was offered: nobody could tell from the answer what went wrong.
    """
    name, arguments = _named(tools, call)
    text = json.dumps(arguments)
    return name, text[: len(text) // 2] if call.broken else text


def _named(tools: Sequence[Tool], call: Call) -> tuple[str, dict[str, Any]]:
    if call.target is Target.NOBODY:
        return UNKNOWN_TOOL, {"command": call.said}
    if call.target is Target.SHELL:
        tool = _shell(tools)
        key, value = _command(tool, call.said)
        return tool.name, _filled(tool, {key: value})
    if call.target in (Target.MCP, Target.SEARCH):
        return _mcp(tools, call)
    tool = _first(tools, lambda name: name in SUBAGENT_NAMES, "no tool that starts an agent")
    properties = tool.schema.get("properties", {})
    key = next((one for one in _PROMPT_PROPERTIES if one in properties), _PROMPT_PROPERTIES[0])
    return tool.name, _filled(tool, {key: call.said})


def _mcp(tools: Sequence[Tool], call: Call) -> tuple[str, dict[str, Any]]:
    """The MCP tool, called as the CLI wants it: looked for first, through another tool, or by its name alone."""
    for tool in tools:
        if MCP_SERVER in tool.name.lower():
            return tool.name, _filled(tool, {"text": call.said})
    for tool in tools:
        name = tool.name.lower()
        if call.target is Target.SEARCH and name in SEARCH_NAMES:
            by_name = "tool_names" in tool.schema.get("properties", {})
            return tool.name, {"tool_names": [MCP_TOOL]} if by_name else {"query": f"select:{MCP_TOOL}"}
        if call.target is Target.MCP and name in _EXECUTORS:
            named, given = _EXECUTORS[name]
            return tool.name, {named: MCP_TOOL, given: {"text": call.said}}
    return MCP_TOOL, {"text": call.said}


def _first(tools: Sequence[Tool], wanted: Callable[[str], bool], otherwise: str) -> Tool:
    for tool in tools:
        if wanted(tool.name.lower()):
            return tool
    raise LookupError(f"{otherwise} among the tools offered: {', '.join(tool.name for tool in tools)}")


def _command(tool: Tool, command: str) -> tuple[str, Any]:
    properties = tool.schema.get("properties", {})
    key = next((name for name in COMMAND_PROPERTIES if name in properties), COMMAND_PROPERTIES[0])
    return key, ["bash", "-lc", command] if properties.get(key, {}).get("type") == "array" else command


def _filled(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments the schema requires beside the given ones are filled by their type."""
    properties = tool.schema.get("properties", {})
    missing = [name for name in tool.schema.get("required", ()) if name not in arguments]
    known = {name: _KNOWN_STRINGS[name] for name in _KNOWN_STRINGS if name in properties}
    return {**{name: _filler(properties.get(name, {})) for name in missing}, **known, **arguments}


def _shell(tools: Sequence[Tool]) -> Tool:
    for wanted in SHELL_NAMES:
        for tool in tools:
            if tool.name.lower() == wanted:
                return tool
    for tool in tools:
        if any(name in tool.schema.get("properties", {}) for name in COMMAND_PROPERTIES):
            return tool
    raise LookupError(f"no shell among the tools offered: {', '.join(tool.name for tool in tools)}")


def _filler(schema: Mapping[str, Any]) -> Any:
    if "default" in schema:
        return schema["default"]
    if schema.get("enum"):
        return schema["enum"][0]
    fillers: dict[str, Any] = {"boolean": False, "integer": 60, "number": 60, "array": [], "object": {}}
    kind = schema.get("type")
    return fillers.get(kind, "say hello") if isinstance(kind, str) else "say hello"


def text_of(content: Any) -> str:
    """The text in a message's content: a string, or a list of blocks with a `text`."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [block.get("text") for block in content if isinstance(block, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))
