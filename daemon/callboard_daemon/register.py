"""Tell the server who this machine is and what it can run, and keep the credential it gives for that."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from callboard_daemon.control import Control
from callboard_daemon.discover import Found
from callboard_daemon.errors import ControlError, NotAuthorised, NotFound, NotLoggedIn, Refused, SettingError
from callboard_daemon.paths import Paths
from callboard_daemon.providers import Providers
from callboard_daemon.state import DaemonToken, forget, read_daemon_token, write_daemon_token
from callboard_wire.bodies import FailedProfile, RegisterRequest, RegisterResponse, RuntimeOffer

log = logging.getLogger(__name__)

PROFILE_REFUSED = ("runtime_profile_not_found", "runtime_profile_disabled")
"""A profile changed between our asking for it and our registering it."""
TWIN_S = 120.0
"""A token that is refused so soon after it was given was taken by another daemon."""


@dataclass(slots=True)
class Registration:
    """This machine as the server knows it. `runtimes` maps runtime ids to providers; empty before the first register.
    `profiles` maps those of runtime profiles to the profiles' ids; `profiles_version` is the server's as of then;
    `grown` is set when there are runtimes that were not there before.

    `persons_token` is asked each time: somebody may log in again while the daemon runs.
    """

    control: Control
    paths: Paths
    daemon_id: str
    device: str
    version: str
    providers: Providers
    persons_token: Callable[[], str | None]
    runtimes: dict[str, str] = field(default_factory=dict)
    profiles: dict[str, str] = field(default_factory=dict)
    profiles_version: int = 0
    workspace_id: str = ""
    grown: asyncio.Event = field(default_factory=asyncio.Event)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _round: int = 0
    _given_at: float | None = None
    _taken: int = 0

    async def register(self) -> None:
        """Register, with the daemon's own token where it has one that is still good. Raises `ControlError`,
        `NotLoggedIn` when there is no token to try, or `SettingError` when there is nothing to offer."""
        seen = self._round
        async with self._lock:
            if seen != self._round:
                return  # another part of the daemon did it while we waited
            answer = await self._with_some_token()
            self._round += 1
            offered = [runtime for runtime in answer.runtimes if runtime.status == "online"]
            before, self.runtimes = self.runtimes, {runtime.id: runtime.provider for runtime in offered}
            if self.runtimes.keys() - before.keys():
                self.grown.set()
            self.profiles = {runtime.id: runtime.profile_id for runtime in offered if runtime.profile_id}
            self.profiles_version = answer.profiles_version
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
                self._suspect_a_twin()
                forget(self.paths.daemon_token_file)
        person = self.persons_token()
        if not person:
            raise NotLoggedIn("this machine is not logged in", hint="Run `callboard login` first.")
        self.control.token = person
        answer = await self._ask()
        if answer.daemon_token:
            self.control.token = answer.daemon_token
            self._given_at = time.monotonic()
            write_daemon_token(self.paths, DaemonToken(server, self.daemon_id, answer.daemon_token))
        return answer

    def _suspect_a_twin(self) -> None:
        """A token is refused once another is given out for the same id. Twice, soon after we were given one, is two
        machines of one id, each taking the other's token for ever: seen with copied homes and images of machines."""
        soon = self._given_at is not None and time.monotonic() - self._given_at < TWIN_S
        self._taken = self._taken + 1 if soon else 0
        if self._taken >= 2:
            file = self.paths.daemon_id_file
            log.error(
                "another daemon registers under this one's id (a copied state folder?): on one of the machines, "
                "stop the daemon, delete %s and start it again",
                file,
            )

    async def _ask(self) -> RegisterResponse:
        """With what the server says of the profiles now. One that has changed since is refused: then once more, and if
        need be without any, for the machine's own CLIs must not wait for it."""
        for _ in range(2):
            unanswered = await self._learn_profiles()
            try:
                return await self._offer(unanswered)
            except Refused as error:
                if error.code not in PROFILE_REFUSED:
                    raise
                log.info("a runtime profile has just changed: registering again")
        self.providers.profiles = ()
        return await self._offer(unanswered)

    async def _offer(self, unanswered: ControlError | None) -> RegisterResponse:
        """Offer everything this machine has. `unanswered` is why the profiles are not known, if they are not."""
        await self.providers.look_at_profiles()
        offers, failed = self._offers(), self._failed()
        if not offers and not failed:
            if unanswered is not None:
                raise unanswered  # there may well be profiles: worth waiting for
            skipped = sorted(self.providers.inventory.skipped.items())
            reasons = "; ".join(f"{name}: {why}" for name, why in skipped)
            raise SettingError(f"no coding-agent CLI was found on this machine ({reasons})")
        return await self.control.register(
            RegisterRequest(
                daemon_id=self.daemon_id,
                device_name=self.device[:200],
                cli_version=self.version,
                launched_by="cli",
                runtimes=offers,
                failed_profiles=failed,
            )
        )

    async def _learn_profiles(self) -> ControlError | None:
        """Best effort: without an answer, which is returned, those known before stay. A server older than profiles has
        none. Raises `NotAuthorised`."""
        try:
            workspace = self.workspace_id or await self.control.workspace()
            self.providers.profiles = await self.control.runtime_profiles(workspace)
        except NotAuthorised:
            raise
        except NotFound:
            self.providers.profiles = ()
        except ControlError as error:
            log.warning("the runtime profiles could not be asked for: %s", error)
            return error
        return None

    def _offers(self) -> list[RuntimeOffer]:
        found = sorted(self.providers.inventory.found.values(), key=lambda each: each.provider)
        offers = [RuntimeOffer(name=self._named(f.provider), type=f.provider, version=f.version) for f in found]
        for profile in self.providers.profiles:
            here = self.providers.custom.get(profile.id)
            if isinstance(here, Found):
                name = self._named(profile.display_name)
                offers.append(RuntimeOffer(name=name, type=here.provider, version=here.version, profile_id=profile.id))
        return offers

    def _failed(self) -> list[FailedProfile]:
        failed = []
        for profile in self.providers.profiles:
            why = self.providers.custom.get(profile.id)
            if isinstance(why, str):
                log.warning("runtime profile %s is not offered: %s", profile.display_name, why)
                failed.append(
                    FailedProfile(profile_id=profile.id, command_name=profile.command_name, reason=why[:2000])
                )
        return failed

    def _named(self, what: str) -> str:
        return f"{what} ({self.device})"[:100]
