"""The configuration of one OpenClaw run: the user's own, with the workspace pinned and the MCP servers settled.

OpenClaw works in its configured workspace and not in the folder it is started in, so a run without this would read
another AGENTS.md and write its files somewhere else. The wrapper includes the user's file and lays a few keys over it;
objects merge, so an MCP server of the user is switched off by name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


class BadMcpServer(ValueError):
    """An MCP server that OpenClaw would not start; the text names it and what is wrong."""


def candidates(env: Mapping[str, str], home: str) -> list[str]:
    """Where the active configuration may be, the first that exists wins. Empty when only the CLI can tell."""
    named = env.get("OPENCLAW_CONFIG_PATH") or env.get("CLAWDBOT_CONFIG_PATH")
    if named:
        return [named.replace("~", home, 1) if named.startswith("~") else named]
    if env.get("OPENCLAW_PROFILE"):
        return []
    state = env.get("OPENCLAW_STATE_DIR") or env.get("CLAWDBOT_STATE_DIR")
    folders = [state] if state else [f"{home}/.{n}" for n in ("openclaw", "clawdbot", "moltbot", "moldbot")]
    names = ("openclaw", "clawdbot", "moltbot", "moldbot")
    return [f"{folder}/{name}.json" for folder in folders for name in names]


def wrapper(
    active: str, workspace: str, agents: Any, servers: Mapping[str, Any] | None, users_servers: Sequence[str]
) -> bytes:
    """The file's content. `active` may be empty; `agents` is the user's `agents` section as far as it is known;
    `servers` None inherits the user's MCP servers. Raises `BadMcpServer`."""
    # Without skipBootstrap the folder, a user's repository, gets SOUL.md, IDENTITY.md, BOOTSTRAP.md and others.
    section: dict[str, Any] = {"defaults": {"workspace": workspace, "skipBootstrap": True}}
    known = agents if isinstance(agents, dict) else {}
    if isinstance(known.get("entries"), dict):
        section["entries"] = {name: {"workspace": workspace} for name in known["entries"]}
    elif isinstance(known.get("list"), list):  # before 2026.6
        section["list"] = [{**a, "workspace": workspace} for a in known["list"] if isinstance(a, dict)]
    content: dict[str, Any] = {"agents": section}
    if active:
        content["$include"] = [active]
    if servers is not None:
        content["mcp"] = {"servers": _servers(servers, users_servers)}
    return json.dumps(content).encode()


def _servers(servers: Mapping[str, Any], users_servers: Sequence[str]) -> dict[str, Any]:
    settled: dict[str, Any] = {name: {"enabled": False} for name in users_servers}
    for name, entry in servers.items():
        if not isinstance(entry, dict) or not (entry.get("command") or entry.get("url")):
            raise BadMcpServer(f"{name} has neither a command nor a url")
        server = {k: v for k, v in entry.items() if k not in ("type", "enabled")}
        if entry.get("url"):
            remote = str(entry.get("type") or "http").lower()
            server["transport"] = "sse" if remote == "sse" else "streamable-http"
        # Under the user's own name the two would merge: the user's secrets into the agent's server.
        free = name if name not in settled else _free(name, {*settled, *servers})
        settled[free] = server
    return settled


def _free(name: str, taken: set[str]) -> str:
    number = 2
    while f"{name}-{number}" in taken:
        number += 1
    return f"{name}-{number}"
