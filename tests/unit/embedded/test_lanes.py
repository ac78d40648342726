"""The threads that run handlers."""

from __future__ import annotations

import contextvars
import threading
from concurrent.futures import Future

import pytest

from callboard_control.embedded.lanes import Lane, LaneFull


def test_no_more_than_the_limit_run_at_once_and_no_more_than_the_backlog_wait() -> None:
    lane = Lane("test", threads=2, backlog=1)
    gate = threading.Event()
    running = threading.Semaphore(0)

    def block() -> int:
        running.release()
        gate.wait(20)
        return threading.get_ident()

    futures = [lane.submit(block) for _ in range(3)]
    assert running.acquire(timeout=10)
    assert running.acquire(timeout=10)
    assert not running.acquire(timeout=0.1), "the third waits for a thread"
    with pytest.raises(LaneFull):
        lane.submit(block)
    gate.set()
    assert len({future.result(10) for future in futures}) == 2


def test_idle_threads_are_used_again() -> None:
    lane = Lane("test", threads=50)
    threads = {lane.submit(threading.get_ident).result(10) for _ in range(50)}
    assert len(threads) < 10


def test_a_failure_reaches_whoever_waits_and_the_thread_goes_on() -> None:
    lane = Lane("test", threads=1, backlog=1)
    with pytest.raises(ZeroDivisionError):
        lane.submit(lambda: 1 // 0).result(10)
    assert lane.submit(lambda: "next").result(10) == "next"


def test_a_cancelled_call_is_not_run_and_harms_no_thread() -> None:
    lane = Lane("test", threads=1, backlog=2)
    gate = threading.Event()
    first = lane.submit(lambda: gate.wait(20))
    ran: list[int] = []
    second: Future[None] = lane.submit(lambda: ran.append(1))
    assert second.cancel()
    gate.set()
    assert first.result(10)
    assert lane.submit(lambda: "next").result(10) == "next"
    assert ran == []


def test_a_call_sees_the_context_of_its_submitter_and_changes_only_its_own() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="none")
    variable.set("mine")
    lane = Lane("test", threads=1)

    def change() -> str:
        seen = variable.get()
        variable.set("changed")
        return seen

    assert lane.submit(change).result(10) == "mine"
    assert variable.get() == "mine"
