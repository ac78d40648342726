"""`callboard login`, `logout`, `whoami`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from callboard_daemon.cli import ways_in
from callboard_daemon.cli.api import Api
from callboard_daemon.cli.context import Cli, output_option, pass_cli
from callboard_daemon.cli.output import note, one_line, print_fields, print_json, working
from callboard_daemon.cli.typed import NAMED
from callboard_daemon.credentials import Credentials, read_credentials, write_credentials
from callboard_daemon.errors import SettingError, StateError
from callboard_daemon.settings import server_url
from callboard_wire.api import MeView


@click.command()
@click.option("--server", "server", type=NAMED, metavar="URL", help="Address of the control plane.")
@click.option("--token", "paste", is_flag=True, help="Paste a token; it is asked for and not shown.")
@click.option("--token-stdin", is_flag=True, help="Read the token from stdin.")
@click.option(
    "--invitation",
    type=NAMED,
    metavar="CODE",
    help="Join as somebody new by an invitation's code (- reads it from stdin).",
)
@click.option(
    "--bootstrap",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="First login of all: the secret file in the server's data folder.",
)
@click.option("--name", default="me", show_default=True, help="With --bootstrap or --invitation: what you are called.")
@click.option("--workspace", default="home", show_default=True, help="With --bootstrap: the workspace's name.")
@click.option("--approve", type=NAMED, metavar="CODE", help="Let the machine that shows CODE in as you.")
@click.option("--deny", type=NAMED, metavar="CODE", help="Turn the machine that shows CODE away.")
@click.option("--yes", is_flag=True, help="With --approve: do not ask once more.")
@output_option
@pass_cli
def login(cli: Cli, /, **given: Any) -> None:
    """Log in to a control plane and remember it for this profile.

    Shows a code and waits until you approve it where you are logged in already (--approve). Other ways in: --token or
    --token-stdin with a token of `callboard token create`, --invitation with what `callboard invite create` printed,
    --bootstrap for the first login of all, which `callboard up` prints whole.
    """
    cli.human_only("callboard login")
    chosen = [way for way in _WAYS if given[way]]
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(_WAYS[way] for way in chosen)} exclude each other")
    if given["approve"] or given["deny"]:
        _answer(cli, given["approve"] or given["deny"], approve=bool(given["approve"]), sure=given["yes"])
        return
    address = _address(cli, given["server"])
    _remember(cli, address, _token(cli, address, given))


_WAYS: Final = {
    "paste": "--token",
    "token_stdin": "--token-stdin",
    "invitation": "--invitation",
    "bootstrap": "--bootstrap",
    "approve": "--approve",
    "deny": "--deny",
}


def _token(cli: Cli, address: str, given: dict[str, Any]) -> str:
    if given["bootstrap"]:
        return ways_in.by_first_login(cli, address, given["bootstrap"], given["name"], given["workspace"])
    if given["invitation"]:
        return ways_in.by_invitation(cli, address, given["invitation"], given["name"])
    if given["paste"] or given["token_stdin"]:
        return ways_in.by_pasted_token(cli, address, from_stdin=given["token_stdin"])
    return ways_in.by_code(cli, address)


def _remember(cli: Cli, address: str, token: str) -> None:
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
            expires_at=me.token_expires_at,
        ),
    )
    if cli.json:
        print_json(me)
    note(f"Logged in to {address} as {me.name or me.user_id}, workspace {me.workspace_name or me.workspace_id}.")


def _answer(cli: Cli, code: str, *, approve: bool, sure: bool) -> None:
    asked = ways_in.answer(cli, code, approve=approve, sure=sure)
    if cli.json:
        print_json(asked)
    note(f"{one_line(asked.client_name, 100)} {'is let in' if approve else 'is turned away'}.")


@click.command()
@pass_cli
def logout(cli: Cli) -> None:
    """Forget the stored login of this profile. The token itself stays valid until it is revoked.

    It is stored nowhere else: to come back, be let in from another login (`callboard login`), or make another token
    first with `callboard token create`.
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
        ("login ends", f"{me.token_expires_at:%Y-%m-%d}" if me.token_expires_at else ""),
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
