"""MCP servers as ACP's session requests want them: a sorted list, without the transports the agent does not speak."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callboard_adapters.errors import LaunchRefused
from callboard_adapters.messages import Message, MessageType
from callboard_wire.failures import FailureReason

_WRONG_KEYS = ("servers", "mcp", "mcp_servers")


def servers(config: Mapping[str, Any] | None, provider: str) -> tuple[list[dict[str, Any]], list[Message]]:
    """(servers, notices) for `ExecOptions.mcp_config`; None and `{}` are both the empty list.

    Raises `LaunchRefused` for a configuration that is not one: an agent without its tools would guess instead.
    """
    if config is None:
        return [], []
    listed = config.get("mcpServers")
    if listed is None:
        wrong = next((k for k in _WRONG_KEYS if config.get(k)), None)
        text = f"the MCP configuration has {wrong!r} where `mcpServers` is read: no server is passed on"
        return [], [_warn(text)] if wrong else []
    if not isinstance(listed, Mapping):
        raise _refused(provider, "`mcpServers` is not an object")
    found: list[dict[str, Any]] = []
    notices: list[Message] = []
    for name in sorted(listed):
        entry = listed[name]
        if not isinstance(entry, Mapping):
            raise _refused(provider, f"MCP server {name!r} is not an object")
        server = _server(name, entry, provider)
        if server is None:
            notices.append(_warn(f"MCP server {name!r} has neither a command nor a url: left out"))
        else:
            found.append(server)
    return found, notices


def spoken(listed: list[dict[str, Any]], *, http: bool, sse: bool) -> tuple[list[dict[str, Any]], list[Message]]:
    """The servers whose transport the agent declared, and a notice for each other one: one it does not know makes
    some agents refuse the whole session."""
    declared = {"stdio": True, "http": http, "sse": sse}
    kept = [s for s in listed if declared[s.get("type", "stdio")]]
    dropped = [s for s in listed if not declared[s.get("type", "stdio")]]
    return kept, [_warn(f"MCP server {s['name']!r} left out: the agent does not take {s['type']}") for s in dropped]


def _server(name: str, entry: Mapping[str, Any], provider: str) -> dict[str, Any] | None:
    if entry.get("command"):
        args = entry.get("args") or []
        if not isinstance(args, list):
            raise _refused(provider, f"the args of MCP server {name!r} are not a list")
        env = _pairs(entry.get("env"), f"env of MCP server {name!r}", provider)
        return {"name": name, "command": str(entry["command"]), "args": [str(a) for a in args], "env": env}
    if entry.get("url"):
        kind = "sse" if str(entry.get("type", "")).lower() == "sse" else "http"
        headers = _pairs(entry.get("headers"), f"headers of MCP server {name!r}", provider)
        return {"type": kind, "name": name, "url": str(entry["url"]), "headers": headers}
    return None


def _pairs(value: Any, what: str, provider: str) -> list[dict[str, str]]:
    if value is None:
        return []
    if not isinstance(value, Mapping):
        raise _refused(provider, f"the {what} is not an object")
    return [{"name": str(k), "value": str(value[k])} for k in sorted(value)]


def _refused(provider: str, text: str) -> LaunchRefused:
    return LaunchRefused(
        f"the MCP configuration cannot be used: {text}",
        provider=provider,
        repair='write {"mcpServers": {"name": {"command": …} or {"url": …}}}',
        failure_reason=FailureReason.MISSING_CONFIG,
    )


def _warn(text: str) -> Message:
    return Message(MessageType.LOG, text, level="warn")
