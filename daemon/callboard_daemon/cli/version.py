"""`callboard version`."""

from __future__ import annotations

import platform

import click

from callboard_daemon import version
from callboard_daemon.cli.context import Cli, output_option, pass_cli


@click.command("version")
@output_option
@pass_cli
def version_command(cli: Cli) -> None:
    """Show the version of callboard and of the Python it runs on."""
    if cli.json:
        from callboard_daemon.cli.output import print_json

        print_json({"version": version(), "python": platform.python_version(), "platform": platform.platform()})
    else:
        click.echo(f"callboard {version()} (Python {platform.python_version()})")
