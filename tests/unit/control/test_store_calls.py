"""How often a task's life asks the store: a count, so that a call more is seen where a slow machine hides it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.fakes.meanwhile import Meanwhile
from tests.fakes.sim_world import Clock, Held, Machine, World


@pytest.fixture
def meanwhile() -> Meanwhile:
    return Meanwhile()


@pytest.fixture
def world(clock: Clock, meanwhile: Meanwhile) -> Iterator[World]:
    world = World(clock=clock, faults=meanwhile)
    yield world
    world.close()


def test_a_tasks_life_asks_the_store_sixteen_times(world: World, machine: Machine, meanwhile: Meanwhile) -> None:
    held: list[Held] = []
    steps: dict[str, tuple[Callable[[], object], int]] = {
        "enqueue": (world.enqueue, 5),  # the token, the member, the agent's name, the agent; the task
        # The token; what is busy here, and what it holds; what is ready, and all about the first; the claim.
        "claim": (lambda: held.extend(machine.claim()), 6),
        "start": (lambda: held[-1].say("start", work_dir="/w"), 2),  # the token; the start
        "complete": (lambda: held[-1].say("complete", output="hello", session_id="s-1"), 3),  # and the task before
    }
    for _ in range(3):  # the slot, once made, is looked at
        asked: dict[str, int] = {}
        for name, (step, _) in steps.items():
            before = sum(meanwhile.asked.values())
            step()
            asked[name] = sum(meanwhile.asked.values()) - before
    assert asked == {name: most for name, (_, most) in steps.items()}


def test_a_batch_claim_reads_once_what_its_tasks_have_in_common(
    world: World, machine: Machine, meanwhile: Meanwhile
) -> None:
    for _ in range(5):
        world.enqueue()
    before = meanwhile.asked.total()
    assert len(machine.claim(5)) == 5
    assert meanwhile.asked.total() - before == 3 + 5 * 2  # token, busy, ready; then a look and a claim each
