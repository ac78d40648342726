"""The minute's sweep on one machine."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import httpx

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


def test_no_sweep_begins_after_the_gateway_has_closed(tmp_path: Path) -> None:
    seen: list[float] = []
    with Running(Toys().gateway(tmp_path, sweep=lambda event, context: seen.append(time.monotonic()))):
        while not seen:
            time.sleep(0.01)
    closed = time.monotonic()
    time.sleep(0.2)
    assert all(moment <= closed for moment in seen)
