"""Notice that a CLI was installed, updated or moved while the daemon runs, and tell the server."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from callboard_daemon.heartbeat import try_to_register
from callboard_daemon.providers import Providers
from callboard_daemon.register import Registration

log = logging.getLogger(__name__)

EVERY_S: Final = 600.0


async def keep_discovering(providers: Providers, registration: Registration, asked: asyncio.Event) -> None:
    """Look every ten minutes, and at once when somebody on this machine has `asked`, who has changed something here or
    at the server; until cancelled."""
    while True:
        try:
            async with asyncio.timeout(EVERY_S):
                await asked.wait()
        except TimeoutError:
            await look_and_tell(providers, registration)
            continue
        asked.clear()
        await providers.look()
        await try_to_register(registration)


async def look_and_tell(providers: Providers, registration: Registration) -> None:
    """Look again, and register when something is new."""
    if await providers.look():
        log.info("what this machine offers has changed")
        await try_to_register(registration)
