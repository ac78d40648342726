"""The turn: one thread computes at a time, in the order they came, and nobody is held up by one who is stuck."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from callboard_control.embedded import turn

LIMIT_S = 20.0


def started(*works: Callable[[], None]) -> list[threading.Thread]:
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    return threads


def ended(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(LIMIT_S)
        assert not thread.is_alive(), "a thread waits for ever"


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not what():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.001)


def test_two_never_compute_at_once_and_all_get_their_turn() -> None:
    inside: list[int] = []
    crowds: list[int] = []
    done: list[int] = []

    def work(number: int) -> None:
        for _ in range(200):
            with turn.taken():
                inside.append(number)
                crowds.append(len(inside))
                inside.remove(number)
                with turn.waiting():
                    pass
        done.append(number)

    ended(started(*[lambda n=n: work(n) for n in range(6)]))  # type: ignore[misc]
    assert set(crowds) == {1}
    assert sorted(done) == list(range(6))


def test_who_waits_gives_the_turn_to_the_others_meanwhile() -> None:
    passed = threading.Event()

    def waits() -> None:
        with turn.taken(), turn.waiting():
            assert passed.wait(LIMIT_S)

    def passes() -> None:
        with turn.taken():
            passed.set()

    ended(started(waits, passes))
    assert passed.is_set()


def test_one_who_is_stuck_is_not_waited_for_and_its_end_disturbs_nobody() -> None:
    stuck, release, served = threading.Event(), threading.Event(), threading.Semaphore(0)

    def holds() -> None:
        with turn.taken():
            stuck.set()
            assert release.wait(LIMIT_S)

    def passes() -> None:
        with turn.taken():
            served.release()

    holder = started(holds)
    assert stuck.wait(LIMIT_S)
    ended(started(*[passes] * 5))
    assert all(served.acquire(timeout=0) for _ in range(5))
    release.set()
    ended(holder)
    test_two_never_compute_at_once_and_all_get_their_turn()


def test_a_long_call_lets_the_others_go_first_when_it_pauses() -> None:
    taken, passed, told = threading.Event(), threading.Event(), threading.Event()
    rounds: list[bool] = []

    def long() -> None:
        with turn.taken():
            taken.set()
            assert told.wait(LIMIT_S)
            deadline = time.monotonic() + LIMIT_S
            while not passed.is_set() and time.monotonic() < deadline:
                rounds.append(passed.is_set())
                turn.pause()
        assert passed.is_set()

    def short() -> None:
        assert taken.wait(LIMIT_S)
        told.set()
        with turn.taken():
            passed.set()

    ended(started(long, short))
    assert rounds


def test_a_thread_that_never_took_the_turn_is_not_concerned() -> None:
    with turn.waiting():
        turn.pause()
    began = time.monotonic()
    turn.sleep(0.01)
    assert time.monotonic() - began >= 0.01
    with turn.taken():
        pass
