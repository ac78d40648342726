"""Deleting a runtime: what stands in the way, and that nothing of it is left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.fakes.meanwhile import Meanwhile
from tests.fakes.sim_world import Clock, Machine, World
from tests.unit.control.test_people import newcomer


@pytest.fixture
def meanwhile() -> Meanwhile:
    return Meanwhile()


@pytest.fixture
def world(clock: Clock, meanwhile: Meanwhile) -> Iterator[World]:
    world = World(clock=clock, faults=meanwhile)
    yield world
    world.close()


def path_of(machine: Machine) -> str:
    return f"/api/runtimes/{machine.runtime_id}"


def switch_off(machine: Machine) -> None:
    assert machine.call("POST", "/api/daemon/deregister", {"runtime_ids": [machine.runtime_id]}).status == 200


def rows(world: World) -> list[dict[str, Any]]:
    return list(world.engine.execute("Scan", {"TableName": "callboard"})["Items"])


def test_an_online_runtime_is_not_deleted_and_one_that_is_silent_for_long_is(world: World, clock: Clock) -> None:
    machine = world.machine()
    assert world.call("DELETE", path_of(machine)).error == "runtime_online"
    clock.forward(200)
    world.ok("DELETE", path_of(machine))
    assert world.call("GET", path_of(machine)).status == 404
    assert world.call("DELETE", path_of(machine)).status == 404


def test_the_agents_that_hold_a_runtime_are_named(world: World, machine: Machine) -> None:
    agent = world.ok("GET", "/api/agents/ada")["id"]
    switch_off(machine)
    refused = world.call("DELETE", path_of(machine))
    assert (refused.status, refused.error) == (409, "runtime_has_active_agents")
    assert refused.body["details"]["agents"] == [{"id": agent, "name": "ada"}]
    other = world.machine("desktop")
    world.ok("PATCH", f"/api/agents/{agent}", {"runtime_id": other.runtime_id})
    world.ok("DELETE", path_of(machine))


def test_another_members_private_agent_holds_it_too_and_is_counted_only(world: World, machine: Machine) -> None:
    token, _ = newcomer(world)
    theirs = world.machine("desktop", token=token)
    world.ok("PATCH", path_of(theirs), {"visibility": "public"}, token)
    world.ok("POST", "/api/agents", {"name": "eve", "runtime_id": theirs.runtime_id})
    switch_off(theirs)
    details = world.call("DELETE", path_of(theirs), token=token).body["details"]
    assert (details["agents"], details["hidden_agents"]) == ([], 1)


def test_an_archived_agent_keeps_everything_but_its_runtime(world: World, machine: Machine) -> None:
    world.ok("POST", "/api/agents/ada/archive")
    switch_off(machine)
    world.ok("DELETE", path_of(machine))
    assert world.ok("GET", "/api/agents/ada")["runtime_id"] == ""


def test_nothing_of_a_deleted_runtime_is_left(world: World, machine: Machine, clock: Clock) -> None:
    """Tasks of an agent that has moved on still wait and run there."""
    world.ok("PATCH", path_of(machine), {"max_concurrent_tasks": 1})
    world.enqueue(max_attempts=1)
    [running] = machine.claim()
    running.say("start")
    queued = world.enqueue()["id"]
    later = world.enqueue(fire_at="2027-02-01T00:00:00Z")["id"]
    other = world.machine("desktop")
    agent = world.ok("GET", "/api/agents/ada")["id"]
    world.ok("PATCH", f"/api/agents/{agent}", {"runtime_id": other.runtime_id})
    kept = world.enqueue()["id"]
    switch_off(machine)
    world.ok("DELETE", path_of(machine))
    assert [world.task(t)["status"] for t in (running.id, queued, later)] == ["cancelled"] * 3
    assert world.task(kept)["status"] == "queued"
    left = [r for r in rows(world) if machine.runtime_id in str(r) and r["sk"]["S"] not in ("T",)]
    assert [r["pk"]["S"] for r in left if not r["pk"]["S"].endswith("#AUDIT")] == []
    assert not [r for r in rows(world) if "rpk" in r and machine.runtime_id in r["rpk"]["S"]]
    assert world.ok("GET", "/api/doctor")["offences"] == []


def test_with_its_last_runtime_a_machine_is_forgotten_and_its_token_is_dead(world: World) -> None:
    offers = [{"name": name, "type": name} for name in ("echo", "claude")]
    registered = world.ok("POST", "/api/daemon/register", {"daemon_id": "laptop", "runtimes": offers})
    token, ids = registered["daemon_token"], [runtime["id"] for runtime in registered["runtimes"]]
    world.ok("POST", "/api/daemon/deregister", {"runtime_ids": ids}, token)
    world.ok("DELETE", f"/api/runtimes/{ids[0]}")
    assert world.ok("POST", "/api/daemon/heartbeat", {"runtime_ids": ids}, token)["gone_runtime_ids"] == ids
    world.ok("DELETE", f"/api/runtimes/{ids[1]}")
    assert world.call("POST", "/api/daemon/heartbeat", {"runtime_ids": ids}, token).status == 401
    assert not [r for r in rows(world) if r["sk"]["S"] == "D"]
    again = world.ok("POST", "/api/daemon/register", {"daemon_id": "laptop", "runtimes": offers})
    assert [runtime["id"] for runtime in again["runtimes"]] == ids


def test_a_machine_that_registers_in_the_middle_keeps_its_runtime(
    world: World, meanwhile: Meanwhile, clock: Clock
) -> None:
    machine = world.machine()
    switch_off(machine)
    meanwhile.before("TransactWriteItems", lambda: world.machine())
    assert world.call("DELETE", path_of(machine)).error == "contended"
    assert world.ok("GET", path_of(machine))["status"] == "online"
    assert world.call("DELETE", path_of(machine)).error == "runtime_online"


def test_an_agent_that_is_put_on_it_in_the_middle_is_refused_or_keeps_it(
    world: World, machine: Machine, meanwhile: Meanwhile
) -> None:
    other = world.machine("desktop")
    switch_off(other)
    body = {"name": "bob", "runtime_id": other.runtime_id}
    deletes = lambda: world.ok("DELETE", path_of(other))  # noqa: E731  # a name for what happens in the middle
    meanwhile.before("TransactWriteItems", deletes, when=lambda request: "ConditionCheck" in str(request))
    assert world.call("POST", "/api/agents", body).error == "runtime_not_found"


def test_an_agent_that_was_put_on_it_after_the_first_look_keeps_it(world: World, meanwhile: Meanwhile) -> None:
    machine = world.machine()
    switch_off(machine)
    body = {"name": "bob", "runtime_id": machine.runtime_id}
    closing = lambda request: request["Key"]["sk"]["S"] == f"RT#{machine.runtime_id}"  # noqa: E731  # the very write
    meanwhile.before("UpdateItem", lambda: world.ok("POST", "/api/agents", body), when=closing)
    assert world.call("DELETE", path_of(machine)).error == "runtime_has_active_agents"
    assert world.ok("GET", "/api/agents/bob")["runtime_id"] == machine.runtime_id
    world.ok("POST", "/api/agents", {**body, "name": "eve"})  # it is open again


def test_a_runtime_is_taken_from_the_agents_that_were_seen_on_it(world: World, machine: Machine) -> None:
    bob = world.agent("bob", machine)["id"]
    ada = world.ok("GET", "/api/agents/ada")["id"]
    task = world.enqueue()["id"]
    switch_off(machine)
    path = f"{path_of(machine)}/unbind-agents-and-delete"
    changed = world.call("POST", path, {"expected_active_agent_ids": [ada]})
    assert (changed.status, changed.error) == (409, "runtime_delete_plan_changed")
    assert {agent["id"] for agent in changed.body["details"]["agents"]} == {ada, bob}
    assert world.ok("GET", "/api/agents/ada")["runtime_id"] == machine.runtime_id
    world.ok("POST", path, {"expected_active_agent_ids": [bob, ada]})
    kept = world.ok("GET", "/api/agents/ada")
    assert (kept["runtime_id"], kept["archived"], kept["readiness"]["state"]) == ("", False, "blocked")
    assert world.task(task)["status"] == "cancelled"
    assert world.call("POST", "/api/tasks", {"agent": "ada", "prompt": "p"}).error == "agent_runtime_required"
    other = world.machine("desktop")
    world.ok("PATCH", f"/api/agents/{ada}", {"runtime_id": other.runtime_id})
    world.enqueue()
    assert len(other.claim()) == 1


def test_an_agent_that_came_after_the_plan_was_looked_at_stops_it(world: World, meanwhile: Meanwhile) -> None:
    machine = world.machine()
    switch_off(machine)
    body = {"name": "bob", "runtime_id": machine.runtime_id}
    closing = lambda request: request["Key"]["sk"]["S"] == f"RT#{machine.runtime_id}"  # noqa: E731  # the very write
    meanwhile.before("UpdateItem", lambda: world.ok("POST", "/api/agents", body), when=closing)
    path = f"{path_of(machine)}/unbind-agents-and-delete"
    assert world.call("POST", path, {"expected_active_agent_ids": []}).error == "runtime_delete_plan_changed"
    assert world.ok("GET", "/api/agents/bob")["runtime_id"] == machine.runtime_id
