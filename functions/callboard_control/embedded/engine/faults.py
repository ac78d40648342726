"""What AWS does now and then and emulators do not, on demand and repeatably.

Pass an injector to the engine. It is asked once a request, and once an index query; the same seed or script gives the
same faults. `None` (the default) costs nothing.
"""

from __future__ import annotations

import enum
import random
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol


class Fault(enum.Enum):
    """What may happen to one request."""

    THROUGHPUT = "ProvisionedThroughputExceededException"
    THROTTLING = "ThrottlingException"
    CONFLICT = "TransactionConflictException"  # TransactionCanceledException for a transaction
    UNAVAILABLE = "InternalServerError"  # before any effect
    LOST_REQUEST = "lost request"  # no effect, no answer
    LOST_RESPONSE = "lost response"  # the effect, but no answer
    UNPROCESSED = "unprocessed"  # a batch does only its first half


class Injector(Protocol):
    """What the engine asks and tells."""

    def fault(self, operation: str, request: Mapping[str, Any]) -> Fault | None:
        """The fault of this request, if any. Asked once a request, from the caller's thread."""

    def wrote(self, table: str, index: str) -> None:
        """A committed write changed this index. Told in commit order."""

    def index_lag(self, table: str, index: str, ages: Sequence[float]) -> int:
        """How many of the latest writes this index query must not see yet.

        `ages` are the seconds (of the engine's clock) since each write that changed the index, oldest first, the latest
        1,000 at most.
        """


class Script:
    """Faults by the script: `faults` are given to the requests as they come (None lets one pass).

    With `operations`, only those operations take from the script. Index lag is held by hand: from `hold_indexes` on
    index queries see no new write, until `release_indexes`.
    """

    def __init__(self, faults: Iterable[Fault | None] = (), *, operations: Iterable[str] | None = None) -> None:
        self._faults = list(faults)
        self._operations = None if operations is None else frozenset(operations)
        self._lock = threading.Lock()
        self._held = False
        self._hidden: Counter[tuple[str, str]] = Counter()

    def fault(self, operation: str, request: Mapping[str, Any]) -> Fault | None:
        if self._operations is not None and operation not in self._operations:
            return None
        with self._lock:
            return self._faults.pop(0) if self._faults else None

    def add(self, *faults: Fault | None) -> None:
        """Append to the script."""
        with self._lock:
            self._faults.extend(faults)

    def wrote(self, table: str, index: str) -> None:
        with self._lock:
            if self._held:
                self._hidden[table, index] += 1

    def index_lag(self, table: str, index: str, ages: Sequence[float]) -> int:
        with self._lock:
            return self._hidden[table, index]

    def hold_indexes(self) -> None:
        """Freeze what index queries see."""
        with self._lock:
            self._held = True

    def release_indexes(self, writes: int | None = None) -> None:
        """Let every index show its oldest hidden `writes`, or all, and from then on each write at once."""
        with self._lock:
            if writes is None:
                self._held = False
                self._hidden.clear()
            else:
                self._hidden -= Counter(dict.fromkeys(self._hidden, writes))


class Seeded:
    """Faults by chance, the same for the same `seed`.

    `rates` maps each fault to its probability a request. An index change becomes visible after a delay of up to `lag`
    seconds of the engine's clock, drawn per query.
    """

    def __init__(self, seed: int, rates: Mapping[Fault, float], *, lag: float = 0.0) -> None:
        self._random = random.Random(seed)
        self._rates = dict(rates)
        self._lag = lag
        self._lock = threading.Lock()

    def fault(self, operation: str, request: Mapping[str, Any]) -> Fault | None:
        with self._lock:
            drawn = self._random.random()
        for fault, rate in self._rates.items():
            if drawn < rate:
                return fault
            drawn -= rate
        return None

    def wrote(self, table: str, index: str) -> None:
        """Nothing to note: the lag goes by age."""

    def index_lag(self, table: str, index: str, ages: Sequence[float]) -> int:
        if not self._lag:
            return 0
        with self._lock:
            delay = self._random.random() * self._lag
        return sum(age < delay for age in ages)
