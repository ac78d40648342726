"""A store that does not answer is a 503 with a hint when to come back: a daemon takes 404 and 400 for final."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from callboard_control.embedded.engine.faults import Fault, Script
from callboard_control.store import table
from callboard_control.store.models import Item
from tests.fakes.meanwhile import Meanwhile
from tests.fakes.sim_world import Clock, World


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def world(script: Script, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(Item.Meta, "max_retry_attempts", 0)
    world = World(clock=clock, faults=script)
    yield world
    world.close()


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.THROTTLING, Fault.LOST_REQUEST, Fault.LOST_RESPONSE])
@pytest.mark.parametrize("reads", range(5))
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/api/tasks", None),
        ("POST", "/api/tokens", {"name": "ci"}),
        ("POST", "/api/tasks", {"agent": "ada", "prompt": "p"}),
    ],
)
def test_whichever_call_to_the_store_gets_no_answer(
    world: World, script: Script, fault: Fault, reads: int, method: str, path: str, body: object
) -> None:
    world.agent("ada", world.machine())
    script.add(*[None] * reads, *[fault] * 20)
    answer = world.call(method, path, body)
    assert (answer.status, answer.error) in [(503, "unavailable"), (200, ""), (201, "")]
    assert answer.status == 503 or reads > 1


def test_what_a_throttled_batch_left_out_is_asked_for_again_after_a_pause(clock: Clock) -> None:
    meanwhile = Meanwhile()
    world = World(clock=clock, faults=meanwhile)
    machine = world.machine()
    world.agent("ada", machine)
    tasks = {world.enqueue(prompt=f"{n}")["id"] for n in range(12)}
    for _ in range(3):
        meanwhile.before("BatchGetItem", lambda: Fault.UNPROCESSED, when=lambda request: "TK#" in str(request))
    pauses: list[float] = []
    before = table.use_sleep(pauses.append)
    try:
        assert {task["id"] for task in world.ok("GET", "/api/tasks")["items"]} == tasks
    finally:
        table.use_sleep(before)
    assert len(pauses) == 3
    assert pauses == sorted(pauses)
    assert 0 < pauses[0] < pauses[-1]
    world.close()
    table.reconnect()
