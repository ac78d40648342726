"""The turn: of the threads that serve calls in this process, one computes at a time; a wait gives the turn up.

Why: SQLite lets go of the interpreter's lock for each of a call's fifty statements. With several threads and cores the
lock then wanders from core to core, and a task's life took 16 ms of CPU instead of 8 with four clients (measured; the
same process held to one core took 8). Nothing is lost by the turn, since only one thread can hold that lock anyway.

It goes to those who wait in the order they came. Whoever reads the store having had it for `SLICE_S` lets the others go
first, so a call that reads a whole table does not hold up the rest. It is a courtesy and no lock: one who has had it
for `PATIENCE_S` on end, stuck in something nobody foresaw, is not waited for. A thread that never took it is not
concerned.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

SLICE_S: Final = 0.01
"""How long a thread computes before others may go first: a call's length, mostly."""
PATIENCE_S: Final = 0.1

_lock = threading.Lock()
_queue: deque[threading.Lock] = deque()
_holder: threading.Lock | None = None
"""The ticket of the thread that has the turn. A ticket in the queue is locked; to hand it the turn is to release it."""


class _Mine(threading.local):
    ticket: threading.Lock | None = None
    """While this thread has the turn, or had it and lost it by taking too long."""
    since: float = 0.0


_mine = _Mine()


@contextmanager
def taken() -> Iterator[None]:
    """This thread's call runs within the block, when its turn comes. Not for a thread that has the turn."""
    _acquire()
    try:
        yield
    finally:
        _release()


@contextmanager
def waiting() -> Iterator[None]:
    """Around what waits (a lock, the disk, a bell): others have the turn meanwhile."""
    if _mine.ticket is None:
        yield
        return
    _release()
    try:
        yield
    finally:
        _acquire()


def pause() -> None:
    """Let those who wait go first, if this thread has had the turn for long."""
    if _queue and _mine.ticket is not None and time.monotonic() - _mine.since > SLICE_S:
        _release()
        _acquire()


def sleep(seconds: float) -> None:
    """`time.sleep`, with the turn given up."""
    with waiting():
        time.sleep(seconds)


def _acquire() -> None:
    global _holder
    ticket = threading.Lock()
    with _lock:
        before = _holder
        if before is None:
            _holder = ticket
        else:
            ticket.acquire()
            _queue.append(ticket)
    if before is not None:
        try:
            _wait(ticket, before)
        except BaseException:  # an interrupt: nobody may wait for this thread
            _give_up(ticket)
            raise
    _mine.ticket, _mine.since = ticket, time.monotonic()


def _wait(ticket: threading.Lock, before: threading.Lock | None) -> None:
    global _holder
    while not ticket.acquire(timeout=PATIENCE_S):
        with _lock:
            if _holder is before:
                _queue.remove(ticket)
                _holder = ticket
            if _holder is ticket:
                return
            before = _holder


def _release() -> None:
    ticket, _mine.ticket = _mine.ticket, None
    if ticket is not None:
        _give_up(ticket)


def _give_up(ticket: threading.Lock) -> None:
    global _holder
    with _lock:
        if ticket in _queue:
            _queue.remove(ticket)
        elif _holder is ticket:
            _holder = _queue.popleft() if _queue else None
            if _holder is not None:
                _holder.release()
