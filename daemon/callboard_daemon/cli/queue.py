"""`callboard queue`."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from callboard_daemon.cli.context import Cli, output_option, pass_cli
from callboard_daemon.cli.output import ago, one_line, print_json, print_table, working
from callboard_daemon.cli.typed import NAMED


@click.command()
@click.option("--runtime", type=NAMED, metavar="ID", help="Only this runtime's.")
@click.option("--agent", type=NAMED, metavar="NAME|ID", help="Only this agent's.")
@output_option
@pass_cli
def queue(cli: Cli, runtime: str | None, agent: str | None) -> None:
    """Show waiting tasks in the order they will be claimed, runtime by runtime."""
    with cli.connect() as api, working(cli, "asking the server"):
        wanted = {"runtime_id": runtime, "agent_id": api.agent(agent).id if agent else None}
        found = list(api.queue(**{name: value for name, value in wanted.items() if value}))
    if cli.json:
        print_json(found)
        return
    rows = [
        [
            str(q.position),
            q.task_id,
            str(q.priority),
            ago(datetime.fromtimestamp(q.created_ms / 1000, UTC)),
            q.runtime_id,
            one_line(q.prompt, 40),
        ]
        for q in found
    ]
    print_table(["place", "task", "priority", "created", "runtime", "prompt"], rows, empty="Nothing waits.")
