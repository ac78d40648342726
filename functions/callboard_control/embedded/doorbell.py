"""The doorbell within one process: a claim that waits is woken by the enqueue's own thread.

Each runtime has a count of rings. `listen` notes the counts before the claim looks for work, and `wait` returns at once
when one has moved since: a ring between the look and the wait is never lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from contextlib import nullcontext
from threading import Event, Lock

from callboard_control.embedded.calls import current_call


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

    def ring(self, runtime_ids: Collection[str]) -> None:
        with self._lock:
            for runtime_id in runtime_ids:
                self._rings[runtime_id] += 1
            woken = {event for runtime_id in runtime_ids for event in self._waiting.get(runtime_id, ())}
        for event in woken:
            event.set()

    def listen(self, runtime_ids: Collection[str]) -> object:
        with self._lock:
            return self._mark(runtime_ids)

    def wait(self, runtime_ids: Collection[str], mark: object, timeout: float) -> bool:
        """False when nobody will look again: the gateway drains, or the caller of this request hung up."""
        call = current_call.get()
        event = Event()
        with self._lock:
            if not self._closed and self._mark(runtime_ids) == mark:
                for runtime_id in runtime_ids:
                    self._waiting[runtime_id].add(event)
            else:
                event.set()
        try:
            with call.on_abandon(event.set) if call else nullcontext():
                event.wait(timeout)
        finally:
            self._leave(runtime_ids, event)
        return not self._closed and not (call and call.abandoned)

    def close(self) -> None:
        """Wake every waiting call with False, and refuse to let another wait."""
        with self._lock:
            self._closed = True
            woken = {event for events in self._waiting.values() for event in events}
        for event in woken:
            event.set()

    def _mark(self, runtime_ids: Collection[str]) -> tuple[int, ...]:
        # `get`, not the default: a caller may ask about runtimes that do not exist, and they must not pile up.
        return tuple(self._rings.get(runtime_id, 0) for runtime_id in runtime_ids)

    def _leave(self, runtime_ids: Collection[str], event: Event) -> None:
        with self._lock:
            for runtime_id in runtime_ids:
                events = self._waiting.get(runtime_id)
                if events is not None:
                    events.discard(event)
                    if not events:
                        del self._waiting[runtime_id]
