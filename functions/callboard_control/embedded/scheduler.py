"""EventBridge Scheduler for one machine: calls the minute's sweep with the event the cloud's schedule sends."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from threading import Event, Thread
from typing import Any

from callboard_control.embedded.calls import Call, LocalContext
from callboard_control.embedded.events import ACCOUNT_ID
from callboard_control.embedded.metrics import Metrics
from callboard_control.embedded.routes import Handler

EVERY_S = 60.0
SLEPT_S = 30.0
"""A pause longer than asked for by this much was not a pause of ours: the machine slept, or its clock jumped."""
TICK_TIMEOUT_S = 55.0

log = logging.getLogger("callboard.scheduler")


def tick_event(now: datetime) -> dict[str, Any]:
    """What EventBridge Scheduler hands to a Lambda whose schedule gives no input of its own."""
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": "Scheduled Event",
        "source": "aws.scheduler",
        "account": ACCOUNT_ID,
        "time": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": "us-east-1",
        "resources": [f"arn:aws:scheduler:us-east-1:{ACCOUNT_ID}:schedule/default/callboard-tick"],
        "detail": "{}",
    }


class Scheduler:
    """Runs `handler` every `every_s` seconds in a thread of its own: never twice at once, and whatever it raises.

    The first run comes after one pause, and a pause that the machine slept through is followed by another. A daemon on
    the same machine was away for just as long: it needs the time to say that it is back, or the sweep would take its
    running tasks for lost (the cloud's schedule has no such moments).
    """

    def __init__(
        self,
        handler: Handler,
        metrics: Metrics,
        *,
        every_s: float = EVERY_S,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._handler = handler
        self._metrics = metrics
        self._every_s = every_s
        self._clock = clock
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="scheduler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """No run begins after this. True when the running one ended within `timeout_s`."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        skipped = False
        began = self._clock()
        while not self._stopped.wait(self._every_s):
            paused_s = (self._clock() - began).total_seconds()
            # Not twice in a row: a machine that is merely slow must still be swept.
            skipped = not skipped and abs(paused_s - self._every_s) > SLEPT_S
            if skipped:
                log.info("no sweep now: %.0f s have passed instead of %.0f", paused_s, self._every_s)
                self._metrics.tick("skipped")
            else:
                self._tick()
            began = self._clock()

    def _tick(self) -> None:
        event = tick_event(self._clock())
        try:
            self._handler(event, LocalContext("callboard-tick", Call(event["id"], TICK_TIMEOUT_S)))
        except Exception:  # a failed sweep is repeated by the next one; ending the thread would end all of them
            log.exception("the minute's sweep failed")
            self._metrics.tick("failed")
        else:
            self._metrics.tick("ok")
