"""Hop 4: take tasks from the server, never more than there are free places.

A claim is held by the server until there is work (long poll). Its id is made here and repeated until an answer
arrives: if the first answer was lost, the same tasks come back and no others are taken.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
import uuid
from collections.abc import Callable
from typing import Final

from callboard_daemon.errors import ControlError, NotAuthorised, NotFound
from callboard_daemon.heartbeat import try_to_register
from callboard_daemon.metrics import Metrics
from callboard_daemon.register import Registration
from callboard_daemon.retry import pause
from callboard_daemon.slots import Slots
from callboard_wire.bodies import MAX_BATCH_CLAIM, MAX_WAIT_S, ClaimedTask, ClaimRequest, ClaimResponse

log = logging.getLogger(__name__)

QUICK_S: Final = 1.0
"""An empty answer sooner than this was not held. Claims are then at least so far apart, whatever the server says."""
REFUSED_PAUSE_S: Final = 15.0


async def keep_claiming(
    registration: Registration,
    slots: Slots,
    wait: float,
    metrics: Metrics,
    take: Callable[[ClaimedTask, int], None],
) -> None:
    """Claim until cancelled; `take` gets each task with its slot and must give the slot back in the end."""
    while True:
        taken = await slots.take_all_free(MAX_BATCH_CLAIM)
        unused = list(taken)
        try:
            began = time.monotonic()
            answer = await _answered(registration, len(taken), min(wait, MAX_WAIT_S), metrics)
            for task in answer.tasks[: len(taken)]:
                take(task, unused.pop(0))
            if len(answer.tasks) > len(taken):
                log.error("the server gave %d tasks for %d places; the rest is left", len(answer.tasks), len(taken))
        finally:
            for slot in unused:
                slots.give_back(slot)
        metrics.add("callboard_daemon_claims_total", f'outcome="{"tasks" if answer.tasks else "empty"}"')
        await asyncio.sleep(_rest(answer, time.monotonic() - began))


async def _answered(registration: Registration, places: int, wait: float, metrics: Metrics) -> ClaimResponse:
    """The answer to one claim, asked until there is one."""
    claim_id = uuid.uuid4().hex
    attempt = 0
    while True:
        registration.grown.clear()
        body = ClaimRequest(
            daemon_id=registration.daemon_id,
            runtime_ids=sorted(registration.runtimes),
            max_tasks=places,
            wait=wait,
            claim_id=claim_id,
        )
        attempt += 1
        try:
            answer = await _held(registration, body)
            if answer is not None:
                return answer
            continue
        except (NotAuthorised, NotFound) as error:
            log.warning("claim refused (%s): registering again", error)
            rest = 0.0 if attempt == 1 and await try_to_register(registration) else REFUSED_PAUSE_S
        except ControlError as error:
            metrics.add("callboard_daemon_control_errors_total", f'kind="{type(error).__name__}"')
            log.log(logging.WARNING if attempt == 1 else logging.INFO, "claim not answered: %s", error)
            rest = pause(attempt, error) if error.transient else REFUSED_PAUSE_S
        await asyncio.sleep(rest)


async def _held(registration: Registration, body: ClaimRequest) -> ClaimResponse | None:
    """The answer, or None when this machine has got more runtimes meanwhile: they must not wait until the server lets
    go. To the server that is an answer lost on the way, and what it may have handed out comes with the next one."""
    asking = asyncio.create_task(registration.control.claim(body))
    grown = asyncio.create_task(registration.grown.wait())
    try:
        await asyncio.wait([asking, grown], return_when=asyncio.FIRST_COMPLETED)
        return await asking if asking.done() else None
    finally:
        asking.cancel()
        grown.cancel()
        await asyncio.wait([asking, grown])


def _rest(answer: ClaimResponse, took: float) -> float:
    """Seconds before the next claim."""
    if answer.tasks:
        return 0.0
    floor = 0.0 if took >= QUICK_S else QUICK_S
    return max(answer.retry_after_s, floor * random.uniform(0.8, 1.2))
