"""How many tasks this machine runs at once: a pool of numbered places, taken before a claim and not after it.

A task claimed without a place would sit in `dispatched` until its lease ran out. The number is stable for the whole
run and reaches the agent as MULTICA_TASK_SLOT, so that people can tie it to a GPU or a port range.
"""

from __future__ import annotations

import asyncio
import heapq


class Slots:
    def __init__(self, size: int) -> None:
        self.size = size
        self._free = list(range(size))
        self._some_free = asyncio.Event()
        self._some_free.set()

    @property
    def taken(self) -> int:
        return self.size - len(self._free)

    async def take_all_free(self, at_most: int) -> list[int]:
        """Wait until a place is free, then take every free one up to `at_most`, lowest first."""
        await self._some_free.wait()
        taken = [heapq.heappop(self._free) for _ in range(min(at_most, len(self._free)))]
        if not self._free:
            self._some_free.clear()
        return taken

    def give_back(self, slot: int) -> None:
        heapq.heappush(self._free, slot)
        self._some_free.set()
