"""The configuration a run of an opencode-like CLI gets in its environment (`<PRODUCT>_CONFIG_CONTENT`).

Two things are settled here, both by merging over the user's own configuration:

*Permissions.* Headless, a rule that resolves to `ask` blocks for ever where the CLI does not answer it by itself (an
agent spawned by an agent, in older versions). Every `ask` becomes `allow`; what the user denies stays denied; questions
to the user are denied. The merge keeps the place of a key that exists and the last matching rule wins, so an existing
rule must be replaced under its own key: for that the user's configuration has to be known.

*MCP servers.* None inherits the user's; anything else, also `{}`, is exactly the set the agent gets, so the user's
other servers are switched off by name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from callboard_adapters.base import RunContext
from callboard_adapters.errors import LaunchRefused
from callboard_wire.failures import FailureReason

ASKING_BY_DEFAULT = {"doom_loop": "allow", "external_directory": "allow", "read": "allow"}
"""What the CLI's own defaults ask about, answered. Only for a configuration that says nothing about permissions."""
_QUESTIONS = {"question": "deny", "plan_enter": "deny", "plan_exit": "deny"}
_SERVER_FIELDS = {
    "local": {"type", "command", "environment", "enabled", "timeout"},
    "remote": {"type", "url", "headers", "oauth", "enabled", "timeout"},
}


class BadMcpServer(ValueError):
    """An MCP server that the CLI would not start; the text names it and what is wrong."""


def permissions(user: Mapping[str, Any] | None) -> dict[str, Any]:
    """`permission` and `agent` for the run's configuration. `user` is the resolved configuration, None when unknown
    to say anything about permissions."""
    if user is None:
        return {"permission": {**ASKING_BY_DEFAULT, **_QUESTIONS}}
    own = user.get("permission")
    rules: dict[str, Any] = dict(ASKING_BY_DEFAULT)
    if isinstance(own, str):  # the short form: one word for everything
        own = {"*": own}
    if isinstance(own, dict):
        answered = _answered(own)
        # A default that the user has a wildcard for is the wildcard's business.
        rules = {**({} if "*" in own else rules), **answered}
    content: dict[str, Any] = {"permission": {**rules, **_QUESTIONS}}
    agents = user.get("agent")
    changed = {
        name: {"permission": {**_answered(agent["permission"]), **_QUESTIONS}}
        for name, agent in (agents.items() if isinstance(agents, dict) else ())
        if isinstance(agent, dict) and isinstance(agent.get("permission"), dict)
    }
    if changed:
        content["agent"] = changed
    return content


def late_rules(inline: str) -> str | None:
    """`<PRODUCT>_PERMISSION` of the environment with its questions answered: the CLI lays it over everything else.
    None when it is no JSON object: then the CLI leaves it out."""
    try:
        rules = json.loads(inline)
    except ValueError:
        return None
    return json.dumps({**_answered(rules), **_QUESTIONS}) if isinstance(rules, dict) else None


def mcp(config: Mapping[str, Any], user: Mapping[str, Any] | None) -> dict[str, Any]:
    """`mcp` for the run's configuration: the managed servers, and the user's others switched off.

    `config` is `{"mcpServers": {...}}` or the CLI's own `{"mcp": {...}}`. Raises `BadMcpServer`.
    """
    native = config.get("mcp")
    given = config.get("mcpServers")
    if given is None and isinstance(native, dict):
        given = native
    if given is None:
        given = {}
    if not isinstance(given, dict):
        raise BadMcpServer("mcpServers is no object")
    theirs = user.get("mcp") if user else None
    servers: dict[str, Any] = {
        name: {"enabled": False} for name in (theirs if isinstance(theirs, dict) else ()) if name not in given
    }
    for name, entry in given.items():
        servers[name] = _server(name, entry)
    return servers


def managed(config: Mapping[str, Any], user: Mapping[str, Any] | None, product: str) -> dict[str, Any]:
    """The run's `mcp` key. Raises `LaunchRefused` for servers that cannot work, and where the user's are unknown."""
    if user is None:
        # Without knowing the user's servers an empty set would silently be the user's set.
        raise LaunchRefused(
            f"{product}'s own MCP servers could not be listed, so the agent's set cannot be enforced",
            provider=product,
            repair=f"run `{product} debug config` in the workdir and mend what it says",
            failure_reason=FailureReason.MISSING_CONFIG,
        )
    try:
        return {"mcp": mcp(config, user)}
    except BadMcpServer as error:
        raise LaunchRefused(
            f"the MCP configuration cannot work: {error}",
            provider=product,
            failure_reason=FailureReason.MISSING_CONFIG,
        ) from error


def _answered(rules: Mapping[str, Any]) -> dict[str, Any]:
    """The same rules under the same keys with every `ask` answered."""
    return {
        key: _answered(rule) if isinstance(rule, dict) else "allow" if rule == "ask" else rule
        for key, rule in rules.items()
    }


def _server(name: str, entry: Any) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise BadMcpServer(f"{name} is no object")
    if set(entry) == {"enabled"} and isinstance(entry["enabled"], bool):
        return dict(entry)
    server = dict(entry) if entry.get("type") in _SERVER_FIELDS else _translated(name, entry)
    unknown = set(server) - _SERVER_FIELDS[server["type"]]
    if unknown:
        raise BadMcpServer(f"{name} has unknown fields: {', '.join(sorted(unknown))}")
    if server["type"] == "local":
        command = server.get("command")
        if not isinstance(command, list) or not command or not all(isinstance(c, str) and c for c in command[:1]):
            raise BadMcpServer(f"{name} has no command")
    elif not isinstance(server.get("url"), str) or not server["url"]:
        raise BadMcpServer(f"{name} has no url")
    timeout = server.get("timeout")
    if timeout is not None and (type(timeout) is not int or timeout <= 0):
        raise BadMcpServer(f"the timeout of {name} is no positive number of milliseconds")
    return server


def _translated(name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """From the shape everybody else uses: command/args/env, or type/url/headers."""
    kept = {k: entry[k] for k in ("enabled", "timeout", "oauth") if k in entry}
    if entry.get("command"):
        args = entry.get("args") or []
        command = entry["command"] if isinstance(entry["command"], list) else [entry["command"]]
        if not isinstance(args, list):
            raise BadMcpServer(f"the args of {name} are no list")
        server = {"type": "local", "command": [*command, *map(str, args)], **kept}
        if entry.get("env"):
            server["environment"] = entry["env"]
        return server
    if entry.get("url"):
        server = {"type": "remote", "url": entry["url"], **kept}
        if entry.get("headers"):
            server["headers"] = entry["headers"]
        return server
    raise BadMcpServer(f"{name} has neither a command nor a url")


def merged(existing: str, content: Mapping[str, Any]) -> str | None:
    """`content` over the JSON object in `existing`, as JSON; None when `existing` is no such thing."""
    try:
        base = json.loads(existing) if existing.strip() else {}
    except ValueError:
        return None
    return json.dumps(_deep(base, content)) if isinstance(base, dict) else None


def _deep(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        result[key] = _deep(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result


def qualified(model: str, catalogue: str) -> str:
    """`provider/model` for a bare model name if exactly one provider of the CLI's list has it, else ""."""
    names = {line.split()[0] for line in catalogue.splitlines() if line.strip()}
    fitting = [n for n in names if "/" in n and n.split("/", 1)[1] == model]
    return fitting[0] if len(fitting) == 1 else ""


def lacks(model: str, catalogue: str) -> bool:
    """Whether the CLI's list of models is one and does not have this one."""
    names = {line.split()[0] for line in catalogue.splitlines() if "/" in line}
    return bool(names) and model not in names


def files(context: RunContext, product: str) -> list[str]:
    """Where the CLI looks for rules: its own folder, files the environment names, each folder up from the cwd."""
    env = context.env
    home = env.get("XDG_CONFIG_HOME") or f"{context.home}/.config"
    folders = [f"{home}/{product}", env.get(f"{product.upper()}_CONFIG_DIR") or ""]
    patterns = [env.get(f"{product.upper()}_CONFIG") or "", f"{home}/{product}/config.json"]
    at = context.cwd.rstrip("/")
    while at:
        patterns += [f"{at}/{product}.json", f"{at}/{product}.jsonc"]
        folders.append(f"{at}/.{product}")
        at = at.rpartition("/")[0]
    for folder in filter(None, folders):
        patterns += [f"{folder}/{product}.json", f"{folder}/{product}.jsonc"]
        patterns += [f"{folder}/{kind}/**/*.md" for kind in ("agent", "agents", "mode", "modes")]
    return [p for p in patterns if p]


def resolved(output: str) -> dict[str, Any] | None:
    """The configuration that `debug config` printed, None when it is none; other lines may stand before it."""
    start = output.find("{")
    try:
        value = json.loads(output[start:]) if start >= 0 else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
