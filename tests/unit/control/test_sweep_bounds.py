"""The sweep reaches everybody: whatever else runs, waits or breaks, and on whichever machine."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callboard_control.embedded.engine.faults import Fault
from callboard_control.store import table
from callboard_control.store.models import MessagePack
from callboard_control.tasks.sweep import sweep
from tests.fakes.meanwhile import Meanwhile
from tests.fakes.sim_world import Clock, Held, Machine, World

HOUR = 3600


def test_many_healthy_runs_keep_no_other_machine_from_being_swept(world: World, clock: Clock) -> None:
    for name in ("one", "two", "three"):
        machine = world.machine(name)
        world.agent(name, machine)
        for _ in range(6):
            world.enqueue(name)
        *running, preparing = machine.claim(6)
        for held in running:
            held.say("start")
    due = world.enqueue("one", fire_at="2027-01-15T08:01:00Z")
    clock.forward(70)
    for _ in range(4):
        sweep(limit=3)
    assert world.task(preparing.id)["status"] == "queued"
    assert world.task(due["id"])["status"] == "queued"


def test_retries_that_wait_for_their_machine_keep_nothing_due_from_its_turn(world: World, clock: Clock) -> None:
    gone, here = world.machine("gone"), world.machine("here")
    world.agent("gone", gone, max_concurrent_tasks=30)
    world.agent("here", here)
    for _ in range(30):
        world.enqueue("gone")
    for held in gone.claim(30):
        held.say("start")
        held.say("fail", error="x", failure_reason="runtime_offline")
    due = world.enqueue("here", fire_at="2027-01-15T08:10:00Z")
    clock.forward(601)
    for _ in range(2):
        sweep(limit=2)
    assert world.task(due["id"])["status"] == "queued"


def test_a_task_the_store_chokes_on_stops_nobody_elses_sweep(clock: Clock) -> None:
    meanwhile = Meanwhile()
    world = World(clock=clock, faults=meanwhile)
    machine = world.machine()
    world.agent("ada", machine)
    ids = [world.enqueue(prompt=f"{n}")["id"] for n in range(3)]
    assert len(machine.claim(3)) == 3
    clock.forward(60)
    for _ in range(30):
        meanwhile.before("TransactWriteItems", lambda: Fault.UNAVAILABLE, when=lambda request: min(ids) in str(request))
    swept = world.tick()
    assert (swept["requeued"], swept["broken"]) == (2, 1)
    world.close()


def test_a_task_scheduled_for_later_than_two_hours_gets_its_two_hours_from_then(
    world: World, machine: Machine, clock: Clock
) -> None:
    task = world.enqueue(fire_at="2027-01-15T13:00:00Z")
    clock.ms = 1_800_018_000_000
    assert world.tick()["promoted"] == 1
    clock.forward(60)
    assert world.tick()["expired"] == 0
    assert world.task(task["id"])["status"] == "queued"
    clock.forward(2.1 * HOUR)
    assert world.tick()["expired"] == 1


def test_a_tick_ends_by_itself_before_its_function_does_and_the_next_goes_on(clock: Clock) -> None:
    meanwhile = Meanwhile()
    world = World(clock=clock, faults=meanwhile)
    machine = world.machine()
    world.agent("ada", machine)
    for _ in range(3):
        world.enqueue()
    machine.claim(3)
    clock.forward(60)
    for _ in range(3):
        meanwhile.before("TransactWriteItems", lambda: clock.forward(20))
    ticks = [world.tick() for _ in range(4)]
    assert [(tick["requeued"], tick["more"]) for tick in ticks] == [(1, True), (1, True), (1, True), (0, False)]
    world.close()
    table.reconnect()


# ── an agent that moved to another machine ───────────────────────────────────


@pytest.fixture
def moved(world: World, clock: Clock) -> tuple[Held, Held]:
    """A run on the agent's old machine and one on its new."""
    old, new = world.machine("old"), world.machine("new")
    world.agent("ada", old)
    world.enqueue(prompt="there")
    [before] = old.claim()
    before.say("start")
    world.ok("PATCH", "/api/agents/ada", {"runtime_id": new.runtime_id})
    world.enqueue(prompt="here")
    [after] = new.claim()
    after.say("start")
    return before, after


def beat(machine: Machine) -> Any:
    return machine.call("POST", "/api/daemon/heartbeat", {"runtime_id": machine.runtime_id})


@pytest.mark.parametrize("silent", [0, 1])
def test_a_run_is_judged_by_its_own_machine_and_not_by_where_its_agent_works_now(
    world: World, clock: Clock, moved: tuple[Held, Held], silent: int
) -> None:
    clock.forward(3.1 * HOUR)
    assert beat(moved[1 - silent].machine).status == 200
    world.tick()
    assert world.task(moved[silent].id)["failure_reason"] == "runtime_offline"
    assert world.task(moved[1 - silent].id)["status"] == "running"


def test_a_run_is_still_found_when_the_machine_its_agent_went_to_is_gone(
    world: World, clock: Clock, moved: tuple[Held, Held]
) -> None:
    before, after = moved
    assert after.say("complete", output="x").status == 200
    world.ok("PATCH", "/api/agents/ada", {"runtime_id": before.machine.runtime_id})
    gone = after.machine.runtime_id
    after.machine.call("POST", "/api/daemon/deregister", {"runtime_ids": [gone]})
    world.ok("DELETE", f"/api/runtimes/{gone}")
    clock.forward(3.1 * HOUR)
    world.tick()
    assert world.task(before.id)["failure_reason"] == "runtime_offline"


@pytest.mark.parametrize("restarted", [0, 1])
def test_a_restarted_machine_finds_its_orphans_wherever_their_agent_works_now(
    world: World, moved: tuple[Held, Held], restarted: int
) -> None:
    machine = moved[restarted].machine
    path = f"/api/daemon/runtimes/{machine.runtime_id}/recover-orphans"
    assert machine.call("POST", path, {"keep": []})["orphaned"] == 1
    assert world.task(moved[restarted].id)["failure_reason"] == "runtime_recovery"
    assert world.task(moved[1 - restarted].id)["status"] == "running"


def test_tasks_the_sweep_cannot_move_are_a_metric_that_an_alarm_may_stand_on(
    clock: Clock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POWERTOOLS_METRICS_DISABLED", "false")
    meanwhile = Meanwhile()
    world = World(clock=clock, faults=meanwhile)
    machine = world.machine()
    world.agent("ada", machine)
    world.enqueue()
    machine.claim()
    clock.forward(60)
    for _ in range(10):
        meanwhile.before("TransactWriteItems", lambda: Fault.UNAVAILABLE)
    capsys.readouterr()
    world.tick()
    blobs = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line]
    assert [(blob["TaskUnmovable"], blob["OrphanSlots"]) for blob in blobs] == [([1.0], [0.0])]
    world.close()


def test_two_ticks_at_once_move_every_task_once(clock: Clock) -> None:
    meanwhile = Meanwhile()
    world = World(clock=clock, faults=meanwhile)
    machine = world.machine()
    world.agent("ada", machine)
    leased, due = world.enqueue(), world.enqueue(fire_at="2027-01-15T08:00:30Z")
    machine.claim()
    expired = world.enqueue("ada", "nobody takes it")
    clock.forward(2 * HOUR + 60)
    other: list[dict[str, Any]] = []
    meanwhile.before("TransactWriteItems", lambda: other.append(world.tick()))
    mine = world.tick()
    assert [tick[name] for tick in (mine, other[0]) for name in ("orphan_slots", "broken")] == [0, 0, 0, 0]
    moves = {t["id"]: [m["move"] for m in world.task(t["id"])["moves"]] for t in (leased, due, expired)}
    assert moves == {
        leased["id"]: ["enqueue", "claim", "requeue"],
        due["id"]: ["defer", "promote"],
        expired["id"]: ["enqueue", "expire"],
    }
    world.close()


def test_a_gap_in_a_transcript_is_found_without_reading_what_was_said(clock: Clock) -> None:
    """A long run has a hundred megabytes of messages, and the function that checks them 256."""
    meanwhile = Meanwhile()
    world = World(clock=clock, faults=meanwhile)
    machine = world.machine()
    world.agent("ada", machine)
    world.enqueue()
    [held] = machine.claim()
    held.say("start")
    for seq in (1, 2, 3):
        held.say("messages", messages=[{"seq": seq, "type": "text", "content": "said"}])
    assert world.ok("GET", "/api/doctor")["offences"] == []
    table.delete(MessagePack(f"TK#{held.id}", "M#000001#0000000002"))
    asked: list[Any] = []
    meanwhile.before("Query", lambda: None, when=lambda request: "M#" in str(request) and bool(asked.append(request)))
    [offence] = world.ok("GET", "/api/doctor")["offences"]
    assert offence["rule"] == "messages are gapless and in order"
    assert asked
    assert all("ProjectionExpression" in request for request in asked)
    world.close()
    table.reconnect()
