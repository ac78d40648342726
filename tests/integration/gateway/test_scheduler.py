"""The minute's sweep on one machine."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from callboard_control.embedded.metrics import Metrics
from callboard_control.embedded.scheduler import Scheduler
from callboard_control.embedded.server import Running
from tests.integration.gateway.toys import Toys


def test_the_sweep_gets_the_schedulers_event_and_goes_on_after_a_failure(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []
    running = threading.Lock()

    def sweep(event: dict[str, Any], context: Any) -> None:
        assert running.acquire(blocking=False), "two sweeps at once"
        try:
            seen.append({"event": event, "name": context.function_name})
            if len(seen) == 1:
                raise RuntimeError("the store is away")
        finally:
            running.release()

    with Running(Toys().gateway(tmp_path, sweep=sweep)) as gateway:
        deadline = time.monotonic() + 20
        while len(seen) < 4:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        metrics = httpx.get(gateway.url + "/metrics").text
    assert seen[0]["name"] == "callboard-tick"
    assert seen[0]["event"]["detail-type"] == "Scheduled Event"
    assert seen[0]["event"]["source"] == "aws.scheduler"
    assert len({entry["event"]["id"] for entry in seen}) == len(seen)
    assert 'callboard_ticks_total{outcome="failed"} 1' in metrics
    assert 'callboard_ticks_total{outcome="ok"}' in metrics


def sweeps(clock: Callable[[], datetime], enough: int) -> list[datetime]:
    """Moments of the first `enough` sweeps of a scheduler on `clock`, with pauses of 20 ms."""
    seen: list[datetime] = []
    done = threading.Event()

    def sweep(event: dict[str, Any], context: Any) -> None:
        seen.append(datetime.fromisoformat(event["time"]))
        if len(seen) >= enough:
            done.set()

    scheduler = Scheduler(sweep, Metrics(), every_s=0.02, clock=clock)
    scheduler.start()
    assert done.wait(20)
    assert scheduler.stop(10)
    return seen


def test_after_a_sleep_of_the_machine_the_sweep_waits_another_period() -> None:
    """Daemons of the same machine slept too; a sweep at once would take their running tasks for lost."""
    start = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
    readings = [start] * 2 + [start] * 2 + [start + timedelta(hours=4)] * 1000
    answers = iter(readings)
    asked: list[datetime] = []

    def clock() -> datetime:
        asked.append(next(answers))
        return asked[-1]

    first, *later = sweeps(clock, 2)
    assert first == start
    woke = asked.index(start + timedelta(hours=4))
    # the reading that found the jump, the new beginning, the next pause's end, and only then the sweep's own
    assert len(asked) - woke >= 4
    assert later == [start + timedelta(hours=4)]


def test_a_clock_that_is_always_wrong_stops_no_more_than_every_second_sweep() -> None:
    start = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
    hours = itertools.count()
    assert len(sweeps(lambda: start + timedelta(hours=next(hours)), 3)) == 3


def test_nothing_is_swept_at_once() -> None:
    seen: list[object] = []
    scheduler = Scheduler(lambda event, context: seen.append(event), Metrics(), every_s=3600)
    scheduler.start()
    assert scheduler.stop(10)
    assert seen == []


def test_no_sweep_begins_after_the_gateway_has_closed(tmp_path: Path) -> None:
    seen: list[float] = []
    with Running(Toys().gateway(tmp_path, sweep=lambda event, context: seen.append(time.monotonic()))):
        while not seen:
            time.sleep(0.01)
    closed = time.monotonic()
    time.sleep(0.2)
    assert all(moment <= closed for moment in seen)
