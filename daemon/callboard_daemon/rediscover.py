"""Notice that a CLI was installed, updated or moved while the daemon runs, and tell the server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from callboard_daemon.discover import Inventory, discover, file_identity
from callboard_daemon.heartbeat import try_to_register
from callboard_daemon.register import Registration
from callboard_daemon.settings import Settings

log = logging.getLogger(__name__)

EVERY_S: Final = 600.0
ECHO: Final = "echo"
"""For trying things out: offered when it is asked for, or when there is nothing else."""


@dataclass(slots=True)
class Providers:
    """What this machine offers, as of the last look."""

    settings: Settings
    environ: Mapping[str, str] = field(repr=False)
    inventory: Inventory = field(default_factory=Inventory)

    async def look(self) -> bool:
        """Look again; whether anything is new. A provider that is not found any more stays offered: a passing hiccup
        must not take a working runtime away, and a run that really misses its CLI says so."""
        fresh = await discover(self.settings, self.environ)
        found, skipped = {**self.inventory.found, **fresh.found}, dict(fresh.skipped)
        if len(found) > 1 and ECHO not in self.settings.providers and found.pop(ECHO, None) is not None:
            skipped[ECHO] = "it has no model; name it in CALLBOARD_PROVIDERS to offer it beside the others"
        new = found != self.inventory.found
        self.inventory = Inventory(found, skipped, fresh.path)
        return new

    def replaced(self, provider: str) -> bool:
        """Whether the CLI's file is not the one that was looked at: updated in place, or gone with its version."""
        known = self.inventory.found.get(provider)
        return known is not None and file_identity(known.executable) != known.identity


async def keep_discovering(providers: Providers, registration: Registration) -> None:
    """Look every ten minutes, until cancelled."""
    while True:
        await asyncio.sleep(EVERY_S)
        await look_and_tell(providers, registration)


async def look_and_tell(providers: Providers, registration: Registration) -> None:
    """Look again, and register when something is new."""
    if await providers.look():
        log.info("what this machine offers has changed")
        await try_to_register(registration)
