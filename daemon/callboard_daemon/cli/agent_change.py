"""`callboard agent update|archive|restore`."""

from __future__ import annotations

from typing import Any

import click

from callboard_daemon.cli.agent_options import CLEARABLE, agent_options, fields_of
from callboard_daemon.cli.context import Cli, output_option, pass_cli
from callboard_daemon.cli.output import note, print_json, working
from callboard_daemon.cli.typed import body_from
from callboard_wire.agents import AgentView, UpdateAgentRequest


@click.command()
@click.argument("name_or_id", metavar="NAME|ID")
@click.option("--name", metavar="NAME", help="Call it otherwise.")
@agent_options
@click.option("--clear", multiple=True, type=click.Choice(list(CLEARABLE)), help="Take this away; repeatable.")
@output_option
@pass_cli
def update(cli: Cli, /, name_or_id: str, clear: tuple[str, ...], **given: Any) -> None:
    """Change an agent; what is not named stays.

    Another --runtime of another provider takes the model away that was the old one's.
    """
    said = fields_of(given)
    cleared = {CLEARABLE[field]: None for field in clear}
    if both := sorted(said.keys() & cleared.keys()):
        raise click.UsageError(f"cannot set and clear at once: {', '.join(both)}")
    if not said and not cleared:
        raise click.UsageError("nothing to change; see `callboard agent update --help`")
    body = body_from(UpdateAgentRequest, **said, **cleared)
    with cli.connect() as api, working(cli, "changing the agent"):
        changed = api.update_agent(api.agent(name_or_id).id, body)
    _done(cli, changed, "Changed")


@click.command()
@click.argument("name_or_id", metavar="NAME|ID")
@output_option
@pass_cli
def archive(cli: Cli, name_or_id: str) -> None:
    """Put an agent away: its tasks are cancelled, it gets no new ones. Its name stays taken."""
    with cli.connect() as api, working(cli, "putting the agent away"):
        put_away = api.archive_agent(api.agent(name_or_id).id)
    _done(cli, put_away, "Archived")


@click.command()
@click.argument("name_or_id", metavar="NAME|ID")
@output_option
@pass_cli
def restore(cli: Cli, name_or_id: str) -> None:
    """Bring an agent back from the archive."""
    with cli.connect() as api, working(cli, "bringing the agent back"):
        back = api.restore_agent(api.agent(name_or_id).id)
    _done(cli, back, "Restored")


def _done(cli: Cli, agent: AgentView, word: str) -> None:
    if cli.json:
        print_json(agent)
    note(f"{word}: {agent.name} ({agent.id}).")
