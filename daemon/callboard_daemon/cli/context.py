"""What every command knows: the profile, how to print, and as whom it speaks.

Inside a task (see `in_task`) only the task's own token is used, and the user's files are never read: an agent that
lost its token must fail, not act as the owner of the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from callboard_daemon.errors import HumanOnly, NotLoggedIn
from callboard_daemon.execenv.marker import find_marker
from callboard_daemon.paths import Paths, paths_for
from callboard_daemon.settings import Settings, load_settings, server_url

if TYPE_CHECKING:
    from callboard_daemon.cli.api import Api

F = TypeVar("F", bound=Callable[..., Any] | click.Command)

_IDENTITY: Final = ("MULTICA_AGENT_ID", "MULTICA_TASK_ID")
# A shell that something else spawned may carry only the port: that is a hint for where to be careful, no identity.
_CONTEXT: Final = (*_IDENTITY, "MULTICA_DAEMON_PORT")


@dataclass(slots=True)
class Cli:
    environ: Mapping[str, str] = field(repr=False)
    profile: str
    server: str
    output: str
    debug: bool

    @property
    def json(self) -> bool:
        return self.output == "json"

    @property
    def paths(self) -> Paths:
        return paths_for(self.profile, self.environ)

    @property
    def marker(self) -> Path | None:
        return find_marker(Path.cwd())

    @property
    def in_task(self) -> bool:
        return any(self.environ.get(name) for name in _CONTEXT) or self.marker is not None

    def settings(self, flags: Mapping[str, str] | None = None) -> Settings:
        given = dict(flags or {})
        if self.server:
            given["server_url"] = self.server
        return load_settings(self.paths, self.environ, given)

    def connect(self) -> Api:
        """A client for the server, as the task inside a task and as the logged-in person elsewhere.

        Raises `NotLoggedIn` when there is nobody to be.
        """
        from callboard_daemon.cli.api import Api

        if self.in_task:
            return Api(*self._of_task(), timeout=30.0)
        settings = self.settings()
        from callboard_daemon.credentials import read_credentials

        known = read_credentials(self.paths)
        server = settings.server_url or (known.server_url if known else "")
        # A token is only ever sent to the server it was made for.
        token = settings.token or (known.token if known and known.server_url == server else "")
        if not server or not token:
            profile = f" --profile {self.profile}" if self.profile else ""
            where = "" if server else " --server URL"
            raise NotLoggedIn("you are not logged in", hint=f"Run `callboard{profile} login{where}` first.")
        api = Api(server, token, timeout=settings.http_timeout)
        if known is not None and token == known.token:
            from callboard_daemon.cli.renewal import renew_in_time

            renew_in_time(self.paths, known, api)
        return api

    def human_only(self, command: str) -> None:
        """Refuse a command that belongs to the machine's owner, not to an agent. Raises `HumanOnly`."""
        if any(self.environ.get(name) for name in _IDENTITY):
            raise HumanOnly(f"`{command}` is for people; it is not available inside a task")
        if (marker := self.marker) is not None:
            raise HumanOnly(
                f"`{command}` is not available in a task's folder",
                hint=f"This folder is a task's because of {marker}. If the task is over you may delete that file.",
            )

    def _of_task(self) -> tuple[str, str]:
        token, server = self.environ.get("MULTICA_TOKEN", ""), self.environ.get("MULTICA_SERVER_URL", "")
        if not token.startswith("mat_") or not server:
            missing = "MULTICA_TOKEN holds no task token" if server else "MULTICA_SERVER_URL is not set"
            where = f" (a task's folder: {self.marker})" if self.marker else ""
            raise NotLoggedIn(
                f"this is a task's surroundings{where}, but {missing}",
                hint="Inside a task only the task's own token is used. Run the command with the task's environment.",
            )
        return server_url(server), token


pass_cli = click.make_pass_decorator(Cli)


def output_option(command: F) -> F:
    """`--output` on the command itself too: people type it last."""

    def remember(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
        if value is not None:
            ctx.find_object(Cli).output = value  # type: ignore[union-attr]  # the root always makes one

    return click.option(
        "--output",
        type=click.Choice(["table", "json"]),
        default=None,
        expose_value=False,
        callback=remember,
        help="How results are printed.",
    )(command)
