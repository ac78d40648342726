"""How an agent is shown on the command line."""

from __future__ import annotations

from callboard_daemon.cli.context import Cli
from callboard_daemon.cli.output import one_line, print_fields, print_json
from callboard_wire.agents import AgentView, ReadinessReason


def show(cli: Cli, agent: AgentView) -> None:
    if cli.json:
        print_json(agent)
    else:
        print_fields(_fields(agent))


def model(agent: AgentView) -> str:
    return agent.model or (f"profile {agent.model_profile}" if agent.model_profile else "")


def _fields(agent: AgentView) -> list[tuple[str, str]]:
    return [
        ("id", agent.id),
        ("name", agent.name),
        ("status", "archived" if agent.archived else agent.status),
        ("description", agent.description),
        ("provider", agent.provider),
        ("runtime", agent.runtime_id),
        ("model", model(agent)),
        ("thinking", agent.thinking_level or ""),
        ("service tier", agent.service_tier or ""),
        ("max tasks", str(agent.max_concurrent_tasks)),
        ("max turns", str(agent.max_turns or "")),
        ("arguments", one_line(" ".join(agent.custom_args), 200)),
        ("runs through", _gateway(agent)),
        ("skills", ", ".join(skill.name for skill in agent.skills)),
        ("environment", f"{agent.custom_env_key_count} variables" if agent.has_custom_env else ""),
        ("instructions", one_line(agent.instructions, 200)),
        ("open to", _open_to(agent)),
        ("can work", agent.readiness.state),
        *((reason.weight, _said(reason)) for reason in agent.readiness.reasons),
    ]


def _gateway(agent: AgentView) -> str:
    """Its gateway as far as it is named; whether it has a token is to be seen, the token is not."""
    said = agent.runtime_config
    pin = said.get("gateway", {})
    if said.get("mode") != "gateway" and not pin:
        return ""
    where = ":".join(str(pin[part]) for part in ("host", "port") if pin.get(part)) or "its user's"
    return f"gateway {where}{' (tls)' if pin.get('tls') else ''}{' with a token' if pin.get('token') else ''}"


def _open_to(agent: AgentView) -> str:
    if agent.permission_mode == "private":
        return "its owner"
    if agent.visibility == "workspace":
        return "the workspace"
    return f"its owner and {', '.join(target.target_id for target in agent.invocation_targets)}"


def _said(reason: ReadinessReason) -> str:
    """On one line without control characters: a machine's name, as its host calls itself, is part of it."""
    return one_line(f"{reason.message} {f'→ {reason.repair}' if reason.repair else ''}", 400)
