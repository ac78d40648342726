"""`callboard invite create|list|revoke|accept`."""

from __future__ import annotations

import sys

import click

from callboard_daemon.cli.context import Cli, output_option, pass_cli
from callboard_daemon.cli.output import ago, note, print_json, print_table, working
from callboard_daemon.cli.typed import body_from
from callboard_daemon.cli.ways_in import MAX_PASTE
from callboard_wire.api import AcceptInvitationRequest, CreateInvitationRequest


@click.group()
def invite() -> None:
    """Let people into the workspace."""


@invite.command()
@click.option("--role", type=click.Choice(["member", "admin"]), default="member", show_default=True)
@click.option(
    "--uses", type=click.IntRange(1, 100), default=1, show_default=True, metavar="N", help="For so many people."
)
@output_option
@pass_cli
def create(cli: Cli, role: str, uses: int) -> None:
    """Make an invitation, good for a week.

    Its code is printed once and stored nowhere: whoever has it may join.
    """
    cli.human_only("callboard invite create")
    body = body_from(CreateInvitationRequest, role=role, max_uses=uses)
    with cli.connect() as api, working(cli, "making the invitation"):
        made = api.invite(body)
    if cli.json:
        print_json(made)
        return
    click.echo(made.code)
    note(
        f"For somebody new: callboard login --server {api.server} --invitation CODE --name NAME\n"
        f"For somebody who is logged in there: callboard invite accept CODE\n"
        f"Until {made.expires_at:%Y-%m-%d}. Revoke it: callboard invite revoke {made.id}"
    )


@invite.command("list")
@output_option
@pass_cli
def list_invitations(cli: Cli) -> None:
    """List the invitations that still let somebody in; their codes are not shown again."""
    cli.human_only("callboard invite list")
    with cli.connect() as api, working(cli, "asking the server"):
        found = list(api.invitations())
    if cli.json:
        print_json(found)
        return
    rows = [[i.role, str(i.uses_left), f"{i.expires_at:%Y-%m-%d}", ago(i.created_at), i.id] for i in found]
    print_table(["role", "uses left", "until", "made", "id"], rows, empty="No open invitations.")


@invite.command()
@click.argument("invitation_id", metavar="ID")
@pass_cli
def revoke(cli: Cli, invitation_id: str) -> None:
    """Make an invitation useless. Who came by it stays."""
    cli.human_only("callboard invite revoke")
    with cli.connect() as api, working(cli, "revoking the invitation"):
        api.revoke_invitation(invitation_id)
    note("Revoked.")


@invite.command()
@click.argument("code", metavar="CODE")
@output_option
@pass_cli
def accept(cli: Cli, code: str) -> None:
    """Join another workspace as the one you are (- reads the code from stdin)."""
    cli.human_only("callboard invite accept")
    text = sys.stdin.read(MAX_PASTE) if code == "-" else code
    body = body_from(AcceptInvitationRequest, code="".join(text.split()))
    with cli.connect() as api, working(cli, "joining"):
        joined = api.accept_invitation(body)
    if cli.json:
        print_json(joined)
    note(f"You are {joined.role} of workspace {joined.workspace_id}.")
