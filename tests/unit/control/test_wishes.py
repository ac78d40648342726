"""Enqueue when answers are lost, keys are used twice and wishes pile up."""

from __future__ import annotations

import pytest

from callboard_control.embedded.engine.faults import Fault
from tests.fakes.meanwhile import Meanwhile
from tests.fakes.sim_world import Clock, Machine, World

LONG = "a long wish: " + "x" * 2000


def test_another_body_under_a_used_key_leaves_the_first_wish_as_it_was(world: World, machine: Machine) -> None:
    first = world.enqueue(prompt=LONG, idempotency_key="k")
    body = {"agent": "ada", "prompt": "another " + LONG, "idempotency_key": "k"}
    assert world.call("POST", "/api/tasks", body).error == "idempotency_mismatch"
    assert world.task(first["id"])["prompt"] == LONG


def test_a_repeated_key_whose_wish_joined_a_task_makes_no_second_one_after_its_claim(
    world: World, machine: Machine
) -> None:
    first = world.enqueue(prompt="a", issue_id="i-1")
    joined = world.enqueue(prompt="b", issue_id="i-1", idempotency_key="k")
    machine.claim()
    again = world.enqueue(prompt="b", issue_id="i-1", idempotency_key="k")
    assert first["id"] == joined["id"] == again["id"]
    assert len(world.ok("GET", "/api/tasks")["items"]) == 1
    other = {"agent": "ada", "prompt": "c", "issue_id": "i-1", "idempotency_key": "k"}
    assert world.call("POST", "/api/tasks", other).error == "idempotency_mismatch"


def test_long_wishes_that_join_come_back_whole_and_in_order(world: World, machine: Machine) -> None:
    long = [chr(0x4E00 + n) * 90_000 for n in range(3)]
    for prompt in ["first", *long, "last"]:
        task = world.enqueue(prompt=prompt, issue_id="i-1")
    assert world.task(task["id"])["prompt"] == "\n\n".join(["first", *long, "last"])


def test_wishes_beyond_what_one_task_takes_are_refused_by_name(world: World, machine: Machine) -> None:
    for n in range(51):
        world.enqueue(prompt=f"wish {n}", issue_id="i-1")
    answer = world.call("POST", "/api/tasks", {"agent": "ada", "prompt": "one more", "issue_id": "i-1"})
    assert (answer.status, answer.error) == (409, "too_many_wishes")
    assert world.enqueue(prompt="wish 50", issue_id="i-1")  # a repeat is still one


def test_a_task_whose_write_lost_its_answer_is_new_and_rings(clock: Clock) -> None:
    class Bell:
        rung = 0

        def ring(self, *runtime_ids: str) -> None:
            self.rung += 1

        def sample(self, runtime_ids: object) -> None: ...

        def wait(self, seen: object, timeout: float) -> bool:
            return False

    meanwhile, bell = Meanwhile(), Bell()
    world = World(clock=clock, faults=meanwhile, doorbell=bell)
    world.agent("ada", world.machine())
    for key, status in ((None, 201), ("k", 200)):
        before = bell.rung
        meanwhile.before("PutItem", lambda: Fault.LOST_RESPONSE)
        body = {"agent": "ada", "prompt": "p"} | ({"idempotency_key": key} if key else {})
        assert world.call("POST", "/api/tasks", body).status == status
        assert bell.rung == before + 1
    world.close()


@pytest.mark.parametrize("fields", ['"timeout_s": 1e999', '"fire_at": "2027-01-15T09:00:00"'])
def test_a_time_that_means_nothing_is_refused(world: World, machine: Machine, fields: str) -> None:
    answer = world.call("POST", "/api/tasks", '{"agent": "ada", "prompt": "p", ' + fields + "}")
    # What no float can hold is refused where the body is read, everything else where it is looked at.
    assert (answer.status, answer.error) in ((422, "validation_failed"), (400, "invalid_json"))


def test_an_agent_too_large_for_the_table_is_refused_as_that(world: World, machine: Machine) -> None:
    instructions = "\U0001f3ad" * 100_000
    created = world.call("POST", "/api/agents", {"name": "big", "instructions": instructions})
    assert (created.status, created.error) == (413, "too_large")
    updated = world.call("PATCH", "/api/agents/ada", {"instructions": instructions})
    assert (updated.status, updated.error) == (413, "too_large")
    context = world.call("PATCH", "/api/workspaces/current", {"settings": {"k": "x" * 500_000}})
    assert (context.status, context.error) == (413, "too_large")


def test_wishes_longer_than_one_answer_holds_are_refused_by_name(world: World, machine: Machine) -> None:
    for n in range(10):
        world.enqueue(prompt=f"{n}" + "x" * 190_000, issue_id="i-1")
    last = "one more" + "x" * 190_000
    task = world.enqueue(prompt=last, issue_id="i-1")
    answer = world.call("POST", "/api/tasks", {"agent": "ada", "prompt": "y" * 190_000, "issue_id": "i-1"})
    assert (answer.status, answer.error) == (409, "too_many_wishes")
    assert world.enqueue(prompt=last, issue_id="i-1")["id"] == task["id"]  # a repeat is none
    assert world.enqueue(prompt="short", issue_id="i-1")["id"] == task["id"]
