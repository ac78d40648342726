"""An engine's injector that lets something happen in the middle: right before a chosen request takes effect.

    world = World(faults=meanwhile)
    meanwhile.before("TransactWriteItems", lambda: held.renew())
    world.tick()                      # the daemon's renewal slips in between the sweep's look and its write

A race told as a straight line, on the real engine and through the real handlers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from callboard_control.embedded.engine.faults import Fault

Request = Mapping[str, Any]


class Meanwhile:
    """Implements the engine's `Injector`. `asked` counts the requests by operation."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self._waiting: list[tuple[str, Callable[[Request], bool], Callable[[], Fault | None]]] = []

    def before(
        self, operation: str, act: Callable[[], Any], *, when: Callable[[Request], bool] = lambda request: True
    ) -> None:
        """Call `act` once, before the next `operation` whose request fits `when`. A `Fault` it returns befalls it."""

        def acting() -> Fault | None:
            returned = act()
            return returned if isinstance(returned, Fault) else None

        self._waiting.append((operation, when, acting))

    def fault(self, operation: str, request: Request) -> Fault | None:
        self.asked[operation] += 1
        for entry in self._waiting:
            wanted, when, act = entry
            if wanted == operation and when(request):
                self._waiting.remove(entry)  # first, so that what `act` asks for does not meet it again
                return act()
        return None

    def wrote(self, table: str, index: str) -> None:
        """Nothing lags here."""

    def index_lag(self, table: str, index: str, ages: Sequence[float]) -> int:
        return 0
