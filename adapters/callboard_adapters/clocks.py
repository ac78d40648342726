"""The timers of one process: one for all watchdogs, one for each name an adapter asked for. Nothing polls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from callboard_adapters.messages import Watchdog
from callboard_adapters.watchdogs import Watchdogs


class Clocks:
    """`ran_out` hears of a watchdog whose time is up, `tick` of a named timer's. Both on the event loop."""

    def __init__(self, watchdogs: Watchdogs, ran_out: Callable[[Watchdog], None], tick: Callable[[str], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._watchdogs = watchdogs
        self._ran_out = ran_out
        self._tick = tick
        self._watch: asyncio.TimerHandle | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def arm(self) -> None:
        """Wake up when the next watchdog may run out. Life only moves them back, so one timer is enough."""
        upcoming = self._watchdogs.next()
        if upcoming is None:
            return
        if self._watch is None or upcoming[0] < self._watch.when():
            if self._watch is not None:
                self._watch.cancel()
            self._watch = self._loop.call_at(upcoming[0], self._check)

    def set_timer(self, name: str, seconds: float | None) -> None:
        """Start, move or (None) take back a named timer."""
        old = self._timers.pop(name, None)
        if old is not None:
            old.cancel()
        if seconds is not None:
            self._timers[name] = self._loop.call_later(seconds, self._ring, name)

    def stop(self) -> None:
        for handle in (self._watch, *self._timers.values()):
            if handle is not None:
                handle.cancel()
        self._watch = None
        self._timers.clear()

    def _ring(self, name: str) -> None:
        self._timers.pop(name, None)
        self._tick(name)

    def _check(self) -> None:
        self._watch = None
        upcoming = self._watchdogs.next()
        if upcoming is None:
            return
        at, dog = upcoming
        if at <= self._loop.time():
            self._ran_out(dog)
        else:
            self._watch = self._loop.call_at(at, self._check)
