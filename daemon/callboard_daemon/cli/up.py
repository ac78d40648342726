"""`callboard up`: the control plane on one machine."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from callboard_daemon.cli.context import Cli, pass_cli
from callboard_daemon.cli.server_extra import load_server
from callboard_daemon.errors import CallboardError


class Folder(click.Path):
    """A folder that is named: `--data "$UNSET"` would be the current one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("no folder is named (the current one is `.`)", param, ctx)
        return super().convert(value, param, ctx)


@click.command()
@click.option(
    "--data",
    type=Folder(file_okay=False, path_type=Path),
    help="Data folder. Default: the platform's.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=None, help="Port; 0 is any free one.  [default: 8722]")
@click.option("--any-host", is_flag=True, help="Allow a --host that other machines can reach.")
@click.option("--new-secret", is_flag=True, help="Open a way back in, when every login is lost.")
@pass_cli
def up(cli: Cli, data: Path | None, host: str, port: int | None, any_host: bool, new_secret: bool) -> None:
    """Run the control plane on this machine until Ctrl-C.

    Everything it keeps is one folder. The first start prints how to log in. Its log is JSON on stderr.
    """
    cli.human_only("callboard up")
    server = load_server()
    port = server.DEFAULT_PORT if port is None else port
    compose = partial(server.compose, new_secret=new_secret)
    try:
        server.serve(data, host=host, port=port, any_host=any_host, composed=compose)
    except server.GatewayError as error:
        raise CallboardError(str(error)) from error
