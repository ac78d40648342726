"""The ways to get a token at a login, each from what a person has to a token of theirs."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from callboard_daemon.cli.api import Api
from callboard_daemon.cli.context import Cli
from callboard_daemon.cli.output import ago, note, one_line, working
from callboard_daemon.cli.pasted import is_signed_in, person_token
from callboard_daemon.cli.typed import body_from
from callboard_daemon.errors import CallboardError, ControlError, Refused, SettingError
from callboard_wire.api import AcceptInvitationRequest, BootstrapRequest, CreateTokenRequest
from callboard_wire.login import DecideLogin, LoginToken, StartLogin, UserCode, WaitingLogin

MAX_PASTE: Final = 20_000
SLOWER_BY_S: Final = 5.0
SIGNED_IN_FOR_DAYS: Final = 90


def this_machine() -> str:
    """What this machine is called where others see it."""
    return one_line(socket.gethostname(), 100) or "a machine"


def by_pasted_token(cli: Cli, address: str, *, from_stdin: bool) -> str:
    """A token that was piped in or pasted. A sign-in's own one, which ends within the hour, is swapped for ours."""
    if from_stdin:
        text = sys.stdin.read(MAX_PASTE)
    elif sys.stdin.isatty():
        text = click.prompt("Token (mul_…)", hide_input=True, err=True)
    else:
        raise SettingError("there is no terminal to ask for the token", hint="Pipe it in and give --token-stdin.")
    token = person_token(text)
    if not is_signed_in(token):
        return token
    body = body_from(CreateTokenRequest, name=f"login of {this_machine()}"[:100], expires_in_days=SIGNED_IN_FOR_DAYS)
    with working(cli, "making a token"), Api(address, token, timeout=cli.settings().http_timeout) as api:
        return api.create_token(body).token


def by_first_login(cli: Cli, address: str, file: Path, name: str, workspace: str) -> str:
    """The server's own secret, read from its data folder."""
    try:
        secret = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CallboardError(
            f"cannot read {file}: {getattr(error, 'strerror', None) or error}",
            hint="It is in the server's data folder until the first login; afterwards use a token.",
        ) from error
    body = body_from(BootstrapRequest, secret=secret, name=name, workspace=workspace)
    with working(cli, "logging in"), Api(address, "", timeout=cli.settings().http_timeout) as api:
        return api.bootstrap(body).token


def by_invitation(cli: Cli, address: str, code: str, name: str) -> str:
    """An invitation's code, as a new person. ``-`` reads it from stdin, where no list of processes shows it."""
    if code == "-":
        code = sys.stdin.read(MAX_PASTE)
    body = body_from(AcceptInvitationRequest, code="".join(code.split()), name=name)
    with working(cli, "joining"), Api(address, "", timeout=cli.settings().http_timeout) as api:
        return api.accept_invitation(body).token


def by_code(cli: Cli, address: str) -> str:
    """A code that somebody who is logged in approves. Waits for them, at most as long as the code is good."""
    with Api(address, "", timeout=cli.settings().http_timeout) as api:
        started = api.start_login(body_from(StartLogin, client_name=this_machine()))
        note(
            f"Your code: {started.user_code}\n"
            f"Where you are logged in already, run:  callboard login --approve {started.user_code}\n"
            f"({started.verification_uri} says the same.) Waiting for {started.expires_in // 60} minutes."
        )
        deadline = time.monotonic() + started.expires_in
        with working(cli, "waiting to be let in"):
            return _waited(lambda: api.poll_login(started.device_code), float(started.interval), deadline).access_token


def _waited(poll: Callable[[], LoginToken], interval: float, deadline: float) -> LoginToken:
    """The answer of `poll`, asked every `interval` seconds until `deadline`."""
    while time.monotonic() + interval < deadline:
        time.sleep(interval)
        try:
            return poll()
        except Refused as refused:
            if refused.code == "slow_down":
                interval += SLOWER_BY_S
            elif refused.code != "authorization_pending":
                raise
        except ControlError as error:
            if not error.transient:
                raise
    raise CallboardError("nobody let this machine in in time", hint="Begin again: `callboard login`.")


def answer(cli: Cli, code: str, *, approve: bool, sure: bool) -> WaitingLogin:
    """Let the machine that shows `code` in as oneself, or turn it away; asks once more before it lets in."""
    with cli.connect() as api:
        asking = api.waiting_login(body_from(UserCode, user_code=code))
        if approve and not sure:
            note(_who_asks(asking))
            if not sys.stdin.isatty():
                raise SettingError("there is no terminal to ask whether that is right", hint="Give --yes if it is.")
            click.confirm("It can then do all that you can do. Let it in?", abort=True, err=True)
        return api.decide_login(body_from(DecideLogin, user_code=code, approve=approve))


def _who_asks(asking: WaitingLogin) -> str:
    name = one_line(asking.client_name, 100)
    where = f" at {one_line(asking.address, 60)}" if asking.address else ""
    return f"{name}{where} asks to log in as you ({ago(asking.started_at)})."
