"""`callboard runtime list`."""

from __future__ import annotations

import click

from callboard_daemon.cli.context import Cli, output_option, pass_cli
from callboard_daemon.cli.output import ago, print_json, print_table, working


@click.group()
def runtime() -> None:
    """List the places where agents can run."""


@runtime.command("list")
@output_option
@pass_cli
def list_runtimes(cli: Cli) -> None:
    """List the workspace's runtimes: one a machine and coding CLI."""
    with cli.connect() as api, working(cli, "asking the server"):
        runtimes = list(api.runtimes())
    if cli.json:
        print_json(runtimes)
        return
    rows = [[r.provider, r.status, r.device_name, r.version, ago(r.last_seen_at), r.id] for r in runtimes]
    print_table(
        ["provider", "status", "machine", "version", "last seen", "id"],
        rows,
        empty="No runtimes yet. Start a daemon on a machine with a coding CLI: callboard daemon start",
    )
