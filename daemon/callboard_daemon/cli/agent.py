"""`callboard agent create|list|get`; the rest of the group has files of its own."""

from __future__ import annotations

from shlex import quote
from typing import Any

import click

from callboard_daemon.cli.agent_change import archive, restore, update
from callboard_daemon.cli.agent_env import env
from callboard_daemon.cli.agent_options import agent_options, fields_of
from callboard_daemon.cli.agent_shown import model, show
from callboard_daemon.cli.agent_skills import skills
from callboard_daemon.cli.context import Cli, output_option, pass_cli
from callboard_daemon.cli.limited import first, limit_option
from callboard_daemon.cli.output import note, one_line, print_json, print_table, working
from callboard_daemon.cli.typed import body_from
from callboard_wire.agents import CreateAgentRequest


@click.group()
def agent() -> None:
    """Make, change and list agents."""


for _command in (update, archive, restore, env, skills):
    agent.add_command(_command)


@agent.command()
@click.argument("name")
@click.option("--provider", metavar="NAME", help="Its coding CLI (claude, codex, …); needed when several are online.")
@agent_options
@click.option("--skill", "skills", multiple=True, metavar="SKILL", help="A skill it has, by name or id; repeatable.")
@output_option
@pass_cli
def create(cli: Cli, /, name: str, skills: tuple[str, ...], **given: Any) -> None:
    """Make the agent NAME."""
    body = body_from(CreateAgentRequest, name=name, **fields_of(given))
    with cli.connect() as api, working(cli, "making the agent"):
        if skills:
            body.skill_ids = [skill.id for skill in api.skills_named(skills)]
        made = api.create_agent(body)
    show(cli, made)
    if not cli.json:
        note(f'Try it: callboard run "…" --agent={quote(made.name)} --follow')


@agent.command("list")
@limit_option(200)
@click.option("--archived", is_flag=True, help="Those in the archive as well.")
@output_option
@pass_cli
def list_agents(cli: Cli, limit: int, archived: bool) -> None:
    """List the workspace's agents, as far as they are open to you."""
    with cli.connect() as api, working(cli, "asking the server"):
        agents = first(api.agents(archived=archived), limit)
    if cli.json:
        print_json(agents)
        return
    rows = [
        [
            a.name,
            "archived" if a.archived else a.status,
            a.readiness.state,
            a.provider,
            model(a),
            one_line(a.description, 60),
            a.id,
        ]
        for a in agents
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
    """Show one agent, whether it can work, and what to do if not."""
    with cli.connect() as api, working(cli, "asking the server"):
        found = api.agent(name_or_id)
    show(cli, found)
