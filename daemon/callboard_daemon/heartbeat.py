"""Say "still here" for all runtimes in one request, and register again when the server has forgotten one."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Final

from callboard_daemon.errors import ControlError, NotAuthorised, NotFound, NotLoggedIn, SettingError
from callboard_daemon.register import Registration
from callboard_wire.bodies import HEARTBEAT_EVERY_S, HeartbeatRequest

log = logging.getLogger(__name__)

FIRST_S: Final = 3.0
"""The first beat comes soon: a runtime that was forgotten while we were away is noticed at once."""


async def keep_beating(registration: Registration) -> None:
    """Beat until cancelled. The server says how soon it wants the next one."""
    pause = FIRST_S
    while True:
        # Spread out, or a thousand daemons started by one power-on beat in one instant for ever.
        await asyncio.sleep(pause * random.uniform(0.7, 1.0))
        pause = HEARTBEAT_EVERY_S
        try:
            body = HeartbeatRequest(runtime_ids=sorted(registration.runtimes))
            answer = await registration.control.heartbeat(body)
            if answer.runtime_gone or answer.gone_runtime_ids:
                log.warning("the server has forgotten %s: registering again", answer.gone_runtime_ids or "a runtime")
                await try_to_register(registration)
            elif answer.profiles_version != registration.profiles_version:
                log.info("the workspace's runtime profiles have changed: registering again")
                await try_to_register(registration)
            pause = min(max(answer.next_heartbeat_s, 1.0), 120.0)
        except (NotAuthorised, NotFound) as error:
            log.warning("heartbeat refused (%s): registering again", error)
            await try_to_register(registration)
        except ControlError as error:
            log.info("heartbeat not answered: %s", error)


async def try_to_register(registration: Registration) -> bool:
    """Register; False, and a log line that says what to do, when that does not work now."""
    try:
        await registration.register()
    except (ControlError, NotLoggedIn, SettingError) as error:
        log.warning("cannot register: %s %s", error, error.hint)
        return False
    return True
