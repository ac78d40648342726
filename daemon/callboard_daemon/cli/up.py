"""`callboard up`: the control plane on one machine."""

from __future__ import annotations

from pathlib import Path

import click

from callboard_daemon.cli.context import Cli, pass_cli
from callboard_daemon.cli.server_extra import load_server
from callboard_daemon.errors import CallboardError


@click.command()
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="Data folder. Default: the platform's.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=None, help="Port; 0 is any free one.  [default: 8722]")
@click.option("--any-host", is_flag=True, help="Allow a --host that other machines can reach.")
@pass_cli
def up(cli: Cli, data: Path | None, host: str, port: int | None, any_host: bool) -> None:
    """Run the control plane on this machine until Ctrl-C.

    Everything it keeps is one folder. The first start prints how to log in.
    """
    cli.human_only("callboard up")
    server = load_server()
    try:
        server.serve(data, host=host, port=server.DEFAULT_PORT if port is None else port, any_host=any_host)
    except server.GatewayError as error:
        raise CallboardError(str(error)) from error
