"""A composed gateway: its data folder, its front door, and what has to be stopped in which order."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from callboard_control.embedded.doorbell import LocalDoorbell
from callboard_control.embedded.folder import DataFolder
from callboard_control.embedded.front import Front
from callboard_control.embedded.scheduler import Scheduler

SWEEP_END_S = 5.0

log = logging.getLogger("callboard.gateway")


class Gateway:
    """`front` is the ASGI application. `url` is known once it listens. `somebody_was_here`: there has been a login."""

    def __init__(
        self,
        folder: DataFolder,
        front: Front,
        doorbell: LocalDoorbell,
        *,
        scheduler: Scheduler | None = None,
        close_store: Callable[[], None] = lambda: None,
        somebody_was_here: bool = False,
    ) -> None:
        self.url = ""
        self.front = front
        self._folder = folder
        self._doorbell = doorbell
        self._scheduler = scheduler
        self._close_store = close_store
        self.somebody_was_here = somebody_was_here
        front.metrics.gauge("claims_waiting", "Claims held until work arrives.", lambda: {(): float(doorbell.waiting)})

    @property
    def data(self) -> Path:
        return self._folder.path

    @property
    def first_start(self) -> bool:
        return self._folder.first_start

    @property
    def bootstrap_secret_file(self) -> Path | None:
        """Where the secret of the first login, or of the way back in, is; None once it has been used."""
        return self._folder.secret_file if self._folder.bootstrap_secret() else None

    def start(self) -> None:
        if self._scheduler:
            self._scheduler.start()

    def drain(self) -> None:
        """Held polls are answered empty at once; running requests go on. May be called more than once."""
        self._doorbell.close()

    def close(self) -> None:
        """After the last request: ends the sweep, closes the store, gives the folder free."""
        if self._scheduler and not self._scheduler.stop(SWEEP_END_S):
            log.warning("the minute's sweep did not end within %.0f s", SWEEP_END_S)
        self._close_store()
        self._folder.close()
