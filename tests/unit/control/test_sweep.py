"""The sweep: what time alone decides, twice at once, backwards, and in any order."""

from __future__ import annotations

import pytest

from callboard_control.store.models import SlotItem
from callboard_control.tasks.sweep import sweep
from tests.fakes.sim_world import Clock, Machine, World

HOUR = 3600


def test_a_lease_nobody_renewed_goes_back_to_the_queue(world: World, machine: Machine, clock: Clock) -> None:
    world.enqueue()
    held = machine.claim()[0]
    clock.forward(44)
    assert world.tick()["requeued"] == 0
    clock.forward(2)
    assert world.tick()["requeued"] == 1
    assert world.task(held.id)["status"] == "queued"
    assert held.say("start").error == "stale_claim"


def test_running_tasks_of_a_machine_that_slept_go_on_within_the_grace(
    world: World, machine: Machine, clock: Clock
) -> None:
    world.enqueue()
    held = machine.claim()[0]
    held.say("start")
    clock.forward(2.9 * HOUR)
    world.tick()
    assert held.say("complete", output="slept well")["status"] == "completed"


def test_running_tasks_of_a_machine_silent_beyond_the_grace_fail_and_wait_for_it(
    world: World, machine: Machine, clock: Clock
) -> None:
    world.enqueue()
    held = machine.claim()[0]
    held.say("start")
    clock.forward(3.1 * HOUR)
    assert world.tick()["offline"] == 1
    failed = world.task(held.id)
    assert failed["failure_reason"] == "runtime_offline"
    child = failed["retried_by_task_id"]
    assert world.task(child)["waiting"]["code"] == "runtime_offline"
    clock.forward(5)
    assert world.tick()["promoted"] == 0
    machine.call("POST", "/api/daemon/heartbeat", {"runtime_id": machine.runtime_id})
    assert world.tick()["promoted"] == 1
    assert [t.id for t in machine.claim()] == [child]


def test_a_retry_whose_machine_never_returns_is_given_up(world: World, machine: Machine, clock: Clock) -> None:
    world.enqueue()
    held = machine.claim()[0]
    held.say("start")
    clock.forward(3.1 * HOUR)
    world.tick()
    child = world.task(held.id)["retried_by_task_id"]
    clock.forward(3.1 * HOUR)
    assert world.tick()["gave_up"] == 1
    assert world.task(child)["failure_reason"] == "runtime_reconnect_timeout"


def test_a_task_nobody_took_for_two_hours_expires_whatever_its_priority(
    world: World, machine: Machine, clock: Clock
) -> None:
    old = [world.enqueue(priority=p)["id"] for p in range(5)]
    clock.forward(1.5 * HOUR)
    young = world.enqueue()["id"]
    clock.forward(0.6 * HOUR)
    assert world.tick()["expired"] == 5
    assert {world.task(t)["failure_reason"] for t in old} == {"queued_expired"}
    assert world.task(young)["status"] == "queued"


def test_a_deferred_task_is_queued_when_due_and_not_before(world: World, machine: Machine, clock: Clock) -> None:
    task = world.enqueue(fire_at="2027-01-15T09:00:00Z")
    assert (task["status"], world.task(task["id"])["waiting"]["code"]) == ("deferred", "deferred")
    assert machine.claim() == []
    clock.ms = 1_800_003_599_000
    world.tick()
    assert machine.claim() == []
    clock.ms = 1_800_003_600_000
    machine.call("POST", "/api/daemon/heartbeat", {"runtime_id": machine.runtime_id})
    world.tick()
    assert [t.id for t in machine.claim()] == [task["id"]]


def test_a_clock_that_goes_backwards_between_ticks_decides_nothing_early(
    world: World, machine: Machine, clock: Clock
) -> None:
    world.enqueue()
    machine.claim()[0].say("start")
    world.enqueue()
    clock.forward(-600)
    swept = world.tick()
    assert sum(swept[k] for k in ("requeued", "offline", "expired", "promoted", "gave_up", "orphan_slots")) == 0


def test_the_sweep_stops_at_its_bound_and_the_next_goes_on(world: World, machine: Machine, clock: Clock) -> None:
    world.agent("many", machine, max_concurrent_tasks=20)
    for _ in range(10):
        world.enqueue("many")
    assert len(machine.claim(10)) == 10
    clock.forward(60)
    first = sweep(limit=4)
    assert (first.requeued, first.more) == (4, True)
    assert sweep().requeued == 6


def test_an_orphan_in_a_slot_is_counted_and_cleared(world: World, machine: Machine) -> None:
    task = world.enqueue()
    machine.claim()
    update = {
        "TableName": "callboard",
        "Key": {"pk": {"S": f"AG#{task['agent_id']}"}, "sk": {"S": "SLOT"}},
        "UpdateExpression": "ADD run :ghost",
        "ExpressionAttributeValues": {":ghost": {"SS": ["ghost"]}},
    }
    world.engine.execute("UpdateItem", update)
    assert world.ok("GET", "/api/doctor")["offences"]
    assert world.tick()["orphan_slots"] == 1
    assert world.ok("GET", "/api/doctor")["offences"] == []
    assert world.tick()["orphan_slots"] == 0


def test_a_slot_that_fills_while_it_is_being_forgotten_stays_known(world: World, machine: Machine) -> None:
    """The sweep saw it empty; the claim came before it took it off the busy index."""
    from callboard_control.store import table
    from callboard_control.store.errors import ConditionFailed
    from callboard_control.tasks import conditions

    world.enqueue()
    held = machine.claim()[0]
    slot = SlotItem(f"AG#{held.payload['agent_id']}", "SLOT")
    with pytest.raises(ConditionFailed):
        table.update(slot, [SlotItem.gpk.remove(), SlotItem.gsk.remove()], conditions.slot_is_empty())


def test_a_task_handed_out_again_and_again_without_starting_fails_at_last(
    world: World, machine: Machine, clock: Clock
) -> None:
    task = world.enqueue()
    for _ in range(25):
        machine.claim()
        clock.forward(50)
        world.tick()
    ended = world.task(task["id"])
    assert (ended["status"], ended["failure_reason"]) == ("failed", "timeout")
