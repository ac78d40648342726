"""What a request's body says, the same for every dialect: the words of its conversation and the tools it offers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.model_server.scenarios import words_of

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


@dataclass(frozen=True)
class Tool:
    """A tool the CLI offered: its name and the JSON schema of its arguments."""

    name: str
    schema: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Conversation:
    """A request, read: `words` are its scenario words in order, `tool_done` says that a tool answered the last one."""

    model: str
    stream: bool
    words: tuple[str, ...]
    tool_done: bool
    tools: tuple[Tool, ...]
    turns: int


def read_turns(turns: Iterable[tuple[bool, str]]) -> tuple[tuple[str, ...], bool]:
    """Scenario words and whether the last is answered by a tool, from (is a tool's result, text) pairs in order.

    Only what the person said counts: the caller leaves out the model's own turns, which may quote a prompt.
    """
    words: list[str] = []
    tool_done = False
    for is_tool_result, text in turns:
        if is_tool_result:
            tool_done = bool(words)
        elif found := words_of(text):
            words += found
            tool_done = False
    return tuple(words), tool_done


def shell_call(tools: Sequence[Tool], command: str) -> tuple[str, dict[str, Any]]:
    """The offered tool that runs a shell command, and the arguments that make it run this one.

    Arguments the schema requires beside the command are filled by their type. Raises LookupError when nothing
    offered looks like a shell: the server then says so as text instead of guessing.
    """
    tool = _shell(tools)
    properties = tool.schema.get("properties", {})
    named = next((name for name in COMMAND_PROPERTIES if name in properties), COMMAND_PROPERTIES[0])
    wants_list = properties.get(named, {}).get("type") == "array"
    arguments: dict[str, Any] = {named: ["bash", "-lc", command] if wants_list else command}
    for name in tool.schema.get("required", ()):
        if name not in arguments:
            arguments[name] = _filler(properties.get(name, {}))
    return tool.name, arguments


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
