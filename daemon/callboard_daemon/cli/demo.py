"""`callboard demo`: the whole way of a task on this machine, with real parts, in a folder that goes away again.

gateway (in a thread)  ←HTTP→  daemon (a process of its own)  ←pipes→  the coding CLI (or echo)
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from callboard_daemon.cli import local
from callboard_daemon.cli.api import Api
from callboard_daemon.cli.context import Cli, pass_cli
from callboard_daemon.cli.follow import follow, print_end
from callboard_daemon.cli.output import console, note
from callboard_daemon.cli.server_extra import load_server
from callboard_daemon.discover import Found, discover, logged_in
from callboard_daemon.errors import CallboardError, ExitCode
from callboard_daemon.paths import Paths, paths_for
from callboard_daemon.providers import ECHO
from callboard_daemon.settings import load_settings
from callboard_wire.agents import CreateAgentRequest
from callboard_wire.api import BootstrapRequest, EnqueueRequest, TaskView
from callboard_wire.states import TaskStatus

FILE: Final = "hello.txt"
READY_WITHIN_S: Final = 15.0
_ECHO_PROMPT: Final = (
    f"!say I am the echo provider: a real process without a model. I write the file now.\n"
    f"!write {FILE} Hello from Callboard.\\n\n!read {FILE}\n!usage 12 34\n!answer I wrote {FILE}."
)
_MODEL_PROMPT: Final = (
    f"Write a file named {FILE} in the current folder holding the single line 'Hello from Callboard.' "
    "Then say in one sentence what you did."
)


@click.command()
@click.option("--provider", metavar="NAME", help="Use this coding CLI instead of the first that is logged in.")
@pass_cli
def demo(cli: Cli, provider: str | None) -> int:
    """Show the whole way of a task on this machine, and clean up.

    Starts a control plane and a daemon in a temporary folder, gives an agent a task that writes a file, streams what it
    does, prints result, usage and where the file is, and leaves nothing running. Only the file stays.
    """
    cli.human_only("callboard demo")
    server = load_server()
    began = time.monotonic()
    home = Path(tempfile.mkdtemp(prefix="callboard-demo-"))
    paths = paths_for("", {"CALLBOARD_HOME": str(home)})
    try:
        chosen = _choose(paths, provider, dict(os.environ))
        try:
            with server.running_gateway(home / "server", port=0) as gateway:
                note(f"Control plane at {gateway.url}, data in {gateway.data}")
                task, text = _tour(gateway.url, gateway.bootstrap_secret_file, paths, home, chosen)
        except server.GatewayError as error:
            raise CallboardError(str(error)) from error
        note(f"\n{text}" if text else "\nThe agent wrote no file.")
        note(f"Everything has ended; the demo took {time.monotonic() - began:.1f} s. Remove its files: rm -r {home}")
        return ExitCode.OK if task.status is TaskStatus.COMPLETED else ExitCode.ERROR
    finally:
        # What stays is the agent's work alone: the rest holds tokens.
        for entry in home.iterdir():
            if entry != paths.workspaces_root:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        with contextlib.suppress(OSError):
            home.rmdir()


def _choose(paths: Paths, provider: str | None, environ: dict[str, str]) -> Found:
    """The provider that is asked for, else the first one that is known to be logged in, else echo."""
    settings = load_settings(paths, environ, {"providers": provider or ""})
    inventory = asyncio.run(discover(settings, environ))
    if provider:
        if provider not in inventory.found:
            raise CallboardError(f"{provider} cannot run here: {inventory.skipped.get(provider, 'it is not known')}")
        return inventory.found[provider]
    for name, found in sorted(inventory.found.items()):
        if name != ECHO and logged_in(found, environ):
            note(f"Using {name} ({found.version or found.executable}); --provider echo needs no login.")
            return found
    others = sorted(set(inventory.found) - {ECHO})
    why = f"{', '.join(others)} found, but not known to be logged in" if others else "no coding CLI was found"
    note(f"Using echo, a real process without a model, because {why}. --provider chooses another.")
    return inventory.found[ECHO]


def _tour(url: str, secret_file: Path, paths: Paths, home: Path, chosen: Found) -> tuple[TaskView, str]:
    secret = secret_file.read_text().strip()
    with Api(url, "", timeout=10.0) as api:
        token = api.bootstrap(BootstrapRequest(secret=secret, name="demo", workspace="demo")).token
    with _daemon(url, token, paths, home, chosen), Api(url, token, timeout=30.0) as api:
        agent = api.create_agent(CreateAgentRequest(name="scout", provider=chosen.provider))
        note(f"Daemon registered; agent {agent.name} uses {chosen.provider}")
        prompt = _ECHO_PROMPT if chosen.provider == ECHO else _MODEL_PROMPT
        task = api.enqueue(EnqueueRequest(agent=agent.id, prompt=prompt, max_attempts=1))
        note(f"Task {task.id}\n")
        task, _ = follow(api, task.id, console(err=False))
        print_end(task, shown="")
        return task, _written(Path(task.work_dir) / FILE if task.work_dir else None)


def _written(file: Path | None) -> str:
    if file is None or not file.is_file():
        return ""
    return f"{file} holds: {file.read_text(errors='replace').strip()}"


@contextmanager
def _daemon(url: str, token: str, paths: Paths, home: Path, chosen: Found) -> Iterator[None]:
    """A daemon of this demo's own while the context lasts, ended in any case."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("CALLBOARD_", "MULTICA_"))}
    kept = {n: v for n, v in os.environ.items() if n.startswith(f"CALLBOARD_{chosen.provider.upper()}_")}
    env |= {**kept, "CALLBOARD_HOME": str(home), "CALLBOARD_SERVER_URL": url, "CALLBOARD_TOKEN": token}
    env |= {"CALLBOARD_PROVIDERS": chosen.provider, "CALLBOARD_DRAIN_TIMEOUT": "1s"}
    output = home / "daemon-output.txt"
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "callboard_daemon", "daemon", "start", "--foreground"],
            env=env,
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        ready = local.wait_until(
            lambda: process.poll() is not None or (local.health(paths) or {}).get("status") == "running", READY_WITHIN_S
        )
        if not ready or process.poll() is not None:
            raise CallboardError(f"the demo's daemon did not start: {output.read_text(errors='replace')[-2000:]}")
        yield
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
