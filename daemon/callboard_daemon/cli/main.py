"""The root of the command line, and the one place where an error becomes a sentence and an exit code."""

from __future__ import annotations

import errno
import os
import sys
from typing import Any, Final, NoReturn, TextIO

import click

from callboard_daemon.cli.lazy import LazyGroup

EXIT_CODES: Final = {
    0: "done",
    1: "something went wrong; with `run --follow`, the task failed or was cancelled",
    2: "the server cannot be reached",
    3: "not logged in, or not allowed",
    4: "there is no such thing",
    5: "the command or its input is not valid",
    130: "interrupted with Ctrl-C",
}
_HERE = "callboard_daemon.cli"
COMMANDS: Final = {
    "up": (f"{_HERE}.up:up", "Run the control plane on this machine."),
    "demo": (f"{_HERE}.demo:demo", "Show the whole way of a task on this machine, and clean up."),
    "login": (f"{_HERE}.login:login", "Log in to a control plane."),
    "logout": (f"{_HERE}.login:logout", "Forget the stored login."),
    "whoami": (f"{_HERE}.login:whoami", "Show who you are to the server."),
    "token": (f"{_HERE}.token:token", "Make, list, renew and revoke your tokens."),
    "member": (f"{_HERE}.member:member", "See and change who is in the workspace."),
    "invite": (f"{_HERE}.invite:invite", "Let people into the workspace."),
    "workspace": (f"{_HERE}.workspace:workspace", "See your workspaces, and change the current one's settings."),
    "audit": (f"{_HERE}.audit:audit", "Read who did what to which thing when."),
    "daemon": (f"{_HERE}.daemon:daemon", "Start, stop and look at this machine's daemon."),
    "agent": (f"{_HERE}.agent:agent", "Make, list and change agents."),
    "model-profile": (f"{_HERE}.model_profile:model_profile", "Say which model a word such as `fast` means."),
    "skill": (f"{_HERE}.skill:skill", "Keep skills that agents can be given."),
    "runtime": (f"{_HERE}.runtime:runtime", "Look at and change the places where agents can run."),
    "run": (f"{_HERE}.run:run", "Give an agent a task."),
    "task": (f"{_HERE}.task:task", "Look at tasks, cancel and repeat them."),
    "queue": (f"{_HERE}.queue:queue", "Show what waits, in the order it will be claimed."),
    "doctor": (f"{_HERE}.doctor:doctor", "Check this machine, or the server's tasks."),
    "version": (f"{_HERE}.version:version_command", "Show the version."),
    "completion": (f"{_HERE}.completion:completion", "Print a shell's completion script."),
}


@click.group(
    cls=LazyGroup,
    lazy=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 ok, 1 error, 2 network, 3 auth, 4 not found, 5 invalid. More: docs/reference/.",
)
@click.option("--profile", metavar="NAME", default=None, help="Use another login and daemon than the default one.")
@click.option("--server", metavar="URL", default=None, help="Talk to this server instead of the one you logged in to.")
@click.option("--output", type=click.Choice(["table", "json"]), default=None, help="How results are printed.")
@click.option("--debug", is_flag=True, help="Show more about what goes wrong.")
@click.pass_context
def root(ctx: click.Context, profile: str | None, server: str | None, output: str | None, debug: bool) -> None:
    """Give tasks to the coding agents on your machines.

    Start with `callboard demo`.
    """
    from callboard_daemon.cli.context import Cli

    ctx.obj = Cli(
        environ=dict(os.environ),
        profile=profile if profile is not None else os.environ.get("CALLBOARD_PROFILE", ""),
        server=server or "",
        output=output or "table",
        debug=debug,
    )


def main(args: list[str] | None = None) -> NoReturn:
    """Run the command line and end the process with one of `EXIT_CODES`."""
    _open_what_is_closed()
    try:
        # Not `standalone_mode`: click would end usage errors with 2, which is the network's code here.
        result: Any = root.main(args=args, prog_name="callboard", standalone_mode=False)
        code = result if isinstance(result, int) else 0
        sys.stdout.flush()
    except click.UsageError as error:
        error.show(sys.stderr)
        code = 5
    except click.ClickException as error:
        error.show(sys.stderr)
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        code = 130
    except BrokenPipeError:
        # The reader has gone (`callboard task list | head`); Python would complain once more while it ends.
        _throw_away(sys.stdout)
        code = 1
    except Exception as error:  # noqa: BLE001  (the border to the person: whatever it is becomes a sentence and a code)
        code = _explain(error)
    sys.exit(code)


_FULL: Final = (errno.ENOSPC, errno.EFBIG, errno.EIO)


def _open_what_is_closed() -> None:
    """A script may have closed our streams (`>&-`); Python has None for them then, which nothing can write to."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


def _throw_away(stream: TextIO) -> None:
    """What is still to be written goes nowhere: Python would fail at it once more while it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _explain(error: Exception) -> int:
    from callboard_daemon.errors import CallboardError

    debug = "--debug" in sys.argv
    if isinstance(error, CallboardError):
        click.secho(f"Error: {error.message}", fg="red", err=True)
        if error.hint:
            click.echo(error.hint, err=True)
        if debug:
            _traceback(error)
        return int(error.exit_code)
    if isinstance(error, OSError) and error.errno in _FULL and error.filename is None:
        click.secho(f"Error: the output cannot be written: {error.strerror}", fg="red", err=True)
        _throw_away(sys.stdout)
        return 1
    _traceback(error)
    click.secho("This is a bug in callboard; please report the lines above.", fg="red", err=True)
    return 1


def _traceback(error: Exception) -> None:
    import traceback

    from callboard_adapters import redact

    click.echo(redact.text("".join(traceback.format_exception(error))), err=True)
