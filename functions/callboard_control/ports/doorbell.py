"""The doorbell: a hint that there may be work. It carries no task and may be lost, doubled or late."""

from __future__ import annotations

import random
import time
from collections.abc import Collection
from typing import Any, Protocol


class Doorbell(Protocol):
    """`sample` before looking for work, look, then `wait` on the sample: a ring between the two is not lost."""

    def ring(self, *runtime_ids: str) -> None:
        """Wake whoever waits for one of these. After the commit, never before it."""
        ...

    def sample(self, runtime_ids: Collection[str], /) -> Any:
        """A mark of how often these were rung so far."""
        ...

    def wait(self, seen: Any, timeout: float, /) -> bool:
        """Block until it is worth looking again (True), or until `timeout` seconds have passed or nobody will take the
        answer any more (False)."""
        ...


class SilentDoorbell:
    """Where no bell reaches a held call (a Lambda): look again after half a second, jittered so that daemons spread."""

    def ring(self, *runtime_ids: str) -> None:
        pass

    def sample(self, runtime_ids: Collection[str], /) -> Any:
        return None

    def wait(self, seen: Any, timeout: float, /) -> bool:
        pause = random.uniform(0.4, 0.6)
        time.sleep(min(timeout, pause))
        return timeout > pause
