"""What this machine offers, as of the last look: the CLIs it found, and the runtime profiles it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from callboard_daemon import profiles
from callboard_daemon.discover import PROBES_AT_ONCE, Found, Inventory, discover, file_identity, probe_env
from callboard_daemon.errors import SettingError
from callboard_daemon.paths import Paths
from callboard_daemon.settings import Settings
from callboard_wire.runtimes import ProfileView

ECHO: Final = "echo"
"""For trying things out: offered when it is asked for, or when there is nothing else."""


@dataclass(slots=True)
class Providers:
    """`profiles` are the workspace's as the server told them last, `custom` says of each (by id) what it is here: what
    to run, or why it is not offered."""

    settings: Settings
    environ: Mapping[str, str] = field(repr=False)
    paths: Paths
    inventory: Inventory = field(default_factory=Inventory)
    profiles: Sequence[ProfileView] = ()
    custom: dict[str, Found | str] = field(default_factory=dict)

    async def look(self) -> bool:
        """Look again; whether anything is new. A provider that is not found any more stays offered: a passing hiccup
        must not take a working runtime away, and a run that really misses its CLI says so."""
        fresh = await discover(self.settings, self.environ)
        found, skipped = {**self.inventory.found, **fresh.found}, dict(fresh.skipped)
        if len(found) > 1 and ECHO not in self.settings.providers and found.pop(ECHO, None) is not None:
            skipped[ECHO] = "it has no model; name it in CALLBOARD_PROVIDERS to offer it beside the others"
        new = found != self.inventory.found
        self.inventory = Inventory(found, skipped, fresh.path)
        return await self.look_at_profiles() or new

    async def look_at_profiles(self) -> bool:
        """Find the commands of the profiles; whether anything is new. One that is gone is told as such at once: people
        named it, and nothing else stands in for it."""
        env = probe_env(self.settings, self.environ, self.inventory.path)
        at_once = asyncio.Semaphore(PROBES_AT_ONCE)

        async def find(profile: ProfileView) -> Found | str:
            async with at_once:
                return await profiles.find(profile, accepted.get(profile.id), env)

        try:
            accepted = await asyncio.to_thread(profiles.read_accepted, self.paths)
            answers: list[Found | str] = list(await asyncio.gather(*map(find, self.profiles)))
        except SettingError as error:
            answers = [str(error) for _ in self.profiles]
        before = self.custom
        self.custom = {profile.id: answer for profile, answer in zip(self.profiles, answers, strict=True)}
        return self.custom != before

    def named(self) -> list[tuple[str, Found | str]]:
        """The profiles by their names, those that have been looked for."""
        return [(p.display_name, self.custom[p.id]) for p in self.profiles if p.id in self.custom]

    def replaced(self, known: Found | str | None) -> bool:
        """Whether the CLI's file is not the one that was looked at: updated in place, or gone with its version."""
        return isinstance(known, Found) and file_identity(known.executable) != known.identity
