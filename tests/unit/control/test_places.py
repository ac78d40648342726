"""A runtime's limit of its own: never passed, whoever claims at the same moment, and never lost to nobody."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def limited(world: World, machine: Machine, limit: int | None) -> None:
    world.ok("PATCH", f"/api/runtimes/{machine.runtime_id}", {"max_concurrent_tasks": limit})


def end(held: Held) -> None:
    assert held.say("start").status == 200
    assert held.say("complete").status == 200


def of_two_agents(world: World, machine: Machine, tasks: int) -> None:
    world.agent("bob", machine)
    for n in range(tasks):
        world.enqueue(("ada", "bob")[n % 2], f"{n}")


def takes_a_place(request: Any) -> bool:
    return bool(request["Key"]["sk"]["S"] == "PLACES")


def test_a_batch_claim_gets_no_more_than_the_runtimes_limit_over_all_its_agents(world: World, machine: Machine) -> None:
    limited(world, machine, 3)
    of_two_agents(world, machine, 8)
    first = machine.claim(8)
    assert len(first) == 3
    assert machine.claim(8) == []
    end(first[0])
    assert len(machine.claim(8)) == 1


def test_two_claims_at_once_together_stay_within_the_limit(
    world: World, machine: Machine, meanwhile: Meanwhile
) -> None:
    limited(world, machine, 1)
    of_two_agents(world, machine, 4)
    won: list[Held] = []
    meanwhile.before("UpdateItem", lambda: won.extend(machine.claim(4)), when=takes_a_place)
    won += machine.claim(4)
    assert len(won) == 1


def test_a_claim_that_pauses_between_its_place_and_its_task_keeps_the_place(
    world: World, machine: Machine, meanwhile: Meanwhile
) -> None:
    """The place is for that task: whoever comes meanwhile may finish what was begun, and takes nothing besides."""
    limited(world, machine, 1)
    of_two_agents(world, machine, 4)
    won: list[Held] = []
    meanwhile.before("TransactWriteItems", lambda: won.extend(machine.claim(4)))
    won += machine.claim(4)
    assert len(won) == 1


def test_a_claim_that_died_after_taking_its_place_costs_nobody_the_place(
    world: World, machine: Machine, meanwhile: Meanwhile
) -> None:
    """Even when something more urgent has come to stand before the task it was for."""
    limited(world, machine, 1)
    world.enqueue()

    def die() -> None:
        raise KeyboardInterrupt

    meanwhile.before("TransactWriteItems", die)
    with pytest.raises(KeyboardInterrupt):
        machine.claim()
    urgent = world.enqueue(prompt="now", priority=4)["id"]
    [first] = machine.claim()
    assert first.id != urgent
    assert machine.claim() == []
    end(first)
    assert [held.id for held in machine.claim()] == [urgent]


def test_a_place_taken_for_a_task_whose_agent_has_filled_up_meanwhile_is_given_to_the_next(
    world: World, machine: Machine, meanwhile: Meanwhile
) -> None:
    """The agent has moved: another machine's claim, which takes no place here, takes its last capacity."""
    limited(world, machine, 1)
    other = world.machine("desktop")
    bob = world.agent("bob", machine, max_concurrent_tasks=1)["id"]
    here = world.enqueue("bob", "here", priority=4)["id"]
    world.ok("PATCH", f"/api/agents/{bob}", {"runtime_id": other.runtime_id})
    world.enqueue("bob", "there")
    behind = world.enqueue("ada", "behind it")["id"]
    meanwhile.before("TransactWriteItems", lambda: other.claim())
    assert [held.id for held in machine.claim()] == [behind]
    assert world.task(here)["status"] == "queued"


def test_threads_that_claim_and_end_never_hold_more_than_the_limit(world: World, machine: Machine) -> None:
    limited(world, machine, 2)
    of_two_agents(world, machine, 24)
    lock, now, most, done = threading.Lock(), set[str](), [0], [0]

    def work() -> None:
        idle = 0
        while idle < 20 and done[0] < 24:
            taken = machine.claim(2)
            idle = 0 if taken else idle + 1
            with lock:
                now.update(held.id for held in taken)
                most[0] = max(most[0], len(now))
            for held in taken:
                assert held.say("start").status == 200
                with lock:
                    now.discard(held.id)  # before it ends: what is counted is in flight for certain
                    done[0] += 1
                assert held.say("complete").status == 200

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] <= 2
    assert done[0] == 24


def test_a_limit_counts_what_was_claimed_before_it(world: World, machine: Machine) -> None:
    of_two_agents(world, machine, 5)
    first = machine.claim(3)
    limited(world, machine, 3)
    assert machine.claim(5) == []
    end(first[0])
    assert len(machine.claim(5)) == 1


def test_a_limit_that_is_lifted_binds_nobody(world: World, machine: Machine) -> None:
    limited(world, machine, 1)
    of_two_agents(world, machine, 4)
    assert len(machine.claim(4)) == 1
    limited(world, machine, None)
    assert len(machine.claim(4)) == 3


def test_a_cancelled_task_and_one_given_back_free_their_places(world: World, machine: Machine, clock: Clock) -> None:
    limited(world, machine, 1)
    world.enqueue(prompt="a", max_attempts=1)
    [first] = machine.claim()
    world.ok("POST", f"/api/tasks/{first.id}/cancel")
    second = world.enqueue(prompt="b")["id"]
    assert [held.id for held in machine.claim()] == [second]
    clock.forward(60)
    world.tick()
    assert world.task(second)["status"] == "queued"
    assert [held.id for held in machine.claim()] == [second]


def test_another_runtime_of_the_machine_is_not_behind_the_wall(world: World) -> None:
    offers = [{"name": name, "type": name} for name in ("echo", "claude")]
    registered = world.ok("POST", "/api/daemon/register", {"daemon_id": "laptop", "runtimes": offers})
    echo, claude = (runtime["id"] for runtime in registered["runtimes"])
    machine = Machine(world, "laptop", registered["daemon_token"], echo)
    limited(world, machine, 1)
    for name, runtime in (("ada", echo), ("bob", claude)):
        world.ok("POST", "/api/agents", {"name": name, "runtime_id": runtime})
        for n in range(3):
            world.enqueue(name, f"{n}")
    body = {"daemon_id": "laptop", "runtime_ids": [echo, claude], "max_tasks": 9}
    tasks = world.ok("POST", "/api/daemon/tasks/claim", body, machine.token)["tasks"]
    assert sorted(task["agent"]["name"] for task in tasks) == ["ada", "bob", "bob", "bob"]


def test_a_runtime_without_a_limit_has_no_places_to_write(world: World, machine: Machine, meanwhile: Meanwhile) -> None:
    world.enqueue()
    meanwhile.before("UpdateItem", lambda: pytest.fail("a place was written"), when=takes_a_place)
    assert len(machine.claim()) == 1


def test_a_task_behind_the_limit_says_so(world: World, machine: Machine) -> None:
    limited(world, machine, 1)
    of_two_agents(world, machine, 2)
    [first] = machine.claim(2)
    [waiting] = [task for task in world.ok("GET", "/api/tasks")["items"] if task["status"] == "queued"]
    why = world.task(waiting["id"])["waiting"]
    assert (why["code"], why["details"]["running_task_ids"]) == ("runtime_at_capacity", [first.id])
    end(first)
    assert world.task(waiting["id"])["waiting"]["code"] == "queued"


def test_a_limit_survives_the_store_being_opened_again(clock: Clock, tmp_path: Path) -> None:
    world = World(tmp_path / "table.sqlite", clock=clock)
    machine = world.machine()
    world.agent("ada", machine)
    limited(world, machine, 1)
    world.enqueue(prompt="a")
    world.enqueue(prompt="b")
    assert len(machine.claim(2)) == 1
    world.close()
    world.open()
    assert machine.claim(2) == []
    world.close()
