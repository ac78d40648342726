"""Why a run is to end before its agent is done: said by whoever learns of it, acted on in one place."""

from __future__ import annotations

import asyncio
from enum import StrEnum


class StopCause(StrEnum):
    CANCELLED = "cancelled"  # somebody asked the server for it: the end is acknowledged
    DRAIN = "drain"  # the daemon ends: the task is handed back
    LOST = "lost"  # the task is not ours any more: nothing more is said


class StopSignal:
    """The first cause counts, but for `LOST`, which silences every other."""

    def __init__(self) -> None:
        self.cause: StopCause | None = None
        self._asked = asyncio.Event()

    def ask(self, cause: StopCause) -> None:
        if self.cause is None or cause is StopCause.LOST:
            self.cause = cause
        self._asked.set()

    async def wait(self) -> None:
        await self._asked.wait()
