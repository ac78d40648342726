"""Tell the server who this machine is and what it can run, and keep the credential it gives for that."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from callboard_daemon.control import Control
from callboard_daemon.discover import Inventory
from callboard_daemon.errors import NotAuthorised, NotLoggedIn
from callboard_daemon.paths import Paths
from callboard_daemon.state import DaemonToken, forget, read_daemon_token, write_daemon_token
from callboard_wire.bodies import RegisterRequest, RegisterResponse, RuntimeOffer

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Registration:
    """This machine as the server knows it. `runtimes` maps runtime ids to providers; empty before the first register.

    `persons_token` is asked each time: somebody may log in again while the daemon runs.
    """

    control: Control
    paths: Paths
    daemon_id: str
    device: str
    version: str
    inventory: Callable[[], Inventory]
    persons_token: Callable[[], str | None]
    runtimes: dict[str, str] = field(default_factory=dict)
    workspace_id: str = ""
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _round: int = 0

    async def register(self) -> None:
        """Register, with the daemon's own token where it has one that is still good. Raises `ControlError`, or
        `NotLoggedIn` when there is no token to try."""
        seen = self._round
        async with self._lock:
            if seen != self._round:
                return  # another part of the daemon did it while we waited
            answer = await self._with_some_token()
            self._round += 1
            self.runtimes = {runtime.id: runtime.provider for runtime in answer.runtimes}
            self.workspace_id = answer.workspace_id
            log.info("registered %d runtimes: %s", len(self.runtimes), ", ".join(sorted(self.runtimes.values())))

    async def _with_some_token(self) -> RegisterResponse:
        server = self.control.server_url
        own = read_daemon_token(self.paths, server, self.daemon_id)
        if own:
            self.control.token = own
            try:
                return await self._ask()
            except NotAuthorised as error:
                log.warning("the daemon's own token is refused (%s): using the login's", error)
                forget(self.paths.daemon_token_file)
        person = self.persons_token()
        if not person:
            raise NotLoggedIn("this machine is not logged in", hint="Run `callboard login` first.")
        self.control.token = person
        answer = await self._ask()
        if answer.daemon_token:
            self.control.token = answer.daemon_token
            write_daemon_token(self.paths, DaemonToken(server, self.daemon_id, answer.daemon_token))
        return answer

    async def _ask(self) -> RegisterResponse:
        found = sorted(self.inventory().found.values(), key=lambda each: each.provider)
        offers = [
            RuntimeOffer(name=f"{each.provider} ({self.device})"[:100], type=each.provider, version=each.version)
            for each in found
        ]
        return await self.control.register(
            RegisterRequest(
                daemon_id=self.daemon_id,
                device_name=self.device[:200],
                cli_version=self.version,
                launched_by="cli",
                runtimes=offers,
            )
        )
