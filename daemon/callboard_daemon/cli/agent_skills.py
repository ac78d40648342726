"""`callboard agent skills list|set`: which of the workspace's skills an agent has."""

from __future__ import annotations

import click

from callboard_daemon.cli.context import Cli, output_option, pass_cli
from callboard_daemon.cli.output import working
from callboard_daemon.cli.skill import print_skills
from callboard_daemon.cli.typed import body_from
from callboard_wire.skills import PutAgentSkills

NONE = "This agent has no skills. Give it some: callboard agent skills set AGENT SKILL…"


@click.group()
def skills() -> None:
    """Give an agent skills, or see which it has."""


@skills.command("list")
@click.argument("agent")
@output_option
@pass_cli
def list_of_agent(cli: Cli, agent: str) -> None:
    """List the skills of AGENT, in its order."""
    with cli.connect() as api, working(cli, "asking the server"):
        found = api.agent_skills(api.agent(agent).id)
    print_skills(cli, found.skills, empty=NONE)


@skills.command("set")
@click.argument("agent")
@click.argument("names", metavar="[SKILL]...", nargs=-1)
@click.option("--none", is_flag=True, help="Take all its skills away.")
@output_option
@pass_cli
def set_of_agent(cli: Cli, agent: str, names: tuple[str, ...], none: bool) -> None:
    """Give AGENT these skills, by name or id, and no others. It has them from its next task on."""
    if bool(names) == none:
        raise click.UsageError("name the skills, or say --none")
    with cli.connect() as api, working(cli, "asking the server"):
        body = body_from(PutAgentSkills, skill_ids=[each.id for each in api.skills_named(names)])
        done = api.put_agent_skills(api.agent(agent).id, body)
    print_skills(cli, done.skills, empty=NONE)
