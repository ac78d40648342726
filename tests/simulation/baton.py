"""One thread awake at a time, and a seeded choice who goes on at every store operation.

A handler runs in a thread of its own. Before each operation the engine asks its injector for a fault, in the caller's
thread: there the thread stops until the scheduler picks it again. So what a handler read may be old when it writes, as
on AWS, and the same seed gives the same interleaving.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import botocore.endpoint

from callboard_control.embedded.engine.faults import Fault
from callboard_control.store import table

WRITES = frozenset({"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems", "BatchWriteItem"})


class Crashed(BaseException):
    """The process a handler ran in is gone; nothing may catch it."""


class Call:
    """One request being handled. `answer` is there once it is done; `steps` counts its store operations."""

    def __init__(self, name: str, work: Callable[[], Any]) -> None:
        self.name = name
        self.work = work
        self.answer: Any = None
        self.failure: BaseException | None = None
        self.done = False
        self.not_before = 0
        self.wrote: Mapping[str, Any] | None = None
        self.pending: tuple[str, Mapping[str, Any]] | None = None
        self.crashed = False
        self.turn = threading.Semaphore(0)


class Baton:
    """The scheduler's side, and the engine's injector."""

    def __init__(self, rng: random.Random, rates: Mapping[Fault, float], lag_writes: int) -> None:
        self._rng = rng
        self.rates = dict(rates)
        self.lag_writes = lag_writes
        self.calm = False
        self._back = threading.Semaphore(0)
        self._here = threading.local()

    # ── scheduler ────────────────────────────────────────────────────────────

    def start(self, call: Call) -> None:
        threading.Thread(target=self._run, args=(call,), daemon=True).start()

    def resume(self, call: Call) -> None:
        """Let `call` run up to its next store operation or its end."""
        call.wrote = None
        call.turn.release()
        self._back.acquire()

    def crash(self, call: Call) -> None:
        if not call.done:
            call.crashed = True
            self.resume(call)

    def _run(self, call: Call) -> None:
        self._here.call = call
        call.turn.acquire()
        try:
            if not call.crashed:
                call.answer = call.work()
        except BaseException as e:  # noqa: BLE001  # whatever it was, the scheduler reports it as a violation
            call.failure = e
        call.done = True
        self._note_write(call)
        self._back.release()

    def _pause(self, call: Call) -> None:
        self._back.release()
        call.turn.acquire()
        if call.crashed:
            raise Crashed

    @staticmethod
    def _note_write(call: Call) -> None:
        if call.pending is not None and call.pending[0] in WRITES:
            call.wrote = call.pending[1]
        call.pending = None

    def sleep(self, seconds: float) -> None:
        """What retries wait with: the others' turn instead of time."""
        call = getattr(self._here, "call", None)
        if call is not None:
            self._note_write(call)
            self._pause(call)

    # ── injector ─────────────────────────────────────────────────────────────

    def fault(self, operation: str, request: Mapping[str, Any]) -> Fault | None:
        call: Call | None = getattr(self._here, "call", None)
        if call is None:
            return None  # the scheduler itself, looking
        self._note_write(call)
        self._pause(call)
        call.pending = (operation, request)
        return None if self.calm else self._drawn(operation)

    def _drawn(self, operation: str) -> Fault | None:
        drawn = self._rng.random()
        for fault, rate in self.rates.items():
            if drawn < rate:
                return fault if fault is not Fault.CONFLICT or operation in WRITES else None
            drawn -= rate
        return None

    def wrote(self, table: str, index: str) -> None:
        pass

    def index_lag(self, table: str, index: str, ages: Sequence[float]) -> int:
        if self.calm or not self.lag_writes or getattr(self._here, "call", None) is None:
            return 0
        return min(len(ages), self._rng.randrange(self.lag_writes + 1))


@contextmanager
def virtual_sleep(baton: Baton) -> Any:
    """Botocore's and the store's own retries wait on the baton while this lasts."""

    class _Time:
        sleep = staticmethod(baton.sleep)

    real, own = botocore.endpoint.time, table.use_sleep(baton.sleep)
    botocore.endpoint.time = _Time
    try:
        yield
    finally:
        botocore.endpoint.time = real
        table.use_sleep(own)
