"""From the provider's last word to the moment its process is no longer waited for. Nothing polls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from callboard_adapters.base import TurnEnded


class LastWord:
    """`let_go` is called when the CLI may leave (its stdin is closed then), `expired` when it has not left in time.

    `over` is set while the turn is over; `in_time` says whether it ended before anything stopped the run.
    """

    def __init__(self, let_go: Callable[[], None], expired: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._let_go = let_go
        self._expired = expired
        self._said = TurnEnded()
        self._quiet: asyncio.TimerHandle | None = None
        self._grace: asyncio.TimerHandle | None = None
        self.over = asyncio.Event()
        self.in_time = False

    def ended(self, output: TurnEnded, *, in_time: bool) -> None:
        self.over.set()
        self.in_time = self.in_time or in_time
        self._said = output
        if output.quiet <= 0:
            self._leave()
            return
        self._start_grace(output.grace, self._leave)
        self._wait_for_quiet()

    def resumed(self) -> None:
        """Another turn has begun: take the end back."""
        self.over.clear()
        self.in_time = False
        self.stop()

    def heard(self) -> None:
        """Output came: where quiet is waited for, the wait begins anew."""
        if self._quiet is not None:
            self._wait_for_quiet()

    def expire(self, seconds: float, then: Callable[[], None]) -> None:
        """Call `then` in `seconds`, unless a grace is already running."""
        if self._grace is None:
            self._start_grace(seconds, then)

    def stop(self) -> None:
        """No timer runs any more."""
        for handle in (self._grace, self._quiet):
            if handle is not None:
                handle.cancel()
        self._grace = self._quiet = None

    def _leave(self) -> None:
        if self._quiet is not None:
            self._quiet.cancel()
            self._quiet = None
        self._let_go()
        self._start_grace(self._said.grace, self._expired)

    def _wait_for_quiet(self) -> None:
        if self._quiet is not None:
            self._quiet.cancel()
        self._quiet = self._loop.call_later(self._said.quiet, self._leave)

    def _start_grace(self, seconds: float, then: Callable[[], None]) -> None:
        if self._grace is not None:
            self._grace.cancel()
        self._grace = self._loop.call_later(seconds, then)
