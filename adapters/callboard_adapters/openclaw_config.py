"""The configuration of one OpenClaw run: the user's own, with the workspace pinned, the MCP servers settled and, for a
run that a gateway is to do, the gateway named.

OpenClaw works in its configured workspace and not in the folder it is started in, so a run without this would read
another AGENTS.md and write its files somewhere else. The wrapper includes the user's file and lays a few keys over it;
objects merge, so an MCP server of the user is switched off by name.

The user's file is left out where a run names a gateway's address. Merged under it, 2026.9.6 was seen to send the
password that the user keeps for *their* gateway to ours. Nothing in it is needed then: models, tools and workspaces are
the gateway's own. 2026.5.5 and 2026.9.6 know a gateway to talk to as `gateway.remote`, and refuse `gateway.host`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from callboard_adapters.options import ExecOptions

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 18789
_VARIABLE: Final = re.compile(r"\$\{([A-Z_][A-Z0-9_]*)\}")
_REFERENCE: Final = re.compile(r"\$(?:\{[A-Z][A-Z0-9_]*\}|[A-Z][A-Z0-9_]*)")


class BadConfig(ValueError):
    """A setting that OpenClaw could not work with; the text names it and what is wrong, and holds no secret."""


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


def names_a_gateway(options: ExecOptions) -> bool:
    """Whether the run goes to a gateway whose address is not the user's."""
    gateway = options.openclaw_gateway
    return (
        options.openclaw_mode == "gateway" and gateway is not None and bool(gateway.host or gateway.port or gateway.tls)
    )


def gateway(options: ExecOptions) -> dict[str, Any]:
    """The section of that name; empty for a run that needs none. Raises `BadConfig`."""
    pin = options.openclaw_gateway
    if options.openclaw_mode != "gateway" or pin is None:
        return {}
    token = {"token": _literal(pin.token)} if pin.token else {}
    if names_a_gateway(options):
        host = pin.host or DEFAULT_HOST
        address = f"[{host}]" if ":" in host else host
        url = f"{'wss' if pin.tls else 'ws'}://{address}:{pin.port or DEFAULT_PORT}"
        return {"mode": "remote", "remote": {"url": url, **token}}
    # The user's own gateway, be it here ("local": `auth` counts) or elsewhere ("remote").
    return {"auth": {"mode": "token", **token}, "remote": token} if token else {}


def _literal(token: str) -> str:
    """A token as OpenClaw reads a text: `${NAME}` would be a variable of the environment, `$${NAME}` is itself."""
    if _REFERENCE.fullmatch(token):
        raise BadConfig("the gateway's token reads as the name of a variable to openclaw")
    return _VARIABLE.sub(r"$${\1}", token)


def wrapper(
    active: str,
    workspace: str,
    agents: Any,
    servers: Mapping[str, Any] | None,
    users_servers: Sequence[str],
    gateway: Mapping[str, Any],
) -> bytes:
    """The file's content. `active` may be empty; `agents` is the user's `agents` section as far as it is known;
    `servers` None inherits the user's MCP servers. `gateway` is a section of that name. Raises
    `BadConfig`."""
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
    if gateway:
        content["gateway"] = dict(gateway)
    return json.dumps(content).encode()


def _servers(servers: Mapping[str, Any], users_servers: Sequence[str]) -> dict[str, Any]:
    settled: dict[str, Any] = {name: {"enabled": False} for name in users_servers}
    for name, entry in servers.items():
        if not isinstance(entry, dict) or not (entry.get("command") or entry.get("url")):
            raise BadConfig(f"the MCP server {name} has neither a command nor a url")
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


def json_in(text: str) -> Any:
    """The JSON value that ends a command's output; log lines may stand before it."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.startswith(("{", "[", '"')):
            try:
                return json.loads("\n".join(lines[number:]))
            except ValueError:
                continue
    return None
