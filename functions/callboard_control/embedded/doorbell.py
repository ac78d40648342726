"""The doorbell within one process: a claim that waits is woken by the enqueue's own thread.

Each runtime has a count of rings. `sample` notes the counts before the claim looks for work, and `wait` returns at once
when one has moved since: a ring between the look and the wait is never lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import dataclass
from threading import Event, Lock

from callboard_control.embedded.calls import current_call


@dataclass(frozen=True, slots=True)
class Sample:
    """How often each of these runtimes had been rung."""

    runtime_ids: tuple[str, ...]
    rings: tuple[int, ...]


class LocalDoorbell:
    """Implements `callboard_control.ports.Doorbell`."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._rings: dict[str, int] = defaultdict(int)
        self._waiting: dict[str, set[Event]] = defaultdict(set)
        self._closed = False

    @property
    def waiting(self) -> int:
        """How many calls wait now."""
        with self._lock:
            return len(set().union(*self._waiting.values())) if self._waiting else 0

    def ring(self, *runtime_ids: str) -> None:
        with self._lock:
            for runtime_id in runtime_ids:
                self._rings[runtime_id] += 1
            woken = {event for runtime_id in runtime_ids for event in self._waiting.get(runtime_id, ())}
        for event in woken:
            event.set()

    def sample(self, runtime_ids: Collection[str], /) -> Sample:
        ids = tuple(runtime_ids)
        with self._lock:
            return Sample(ids, self._count(ids))

    def wait(self, seen: Sample, timeout: float, /) -> bool:
        """True when one was rung since `seen`; False when `timeout` seconds have passed, the gateway drains, or the
        caller of this request hung up."""
        call = current_call.get()
        event = Event()
        with self._lock:
            if not self._closed and self._count(seen.runtime_ids) == seen.rings:
                for runtime_id in seen.runtime_ids:
                    self._waiting[runtime_id].add(event)
            else:
                event.set()
        try:
            with call.on_abandon(event.set) if call else nullcontext():
                rung = event.wait(timeout)
        finally:
            self._leave(seen.runtime_ids, event)
        return rung and not self._closed and not (call and call.abandoned)

    def close(self) -> None:
        """Wake every waiting call with False, and refuse to let another wait."""
        with self._lock:
            self._closed = True
            woken = {event for events in self._waiting.values() for event in events}
        for event in woken:
            event.set()

    def _count(self, runtime_ids: tuple[str, ...]) -> tuple[int, ...]:
        # `get`, not the default: a caller may ask about runtimes that do not exist, and they must not pile up.
        return tuple(self._rings.get(runtime_id, 0) for runtime_id in runtime_ids)

    def _leave(self, runtime_ids: tuple[str, ...], event: Event) -> None:
        with self._lock:
            for runtime_id in runtime_ids:
                events = self._waiting.get(runtime_id)
                if events is not None:
                    events.discard(event)
                    if not events:
                        del self._waiting[runtime_id]
