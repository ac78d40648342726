"""`callboard agent skills list|add|remove|set`: which of the workspace's skills an agent has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from callboard_daemon.cli.context import Cli, output_option, pass_cli
from callboard_daemon.cli.output import working
from callboard_daemon.cli.skill import print_skills
from callboard_daemon.cli.typed import body_from
from callboard_wire.skills import AgentSkillIds

if TYPE_CHECKING:
    from callboard_daemon.cli.api import Api

NONE = "This agent has no skills. Give it some: callboard agent skills add AGENT SKILL…"


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


@skills.command("add")
@click.argument("agent")
@click.argument("names", metavar="SKILL...", nargs=-1, required=True)
@output_option
@pass_cli
def add_to_agent(cli: Cli, agent: str, names: tuple[str, ...]) -> None:
    """Give AGENT these skills, by name or id, after those it has. It has them from its next task on."""
    with cli.connect() as api, working(cli, "asking the server"):
        done = api.add_agent_skills(api.agent(agent).id, _ids(api, names))
    print_skills(cli, done.skills, empty=NONE)


@skills.command("remove")
@click.argument("agent")
@click.argument("name", metavar="SKILL")
@output_option
@pass_cli
def remove_from_agent(cli: Cli, agent: str, name: str) -> None:
    """Take a skill away from AGENT. The skill stays in the workspace."""
    with cli.connect() as api, working(cli, "asking the server"):
        [found] = api.skills_named([name])
        done = api.remove_agent_skill(api.agent(agent).id, found.id)
    print_skills(cli, done.skills, empty=NONE)


@skills.command("set")
@click.argument("agent")
@click.argument("names", metavar="[SKILL]...", nargs=-1)
@click.option("--none", is_flag=True, help="Take all its skills away.")
@output_option
@pass_cli
def set_of_agent(cli: Cli, agent: str, names: tuple[str, ...], none: bool) -> None:
    """Give AGENT exactly these skills, by name or id, in this order. It has them from its next task on."""
    if bool(names) == none:
        raise click.UsageError("name the skills, or say --none")
    with cli.connect() as api, working(cli, "asking the server"):
        done = api.put_agent_skills(api.agent(agent).id, _ids(api, names))
    print_skills(cli, done.skills, empty=NONE)


def _ids(api: Api, names: Sequence[str]) -> AgentSkillIds:
    return body_from(AgentSkillIds, skill_ids=[each.id for each in api.skills_named(names)])
