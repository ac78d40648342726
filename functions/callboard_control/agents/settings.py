"""What an agent's settings may be: checked when they are written, for a machine would learn of it a task later."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from callboard_control import names
from callboard_control.errors import InvalidRequest
from callboard_control.store.models import WorkspaceItem
from callboard_wire.agents import CreateAgentRequest, UpdateAgentRequest
from callboard_wire.providers import PROVIDERS, wrong_level, wrong_tier

MAX_MCP_DEPTH: Final = 32
"""Levels of lists and objects in an MCP configuration. Real ones have five; a run writes it out in its CLI's own
format, and the writers go down recursively."""
MASKS: Final = ("***", "****")
"""Stand for a value the caller was not shown."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""What moves a cursor or turns a line around. Joiners within words stay: scripts and emoji are written with them."""


def refuse_env(request: CreateAgentRequest | UpdateAgentRequest) -> None:
    """Secrets do not come in among the plain fields; dropping them in silence would leave an agent without them."""
    if "custom_env" in request.model_fields_set:
        raise InvalidRequest("The environment has its own endpoint: PUT /api/agents/{id}/env.", code="use_env_endpoint")


def cleaned(sent: Mapping[str, Any]) -> dict[str, Any]:
    """The fields without what no text downstream can hold (NUL), a description on one line, and empty words as what
    they mean: none."""
    found = dict(sent)
    if found.get("instructions"):
        found["instructions"] = found["instructions"].replace("\x00", "")
    if found.get("description"):
        found["description"] = " ".join(found["description"].replace("\x00", "").split())
    for name in ("model", "thinking_level", "service_tier", "model_profile"):
        if isinstance(found.get(name), str):
            found[name] = found[name].strip() or None
    return found


def refuse_unfit(values: Mapping[str, Any], provider: str) -> None:
    """Check the fields that are there and not None, for an agent of `provider`. Raises `InvalidRequest`."""
    if values.get("name") is not None:
        names.refuse_odd(values["name"])
    if values.get("description"):
        _refuse_control(values["description"], "description")
    if values.get("model"):
        _refuse_control(values["model"], "model")
    if values.get("custom_args"):
        _refuse_args(values["custom_args"])
    if values.get("mcp_config") is not None:
        _refuse_mcp(values["mcp_config"])
    refuse_level(values.get("thinking_level"), provider)
    tier = values.get("service_tier")
    if tier and (why := wrong_tier(provider, tier)):
        raise InvalidRequest(f"The service tier cannot be {tier!r}: {why}.", code="invalid_service_tier")


def refuse_level(level: str | None, provider: str) -> None:
    """Raises `InvalidRequest` ``invalid_thinking_level`` with the levels there are."""
    if level and (why := wrong_level(provider, level)):
        known = PROVIDERS.get(provider)
        raise InvalidRequest(
            f"The thinking level cannot be {level!r}: {why}.",
            code="invalid_thinking_level",
            provider=provider,
            levels=list(known.thinking_levels) if known is not None else [],
        )


def _refuse_control(text: str, what: str) -> None:
    if _CONTROL.search(text):
        raise InvalidRequest(f"The {what} has control or direction characters.", code=f"invalid_{what}")


def _refuse_args(args: list[str]) -> None:
    broken = [n for n, arg in enumerate(args) if "\x00" in arg]
    if broken:
        raise InvalidRequest(
            f"No process can be given a NUL: argument {broken[0]}.", code="invalid_custom_args", positions=broken[:20]
        )


def _refuse_mcp(config: dict[str, Any]) -> None:
    servers = config.get("mcpServers", {})
    if not isinstance(servers, dict) or not all(isinstance(server, dict) for server in servers.values()):
        raise InvalidRequest(
            "mcp_config is an object with an object for each server: "
            '{"mcpServers": {"NAME": {"command": …}}} or {"mcpServers": {"NAME": {"url": …}}}.',
            code="invalid_mcp_config",
        )
    if _depth_over(config, MAX_MCP_DEPTH):
        raise InvalidRequest(
            f"mcp_config is nested more than {MAX_MCP_DEPTH} deep.", code="invalid_mcp_config", limit=MAX_MCP_DEPTH
        )


def _depth_over(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
        level = [one for one in level if isinstance(one, dict | list)]
        if not level:
            return False
    return True


# ── masks ────────────────────────────────────────────────────────────────────


def always_redacts(workspace: WorkspaceItem | None) -> bool:
    """Whether this workspace shows no secret-bearing configuration to anybody."""
    return bool(((workspace.settings if workspace is not None else None) or {}).get("always_redact_env"))


def masked(value: Any) -> bool:
    """Whether anything in it is a mask."""
    if isinstance(value, dict):
        return any(masked(v) for v in value.values())
    if isinstance(value, list):
        return any(masked(v) for v in value)
    return _is_mask(value)


def restored(sent: Any, stored: Any) -> Any:
    """`sent` with what was masked in it put back from `stored`: a round trip through a form loses nothing. A mask with
    nothing behind it is dropped, never stored."""
    if isinstance(sent, dict):
        known = stored if isinstance(stored, dict) else {}
        pairs = {k: restored(v, known.get(k)) for k, v in sent.items()}
        return {k: v for k, v in pairs.items() if not _is_mask(v)}
    if isinstance(sent, list):
        known_list = stored if isinstance(stored, list) else []
        filled = [restored(v, known_list[i] if i < len(known_list) else None) for i, v in enumerate(sent)]
        return [v for v in filled if not _is_mask(v)]
    return stored if _is_mask(sent) and isinstance(stored, str) else sent


def _is_mask(value: Any) -> bool:
    return isinstance(value, str) and value in MASKS
