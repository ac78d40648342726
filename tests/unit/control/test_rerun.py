"""A rerun under an idempotency key is made once, whatever is lost on the way and whatever becomes of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.fakes.meanwhile import Meanwhile
from tests.fakes.sim_world import Answer, Clock, Machine, World


@pytest.fixture
def meanwhile() -> Meanwhile:
    return Meanwhile()


@pytest.fixture
def world(clock: Clock, meanwhile: Meanwhile) -> Iterator[World]:
    world = World(clock=clock, faults=meanwhile)
    yield world
    world.close()


def ended(world: World, machine: Machine, **fields: Any) -> str:
    world.enqueue(**fields)
    [held] = machine.claim()
    held.say("start")
    held.say("complete")
    return held.id


def rerun(world: World, task_id: str, key: str | None = "k") -> Answer:
    return world.call("POST", f"/api/tasks/{task_id}/rerun", {"idempotency_key": key} if key else None)


@pytest.mark.parametrize("issue", [None, "i-1"])
def test_a_repeated_rerun_is_the_same_task_and_cancels_nothing(
    world: World, machine: Machine, issue: str | None
) -> None:
    source = ended(world, machine, issue_id=issue)
    first = rerun(world, source)["id"]
    assert rerun(world, source)["id"] == first
    assert world.task(first)["status"] == "queued"
    [held] = machine.claim()
    held.say("start")
    held.say("complete")
    assert (rerun(world, source)["id"], rerun(world, source)["status"]) == (first, "completed")


def test_a_rerun_without_a_key_is_another_task_each_time(world: World, machine: Machine) -> None:
    source = ended(world, machine)
    assert rerun(world, source, None)["id"] != rerun(world, source, None)["id"]


def test_the_key_of_another_rerun_is_refused(world: World, machine: Machine) -> None:
    first, second = ended(world, machine), ended(world, machine)
    rerun(world, first)
    answer = rerun(world, second)
    assert (answer.status, answer.error) == (409, "idempotency_mismatch")


def test_a_rerun_of_an_issues_task_takes_a_key_too(world: World, machine: Machine) -> None:
    source = ended(world, machine, issue_id="i-1")
    body = {"task_id": source, "idempotency_key": "k"}
    made = [world.ok("POST", "/api/issues/i-1/rerun", body)["id"] for _ in range(2)]
    assert made[0] == made[1] == rerun(world, source)["id"]


def test_the_same_rerun_twice_at_once_is_one_task_that_waits(
    world: World, machine: Machine, meanwhile: Meanwhile
) -> None:
    source = ended(world, machine, issue_id="i-1")
    twin: list[str] = []
    meanwhile.before("TransactWriteItems", lambda: twin.append(rerun(world, source)["id"]))
    made = rerun(world, source)
    assert [made["id"]] == twin
    assert world.task(made["id"])["status"] == "queued"


def test_a_wish_that_comes_between_a_reruns_clearing_and_its_insert_does_not_swallow_it(
    world: World, machine: Machine, meanwhile: Meanwhile
) -> None:
    source = ended(world, machine, issue_id="i-1", prompt="first")
    wishes: list[str] = []
    meanwhile.before("TransactWriteItems", lambda: wishes.append(world.enqueue(issue_id="i-1", prompt="other")["id"]))
    made = rerun(world, source)
    assert made.status == 200
    assert made["rerun_of_task_id"] == source
    assert world.task(wishes[0])["status"] == "cancelled"
    assert machine.claim()[0].payload["prompt"] == "first"
