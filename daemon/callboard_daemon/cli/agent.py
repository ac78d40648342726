"""`callboard agent create|list|get`."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import click

from callboard_daemon.cli.context import Cli, output_option, pass_cli
from callboard_daemon.cli.output import note, one_line, print_fields, print_json, print_table, working
from callboard_daemon.cli.typed import body_from, text_of
from callboard_wire.agents import AgentView, CreateAgentRequest, ReadinessReason


@click.group()
def agent() -> None:
    """Make and list agents."""


@agent.command()
@click.argument("name")
@click.option("--provider", metavar="NAME", help="Its coding CLI (claude, codex, …); needed when several are online.")
@click.option("--runtime", metavar="ID", help="The very runtime it uses, see `callboard runtime list`.")
@click.option("--instructions", metavar="TEXT", help="What it should know and how it should work.")
@click.option(
    "--instructions-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The same, from a file.",
)
@click.option("--description", metavar="TEXT", help="One line for lists.")
@click.option("--model", metavar="NAME", help="The model; without it the CLI's own choice.")
@click.option("--max-concurrent-tasks", type=click.IntRange(1, 50), metavar="N", help="How many tasks at once.")
@click.option("--max-turns", type=click.IntRange(1), metavar="N", help="End a run after so many turns.")
@output_option
@pass_cli
def create(cli: Cli, /, name: str, instructions_file: Path | None, runtime: str | None, **given: Any) -> None:
    """Make the agent NAME."""
    if instructions_file is not None:
        if given["instructions"]:
            raise click.UsageError("--instructions and --instructions-file exclude each other")
        given["instructions"] = text_of(instructions_file.read_bytes(), str(instructions_file))
    wanted = {key: value for key, value in given.items() if value is not None}
    body = body_from(CreateAgentRequest, name=name, runtime_id=runtime, **wanted)
    with cli.connect() as api, working(cli, "making the agent"):
        made = api.create_agent(body)
    if cli.json:
        print_json(made)
    else:
        print_fields(_fields(made))
        note(f'Try it: callboard run "…" --agent {made.name} --follow')


@agent.command("list")
@click.option("--limit", type=click.IntRange(1), default=200, show_default=True, help="At most so many.")
@output_option
@pass_cli
def list_agents(cli: Cli, limit: int) -> None:
    """List the workspace's agents."""
    with cli.connect() as api, working(cli, "asking the server"):
        agents = list(islice(api.agents(), limit))
    if cli.json:
        print_json(agents)
        return
    rows = [
        [a.name, a.status, a.readiness.state, a.provider, _model(a), one_line(a.description, 60), a.id] for a in agents
    ]
    print_table(
        ["name", "status", "can work", "provider", "model", "description", "id"],
        rows,
        empty="No agents yet. Make one: callboard agent create NAME",
    )


@agent.command("get")
@click.argument("name_or_id", metavar="NAME|ID")
@output_option
@pass_cli
def get_agent(cli: Cli, name_or_id: str) -> None:
    """Show one agent."""
    with cli.connect() as api, working(cli, "asking the server"):
        found = api.agent(name_or_id)
    if cli.json:
        print_json(found)
    else:
        print_fields(_fields(found))


def _fields(found: AgentView) -> list[tuple[str, str]]:
    return [
        ("id", found.id),
        ("name", found.name),
        ("status", found.status),
        ("description", found.description),
        ("provider", found.provider),
        ("runtime", found.runtime_id),
        ("model", _model(found)),
        ("thinking", found.thinking_level or ""),
        ("open to", _open_to(found)),
        ("max tasks", str(found.max_concurrent_tasks)),
        ("max turns", str(found.max_turns or "")),
        ("environment", f"{found.custom_env_key_count} variables" if found.has_custom_env else ""),
        ("instructions", one_line(found.instructions, 200)),
        ("can work", found.readiness.state),
        *((reason.weight, _said(reason)) for reason in found.readiness.reasons),
    ]


def _model(agent: AgentView) -> str:
    return agent.model or (f"profile {agent.model_profile}" if agent.model_profile else "")


def _open_to(agent: AgentView) -> str:
    if agent.permission_mode == "private":
        return "its owner"
    if agent.visibility == "workspace":
        return "the workspace"
    return f"its owner and {', '.join(target.target_id for target in agent.invocation_targets)}"


def _said(reason: ReadinessReason) -> str:
    """A machine's name is part of it: what its host says must not reach the terminal as it is."""
    return one_line(f"{reason.message} {f'→ {reason.repair}' if reason.repair else ''}", 400)
