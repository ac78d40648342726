"""`callboard daemon start|stop|restart|status|logs`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import click

from callboard_daemon.cli import local
from callboard_daemon.cli.context import Cli, output_option, pass_cli
from callboard_daemon.cli.launch import start_in_background
from callboard_daemon.cli.output import note, print_fields, print_json, working
from callboard_daemon.errors import CallboardError, ExitCode
from callboard_daemon.state import is_running, read_record

FLAGS: Final = (
    ("--max-concurrent-tasks", "N", "How many tasks may run on this machine at once."),
    ("--workspaces-root", "PATH", "Where tasks get their folders."),
    ("--device-name", "NAME", "What this machine is called in lists."),
    ("--providers", "NAMES", "Offer only these coding CLIs (comma separated)."),
    ("--log-level", "LEVEL", "debug, info, warning or error."),
)
STOP_SLACK_S: Final = 30.0


def _settings_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for flag, metavar, text in reversed(FLAGS):
        command = click.option(flag, metavar=metavar, default=None, help=text)(command)
    return command


@click.group()
def daemon() -> None:
    """Start, stop and look at this machine's daemon."""
    if sys.platform == "win32":
        raise CallboardError(
            "the daemon does not run on Windows: only how it starts and ends agents has been tried there",
            hint="Run it inside WSL 2; docs/decisions/child-processes.md says what is missing.",
        )


@daemon.command()
@click.option("--foreground", is_flag=True, help="Stay in this terminal; Ctrl-C drains and ends.")
@click.option("--background-child", is_flag=True, hidden=True)
@_settings_options
@pass_cli
def start(cli: Cli, /, foreground: bool, background_child: bool, **given: str | None) -> None:
    """Start the daemon: it claims tasks and runs them with the coding CLIs of this machine."""
    cli.human_only("callboard daemon start")
    flags = {name: value for name, value in given.items() if value is not None}
    settings = cli.settings(flags)
    arguments = [part for name, value in flags.items() for part in ("--" + name.replace("_", "-"), value)]
    if not (foreground or background_child):
        start_in_background(cli, settings, arguments)
        return
    import asyncio

    from callboard_daemon.logs import logging_to
    from callboard_daemon.service import run_daemon

    os.environ.update(settings.env)  # proxies from the config file are for the daemon's own requests too
    try:
        with logging_to(cli.paths, settings.log_level, stderr=not background_child):
            asyncio.run(run_daemon(cli.paths, settings, dict(os.environ), arguments))
    except OSError as error:
        raise CallboardError(f"cannot use {error.filename or cli.paths.log_dir}: {error.strerror}") from error


@daemon.command()
@click.option("--now", is_flag=True, help="Do not wait for running tasks: hand them back at once.")
@pass_cli
def stop(cli: Cli, now: bool) -> None:
    """Stop the daemon: running tasks may finish for a while, the rest is handed back."""
    cli.human_only("callboard daemon stop")
    if not is_running(cli.paths):
        note("The daemon is not running.")
        return
    _end(cli, now)
    note("The daemon has ended.")


@daemon.command()
@click.option("--now", is_flag=True, help="Do not wait for running tasks.")
@pass_cli
def restart(cli: Cli, now: bool) -> None:
    """Stop the daemon and start it again with the same options.

    The login is tried first: a daemon that works is not ended for one that could not register.
    """
    cli.human_only("callboard daemon restart")
    with cli.connect() as api:
        api.me()
    running = is_running(cli.paths)
    record = read_record(cli.paths) if running else None
    if running:
        _end(cli, now)
    start_in_background(cli, cli.settings(), record.flags if record else [])


@daemon.command()
@output_option
@pass_cli
def status(cli: Cli) -> None:
    """Show whether the daemon runs, and how it does. Exit code 4 when it does not run."""
    said = local.health(cli.paths)
    if said is None:
        state = "not answering" if is_running(cli.paths) else "not running"
        if cli.json:
            print_json({"status": state.replace(" ", "_"), "profile": cli.profile})
        else:
            click.echo(f"The daemon is {state}.")
        raise click.exceptions.Exit(ExitCode.NOT_FOUND)
    if cli.json:
        print_json(said)
    else:
        print_fields(_fields(said))
        for name, why in said["skipped"].items():
            click.echo(f"not offered: {name}: {why}")
        for name, why in said.get("failed_profiles", {}).items():
            click.echo(f"not offered: runtime profile {name}: {why}")
        if said["skipped"]:
            note("Where a CLI is can be said with CALLBOARD_<PROVIDER>_PATH, or in the config file.")


@daemon.command()
@click.option("-f", "--follow", is_flag=True, help="Go on with what is written from now on.")
@click.option(
    "-n", "--lines", type=click.IntRange(0), default=50, show_default=True, help="So many lines from the end."
)
@pass_cli
def logs(cli: Cli, follow: bool, lines: int) -> None:
    """Show the daemon's log."""
    cli.human_only("callboard daemon logs")
    path = cli.paths.log_file
    note(f"{path} (profile {cli.profile or 'default'})")
    if not path.exists():
        raise CallboardError(f"there is no log at {path}", hint="It is written when the daemon runs.")
    for line in _tail(path, lines):
        click.echo(line)
    for line in _grow(path) if follow else ():
        click.echo(line)


def _end(cli: Cli, now: bool) -> None:
    asked = local.ask_to_end(cli.paths)
    if asked and now:
        local.ask_to_end(cli.paths)
    bound = cli.settings().drain_timeout + STOP_SLACK_S
    with working(cli, "waiting for running tasks"):
        ended = asked and local.wait_until(lambda: not is_running(cli.paths), bound)
    if not ended:
        record = read_record(cli.paths)
        raise CallboardError(
            f"the daemon{f' (pid {record.pid})' if record else ''} did not end", hint="See `callboard daemon logs`."
        )


def _fields(said: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        ("status", said["status"] + (f" ({said['detail']})" if said["detail"] else "")),
        ("pid", str(said["pid"])),
        ("up", f"{said['uptime_s']:.0f} s"),
        ("version", said["version"]),
        ("server", said["server_url"]),
        ("device", said["device_name"]),
        ("tasks", f"{said['running_tasks']} of {said['slots']} places"),
        ("providers", _with_versions(said["providers"])),
        ("profiles", _with_versions(said.get("profiles", {}))),
    ]


def _with_versions(found: dict[str, str]) -> str:
    return ", ".join(f"{name} ({version})" if version else name for name, version in found.items())


def _tail(path: Path, lines: int) -> list[str]:
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - (lines + 1) * 2000))
        return file.read().decode("utf-8", "replace").splitlines()[-lines:] if lines else []


def _grow(path: Path) -> Iterator[str]:
    """Lines as they are written, across rotations, until interrupted."""
    file = path.open("rb")
    file.seek(0, os.SEEK_END)
    try:
        while True:
            line = file.readline()
            if line.endswith(b"\n"):
                yield line.decode("utf-8", "replace").rstrip("\n")
                continue
            file.seek(-len(line), os.SEEK_CUR)
            time.sleep(0.3)
            if path.exists() and path.stat().st_ino != os.fstat(file.fileno()).st_ino:
                file.close()
                file = path.open("rb")
    finally:
        file.close()
