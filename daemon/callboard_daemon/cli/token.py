"""`callboard token create|list|renew|revoke`: how another machine, or a script, logs in as you."""

from __future__ import annotations

import click

from callboard_daemon.cli.context import Cli, output_option, pass_cli
from callboard_daemon.cli.output import ago, note, print_json, print_table, working
from callboard_daemon.cli.typed import body_from
from callboard_wire.api import CreateTokenRequest


@click.group()
def token() -> None:
    """Make, list, renew and revoke your tokens."""


@token.command()
@click.argument("name")
@click.option("--days", type=click.IntRange(1, 3650), metavar="N", help="It ends after so many days; else never.")
@output_option
@pass_cli
def create(cli: Cli, name: str, days: int | None) -> None:
    """Make a token that acts as you. NAME says where it will be used.

    It is printed once and stored nowhere: give it to `callboard login --server URL` on the other machine.
    """
    cli.human_only("callboard token create")
    body = body_from(CreateTokenRequest, name=name, expires_in_days=days)
    with cli.connect() as api, working(cli, "making the token"):
        made = api.create_token(body)
    if cli.json:
        print_json(made)
        return
    click.echo(made.token)
    note(f"Whoever has it is you. Revoke it: callboard token revoke {made.id}")


@token.command("list")
@output_option
@pass_cli
def list_tokens(cli: Cli) -> None:
    """List your tokens; what they are is not shown again."""
    cli.human_only("callboard token list")
    with cli.connect() as api, working(cli, "asking the server"):
        tokens = list(api.tokens())
    if cli.json:
        print_json(tokens)
        return
    rows = [
        [
            t.name,
            "revoked" if t.revoked else f"until {t.expires_at:%Y-%m-%d}" if t.expires_at else "valid",
            ago(t.created_at),
            ago(t.last_used_at),
            t.id,
        ]
        for t in tokens
    ]
    print_table(["name", "state", "created", "last used", "id"], rows, empty="No tokens.")


@token.command()
@click.argument("token_id", metavar="ID")
@pass_cli
def revoke(cli: Cli, token_id: str) -> None:
    """Make a token useless, from its next call on."""
    cli.human_only("callboard token revoke")
    with cli.connect() as api, working(cli, "revoking the token"):
        api.revoke_token(token_id)
    note("Revoked.")


@token.command()
@output_option
@pass_cli
def renew(cli: Cli) -> None:
    """Make the token you are logged in with last 90 days more. Does something only in its last week."""
    cli.human_only("callboard token renew")
    with cli.connect() as api, working(cli, "renewing the token"):
        renewed = api.renew_token()
    if cli.json:
        print_json(renewed)
    until = f"it ends on {renewed.expires_at:%Y-%m-%d}" if renewed.expires_at else "it does not end"
    note(f"{'Renewed' if renewed.renewed else 'Left as it is, not renewed'}: {until}.")
