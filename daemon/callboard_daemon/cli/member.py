"""`callboard member list|role|remove`."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from callboard_daemon.cli.api_people import PeopleCalls
from callboard_daemon.cli.context import Cli, output_option, pass_cli
from callboard_daemon.cli.output import ago, note, one_line, print_json, print_table, working
from callboard_daemon.cli.typed import body_from
from callboard_daemon.errors import NotFound, SettingError
from callboard_wire.api import ChangeRoleRequest, MemberView
from callboard_wire.people import DepartedMember


@click.group()
def member() -> None:
    """See and change who is in the workspace."""


@member.command("list")
@output_option
@pass_cli
def list_members(cli: Cli) -> None:
    """List the people of the workspace."""
    with cli.connect() as api, working(cli, "asking the server"):
        members = list(api.members())
    if cli.json:
        print_json(members)
        return
    rows = [[one_line(m.name, 60), m.role, ago(m.since), m.user_id] for m in members]
    print_table(["name", "role", "since", "id"], rows, empty="")


@member.command()
@click.argument("who", metavar="NAME|ID")
@click.argument("role", type=click.Choice(["owner", "admin", "member"]))
@output_option
@pass_cli
def role(cli: Cli, who: str, role: str) -> None:
    """Give a member another role. The last owner stays one."""
    cli.human_only("callboard member role")
    with cli.connect() as api, working(cli, "changing the role"):
        found = _find(api, who)
        changed = api.change_role(found.user_id, body_from(ChangeRoleRequest, role=role))
    if cli.json:
        print_json(changed)
    note(f"{one_line(found.name, 60) or found.user_id} is {changed.role} now.")


@member.command()
@click.argument("who", metavar="NAME|ID")
@click.option(
    "--hand-over-machines", is_flag=True, help="Their machines are yours from here on, instead of going offline."
)
@click.option("--yes", is_flag=True, help="Do not ask once more.")
@output_option
@pass_cli
def remove(cli: Cli, who: str, hand_over_machines: bool, yes: bool) -> None:
    """Take somebody out of the workspace, or leave it yourself.

    Their tokens and their machines' reach nothing here any more. Agents on their machines are archived; their other
    agents are yours. With --hand-over-machines those stay as they are: log in on the machine and start its daemon.
    """
    cli.human_only("callboard member remove")
    with cli.connect() as api:
        with working(cli, "asking the server"):
            found = _find(api, who)
        name = one_line(found.name, 60) or found.user_id
        if not yes:
            if not sys.stdin.isatty():
                raise SettingError("there is no terminal to ask whether you are sure", hint="Give --yes if you are.")
            click.confirm(f"Take {name} ({found.role}) out of the workspace?", abort=True, err=True)
        with working(cli, "taking them out"):
            gone = api.remove_member(found.user_id, "hand_over" if hand_over_machines else "offline")
    if cli.json:
        print_json(gone)
    note(_said(name, gone))


def _said(name: str, gone: DepartedMember) -> str:
    lines = [f"{name} is out."]
    for word, agents in (("Archived", gone.archived_agents), ("Handed over", gone.handed_over_agents)):
        if agents:
            lines.append(f"{word}: {', '.join(one_line(agent, 60) for agent in agents)}.")
    return "\n".join(lines)


def _find(api: PeopleCalls, who: str) -> MemberView:
    """The member of this id, or else the only one of this name."""
    members = list(api.members())
    named = [m for m in members if m.name.casefold() == who.casefold()]
    found = [m for m in members if m.user_id == who] or named
    if len(found) > 1:
        raise SettingError(f"{len(found)} members are named so: {_ids(found)}", hint="Give the id.")
    if not found:
        raise NotFound(f"There is no member {one_line(who, 100)!r} here.", status=404, code="member_not_found")
    return found[0]


def _ids(members: Iterable[MemberView]) -> str:
    return ", ".join(m.user_id for m in members)
