"""`callboard runtime profile list|create|update|delete|path`: commands of people's own that speak a known protocol."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import click

from callboard_daemon.cli.context import Cli, output_option, pass_cli
from callboard_daemon.cli.output import note, one_line, print_fields, print_json, print_table, working
from callboard_daemon.cli.typed import body_from
from callboard_wire.runtimes import CreateProfileRequest, ProfileView, UpdateProfileRequest

_ARG = "A fixed argument, right after the command; again for each."


@click.group()
def profile() -> None:
    """Runtime profiles: your own command as a runtime, where it speaks a known CLI's protocol."""


@profile.command("list")
@output_option
@pass_cli
def list_profiles(cli: Cli) -> None:
    """List the workspace's runtime profiles."""
    with cli.connect() as api, working(cli, "asking the server"):
        profiles = list(api.runtime_profiles(api.me().workspace_id))
    if cli.json:
        print_json(profiles)
        return
    rows = [
        [p.display_name, p.protocol_family, one_line(_line(p), 80), "yes" if p.enabled else "no", p.id]
        for p in profiles
    ]
    print_table(["name", "protocol", "command", "enabled", "id"], rows, empty="No runtime profiles yet.")


@profile.command()
@click.argument("name")
@click.option("--family", "protocol_family", required=True, metavar="PROVIDER", help="Whose protocol it speaks.")
@click.option("--command", "command_name", required=True, metavar="NAME", help="The command, as PATH knows it.")
@click.option("--arg", "fixed_args", multiple=True, metavar="ARG", help=_ARG)
@click.option("--description", default="", metavar="TEXT", help="One line for lists.")
@click.option("--disabled", is_flag=True, help="No machine offers it yet.")
@output_option
@pass_cli
def create(cli: Cli, /, name: str, fixed_args: tuple[str, ...], disabled: bool, **given: str) -> None:
    """Make the runtime profile NAME. Machines that have the command offer it from their next heartbeat on."""
    body = body_from(
        CreateProfileRequest, display_name=name, fixed_args=list(fixed_args), enabled=not disabled, **given
    )
    with cli.connect() as api, working(cli, "asking the server"):
        made = api.create_runtime_profile(api.me().workspace_id, body)
    _tell_daemon(cli)
    _show(cli, made)


@profile.command()
@click.argument("name_or_id", metavar="PROFILE")
@click.option("--name", "display_name", metavar="NAME", help="Another name.")
@click.option("--command", "command_name", metavar="NAME", help="Another command.")
@click.option("--arg", "fixed_args", multiple=True, metavar="ARG", help=_ARG + " They replace all there were.")
@click.option("--no-args", is_flag=True, help="No fixed arguments.")
@click.option("--description", metavar="TEXT", help="Another line for lists.")
@click.option("--enable/--disable", "enabled", default=None, help="Whether machines offer it.")
@output_option
@pass_cli
def update(cli: Cli, /, name_or_id: str, fixed_args: tuple[str, ...], no_args: bool, **given: Any) -> None:
    """Change PROFILE. On machines of others a change of what is run counts when it is accepted there."""
    if no_args and fixed_args:
        raise click.UsageError("--arg and --no-args exclude each other")
    wanted = {key: value for key, value in given.items() if value is not None}
    if fixed_args or no_args:
        wanted["fixed_args"] = list(fixed_args)
    if not wanted:
        raise click.UsageError("say what to change, see --help")
    body = body_from(UpdateProfileRequest, **wanted)
    with cli.connect() as api, working(cli, "asking the server"):
        changed = api.update_runtime_profile(api.runtime_profile(api.me().workspace_id, name_or_id), body)
    _tell_daemon(cli)
    _show(cli, changed)


@profile.command()
@click.argument("name_or_id", metavar="PROFILE")
@click.option("--yes", is_flag=True, help="Do not ask.")
@output_option
@pass_cli
def delete(cli: Cli, name_or_id: str, yes: bool) -> None:
    """Delete PROFILE with its runtimes on all machines. No agent may be on them."""
    with cli.connect() as api:
        with working(cli, "asking the server"):
            found = api.runtime_profile(api.me().workspace_id, name_or_id)
        if not yes:
            click.confirm(f"Delete the runtime profile {one_line(found.display_name, 100)!r}?", abort=True, err=True)
        with working(cli, "deleting it"):
            api.delete_runtime_profile(found)
    if cli.json:
        print_json({"id": found.id, "deleted": True})
    else:
        note(f"{found.display_name} is gone.")


@profile.command()
@click.argument("name_or_id", metavar="PROFILE")
@click.argument("command", required=False, metavar="[PATH]", type=click.Path(path_type=Path))
@click.option("--unset", is_flag=True, help="Forget what was said of it on this machine.")
@output_option
@pass_cli
def path(cli: Cli, name_or_id: str, command: Path | None, unset: bool) -> None:
    """Run PROFILE, as it is now, on this machine, with the command at the absolute PATH; without it, the one on PATH.

    This is how you accept a profile that somebody else wrote or changed. What you say here stays on this machine.
    """
    cli.human_only("callboard runtime profile path")
    if unset and command is not None:
        raise click.UsageError("PATH and --unset exclude each other")
    _refuse_unrunnable(command)
    from callboard_daemon import profiles

    with cli.connect() as api, working(cli, "asking the server"):
        found = api.runtime_profile(api.me().workspace_id, name_or_id)
    if unset:
        profiles.withdraw(cli.paths, found.id)
    else:
        profiles.accept(cli.paths, found, str(command or ""))
    looks = _tell_daemon(cli)
    if cli.json:
        place = str(command) if command else None
        print_json({"id": found.id, "display_name": found.display_name, "accepted": not unset, "path": place})
    elif unset:
        note(f"Nothing is said of {found.display_name} on this machine any more.")
    else:
        note(f"This machine runs: {_line(found, str(command) if command else '')}")
    if not looks:
        note("No daemon runs here now; it takes effect with its next start.")


def _tell_daemon(cli: Cli) -> bool:
    """This machine's daemon looks at once; others hear of a change with their next heartbeat. Whether one was told."""
    from callboard_daemon.cli.local import ask_to_look

    return not cli.in_task and ask_to_look(cli.paths)


def _refuse_unrunnable(command: Path | None) -> None:
    if command is None:
        return
    if not command.is_absolute():
        raise click.UsageError(f"{str(command)!r} is not an absolute path")
    if not command.is_file() or not os.access(command, os.X_OK):
        raise click.UsageError(f"there is no program at {str(command)!r}")


def _show(cli: Cli, found: ProfileView) -> None:
    if cli.json:
        print_json(found)
        return
    print_fields(
        [
            ("id", found.id),
            ("name", found.display_name),
            ("protocol", found.protocol_family),
            ("command", one_line(_line(found), 500)),
            ("enabled", _yes(found.enabled)),
            ("description", one_line(found.description, 200)),
        ]
    )


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _line(found: ProfileView, command: str = "") -> str:
    return shlex.join([command or found.command_name, *found.fixed_args])
