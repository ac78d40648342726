"""Threads that run handlers. Long polls have a lane of their own: however many wait, the others' lane stays free.

Not `concurrent.futures.ThreadPoolExecutor`: its threads are joined at interpreter exit, so one handler that never
returns would keep a stopped gateway alive, and its queue has no bound.
"""

from __future__ import annotations

import contextvars
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from threading import Condition, Thread
from typing import TypeVar

T = TypeVar("T")


class LaneFull(RuntimeError):
    """As many calls wait for a thread as the lane allows."""


class Lane:
    """At most `threads` calls at once; at most `backlog` more wait for a thread."""

    def __init__(self, name: str, threads: int, backlog: int = 0) -> None:
        self.name = name
        self._limit = threads
        self._backlog = backlog
        self._work: deque[Callable[[], None]] = deque()
        self._changed = Condition()
        self._threads = 0
        self._idle = 0
        self._busy = 0

    @property
    def busy(self) -> int:
        return self._busy

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Run `call` in a thread of this lane, within a copy of the current context.

        Raises:
            LaneFull: no thread is free and the backlog is full.
        """
        future: Future[T] = Future()
        context = contextvars.copy_context()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = context.run(call)
            except BaseException as failure:  # noqa: BLE001 - carried to whoever awaits the future
                future.set_exception(failure)
            else:
                future.set_result(result)

        with self._changed:
            free = self._limit - self._busy
            if len(self._work) >= free + self._backlog:
                raise LaneFull(f"the {self.name} lane is full")
            self._work.append(work)
            if self._idle >= len(self._work) or self._threads == self._limit:
                self._changed.notify()
            else:
                self._threads += 1
                Thread(target=self._run, name=f"{self.name}-{self._threads}", daemon=True).start()
        return future

    def _run(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                while not self._work:
                    self._changed.wait()
                self._idle -= 1
                self._busy += 1
                work = self._work.popleft()
            try:
                work()
            finally:
                del work  # an idle thread must not keep the last call's event and answer alive
                with self._changed:
                    self._busy -= 1
