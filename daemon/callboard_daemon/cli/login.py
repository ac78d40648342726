"""`callboard login`, `logout`, `whoami`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from callboard_daemon.cli.api import Api
from callboard_daemon.cli.context import Cli, output_option, pass_cli
from callboard_daemon.cli.output import note, print_fields, print_json, working
from callboard_daemon.cli.typed import body_from
from callboard_daemon.credentials import Credentials, read_credentials, write_credentials
from callboard_daemon.errors import CallboardError, SettingError, StateError
from callboard_daemon.settings import server_url
from callboard_wire.api import BootstrapRequest, MeView

PERSON: Final = "mul_"


@click.command()
@click.option("--server", "server", metavar="URL", help="Address of the control plane.")
@click.option("--token-stdin", is_flag=True, help="Read the token from stdin instead of asking for it.")
@click.option(
    "--bootstrap",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="First login of all: the secret file in the server's data folder.",
)
@click.option("--name", default="me", show_default=True, help="With --bootstrap: what you are called.")
@click.option("--workspace", default="home", show_default=True, help="With --bootstrap: the workspace's name.")
@output_option
@pass_cli
def login(cli: Cli, server: str | None, token_stdin: bool, bootstrap: Path | None, name: str, workspace: str) -> None:
    """Log in to a control plane and remember it for this profile.

    The token is asked for without being shown, tried, and stored in a file only you can read. `callboard up` prints the
    command for the first login; for another machine, `callboard token create` makes a token.
    """
    cli.human_only("callboard login")
    address = _address(cli, server)
    token = _bootstrapped(cli, address, bootstrap, name, workspace) if bootstrap else _token(token_stdin)
    with working(cli, "trying the token"), Api(address, token, timeout=cli.settings().http_timeout) as api:
        me = api.me()
    write_credentials(
        cli.paths,
        Credentials(
            server_url=address,
            token=token,
            workspace_id=me.workspace_id,
            workspace_name=me.workspace_name,
            user_name=me.name,
        ),
    )
    if cli.json:
        print_json(me)
    note(f"Logged in to {address} as {me.name or me.user_id}, workspace {me.workspace_name or me.workspace_id}.")


@click.command()
@pass_cli
def logout(cli: Cli) -> None:
    """Forget the stored login of this profile. The token itself stays valid until it is revoked.

    It is stored nowhere else: to come back, make another first with `callboard token create`.
    """
    cli.human_only("callboard logout")
    existed = cli.paths.credentials_file.exists()
    try:
        cli.paths.credentials_file.unlink(missing_ok=True)
    except OSError as error:
        raise StateError(f"cannot remove {cli.paths.credentials_file}: {error.strerror}") from error
    note("Logged out." if existed else "Nobody was logged in.")


@click.command()
@output_option
@pass_cli
def whoami(cli: Cli) -> None:
    """Show who you are to the server: a person, or a task's agent."""
    with cli.connect() as api, working(cli, "asking the server"):
        me = api.me()
    if cli.json:
        print_json({**me.model_dump(mode="json"), "server_url": api.server})
    else:
        print_fields(_who(me, api.server))


def _who(me: MeView, server: str) -> list[tuple[str, str]]:
    return [
        ("server", server),
        ("actor", me.actor),
        ("name", me.name),
        ("role", me.role),
        ("workspace", f"{me.workspace_name} ({me.workspace_id})" if me.workspace_name else me.workspace_id),
        ("agent", me.agent_id),
        ("task", me.task_id),
        ("credential", "the task's own token" if me.task_id else ""),
    ]


def _address(cli: Cli, server: str | None) -> str:
    known = read_credentials(cli.paths) if cli.paths.credentials_file.exists() else None
    given = server or cli.settings().server_url or (known.server_url if known else "")
    if not given:
        raise SettingError(
            "which server?", hint="Give --server URL. `callboard up` prints the whole command for the first login."
        )
    try:
        return server_url(given)
    except ValueError as error:
        raise SettingError(f"--server: {error}") from None


def _token(from_stdin: bool) -> str:
    if from_stdin:
        token = sys.stdin.readline().strip()
    elif sys.stdin.isatty():
        token = click.prompt("Token (mul_…)", hide_input=True, err=True).strip()
    else:
        raise SettingError(
            "there is no terminal to ask for the token", hint="Pipe it in and give --token-stdin, or give --bootstrap."
        )
    if not token.startswith(PERSON):
        # Never echo it: what was pasted here may be another secret.
        raise SettingError(f"that is not a person's token (they begin with {PERSON})")
    return token


def _bootstrapped(cli: Cli, address: str, file: Path, name: str, workspace: str) -> str:
    try:
        secret = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CallboardError(
            f"cannot read {file}: {getattr(error, 'strerror', None) or error}",
            hint="It is in the server's data folder until the first login; afterwards use a token.",
        ) from error
    body = body_from(BootstrapRequest, secret=secret, name=name, workspace=workspace)
    with working(cli, "making the workspace"), Api(address, "", timeout=cli.settings().http_timeout) as api:
        return api.bootstrap(body).token
