"""Starting the daemon in the background, and saying what became of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from callboard_daemon.cli import local
from callboard_daemon.cli.context import Cli
from callboard_daemon.cli.output import note, working
from callboard_daemon.credentials import server_of
from callboard_daemon.errors import AlreadyRunning, CallboardError, ExitCode, StateError, Unreachable
from callboard_daemon.files import private_dir
from callboard_daemon.settings import Settings
from callboard_daemon.state import is_running, read_record

READY_WITHIN_S: Final = 45.0
REACHES_WITHIN_S: Final = 8.0
"""How long a server that does not answer is waited for before the person is told; the daemon goes on trying."""
_ROLL_AT: Final = 5 * 1024 * 1024


def start_in_background(cli: Cli, settings: Settings, arguments: list[str]) -> None:
    """Start the daemon detached and return when it works. `arguments` are its options.

    Raises `AlreadyRunning`, `NotLoggedIn`, `CallboardError` with the daemon's own words when it ended at once, or
    `Unreachable` when it runs but cannot reach its server.
    """
    paths = cli.paths
    if is_running(paths):
        record = read_record(paths)
        raise AlreadyRunning(paths.profile, record.pid if record else 0)
    server = server_of(paths, settings)
    process, began = _spawn(cli, arguments)
    with working(cli, "starting the daemon"):
        local.wait_until(lambda: process.poll() is not None or _settled(cli, process.pid), READY_WITHIN_S)
    if (code := process.poll()) is not None:
        words = _written_since(paths.stderr_file, began).strip() or f"it ended with code {code}"
        error = CallboardError(words.removeprefix("Error: "), hint="See also `callboard daemon logs`.")
        error.exit_code = _exit_code(code)
        raise error
    said = local.health(paths) or {}
    if said.get("status") == "running":
        note(f"The daemon runs (pid {process.pid}) and offers {', '.join(said['providers'])} to {server}.")
        return
    raise Unreachable(
        f"the daemon started (pid {process.pid}) but does not reach {server} yet: {said.get('detail') or 'no answer'}",
        hint="It keeps trying. Stop it with `callboard daemon stop`.",
    )


def _spawn(cli: Cli, arguments: list[str]) -> tuple[subprocess.Popen[bytes], int]:
    path = cli.paths.stderr_file
    command = [sys.executable, "-P", "-m", "callboard_daemon"]
    command += ["--profile", cli.profile] if cli.profile else []
    command += ["--server", cli.server] if cli.server else []
    try:
        private_dir(path.parent)
        if path.exists() and path.stat().st_size > _ROLL_AT:
            path.replace(path.with_suffix(".log.1"))
        with path.open("ab") as stderr:
            began = stderr.tell()
            process = subprocess.Popen(
                [*command, "daemon", "start", "--background-child", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                cwd=Path.home(),
                start_new_session=True,
            )
    except OSError as error:
        raise StateError(f"cannot start the daemon: {error}") from error
    return process, began


def _settled(cli: Cli, pid: int) -> bool:
    """Whether it is known how the daemon of `pid` does. Of several that were started at once, the others' answer tells
    nothing about ours, which is about to say that it is one too many."""
    record = read_record(cli.paths)
    if record is None or record.pid != pid:
        return False
    said = local.health(cli.paths)
    if said is None:
        return False
    return said["status"] == "running" or bool(said["detail"] and said["uptime_s"] > REACHES_WITHIN_S)


def _written_since(path: Path, offset: int) -> str:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(16_384).decode("utf-8", "replace")


def _exit_code(code: int) -> ExitCode:
    try:
        return ExitCode(code)
    except ValueError:
        return ExitCode.ERROR
