"""Whether an agent can work, why not, and what to do: in the list as in the single answer."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.sim_world import Clock, Machine, World
from tests.unit.control.test_agents import agent_path
from tests.unit.control.test_people import newcomer


def readiness(world: World, name: str = "ada") -> tuple[str, list[str]]:
    """The state and the codes; the list says the same."""
    shown = world.ok("GET", f"/api/agents/{name}")
    listed = world.ok("GET", "/api/agents", query={"include_archived": "true"})["items"]
    assert [a["readiness"] for a in listed if a["id"] == shown["id"]] == [shown["readiness"]]
    return shown["readiness"]["state"], [r["code"] for r in shown["readiness"]["reasons"]]


def test_an_agent_on_a_machine_that_is_online_is_ready(world: World, machine: Machine) -> None:
    assert readiness(world) == ("ready", ["no_model"])
    world.ok("PATCH", agent_path(world), {"model": "m"})
    assert readiness(world) == ("ready", [])


def test_every_reason_says_what_to_do(world: World, machine: Machine, clock: Clock) -> None:
    clock.forward(3600)
    [offline, no_model] = world.ok("GET", "/api/agents/ada")["readiness"]["reasons"]
    assert offline["message"].startswith("The machine laptop is offline since 2027-")
    assert offline["repair"] == "On that machine: callboard daemon start"
    assert no_model["weight"] == "known"


def test_work_for_an_agent_whose_machine_is_offline_waits(world: World, machine: Machine, clock: Clock) -> None:
    clock.forward(3600)
    assert readiness(world) == ("waiting", ["runtime_offline", "no_model"])
    assert world.enqueue()["status"] == "queued"


def test_a_cli_that_cannot_be_started_blocks_with_its_repair(world: World, machine: Machine) -> None:
    reason = {"code": "not_executable", "repair": {"command": "npm rebuild"}}
    body = {"runtime_ids": [machine.runtime_id], "offline_reasons": {machine.runtime_id: reason}}
    assert machine.call("POST", "/api/daemon/deregister", body).status == 200
    assert readiness(world) == ("blocked", ["runtime_unusable", "no_model"])
    assert world.ok("GET", "/api/agents/ada")["readiness"]["reasons"][0]["repair"] == "npm rebuild"


@pytest.mark.parametrize("repair", [None, "text", {"command": 7}, {}])
def test_a_machines_odd_repair_does_not_break_the_answer(world: World, machine: Machine, repair: Any) -> None:
    reason = {"code": "not_executable", "repair": repair}
    body = {"runtime_ids": [machine.runtime_id], "offline_reasons": {machine.runtime_id: reason}}
    assert machine.call("POST", "/api/daemon/deregister", body).status == 200
    assert readiness(world)[0] == "blocked"


def test_an_archived_agent_and_an_unbound_one_are_blocked(world: World, machine: Machine) -> None:
    path = agent_path(world)
    world.ok("PATCH", path, {"runtime_id": None})
    assert readiness(world) == ("blocked", ["agent_runtime_required", "no_model"])
    world.ok("POST", f"{path}/archive")
    assert readiness(world, path.rpartition("/")[2])[1][:2] == ["agent_archived", "agent_runtime_required"]


def test_a_runtime_that_is_gone_or_nobodys_blocks(world: World, machine: Machine) -> None:
    key = {"pk": {"S": f"WS#{world.workspace_id}"}, "sk": {"S": f"RT#{machine.runtime_id}"}}
    world.engine.execute("UpdateItem", {"TableName": "callboard", "Key": key, "UpdateExpression": "REMOVE ow"})
    assert readiness(world) == ("blocked", ["runtime_without_owner", "no_model"])
    world.engine.execute("DeleteItem", {"TableName": "callboard", "Key": key})
    assert readiness(world) == ("blocked", ["runtime_missing", "no_model"])


def test_settings_without_effect_are_told_and_block_nothing(world: World, machine: Machine) -> None:
    path = agent_path(world)
    world.ok("PUT", "/api/model-profiles/deep", {"providers": {"claude": {"model": "opus"}}})
    world.ok("PATCH", path, {"model": "claude-opus-5", "max_turns": 5, "model_profile": "deep"})
    assert readiness(world) == (
        "ready",
        ["model_of_another_provider", "max_turns_ignored", "model_profile_says_nothing"],
    )
    world.ok("PATCH", path, {"model": None, "max_turns": None, "model_profile": "default"})
    assert readiness(world) == ("ready", [])


def test_the_list_reads_its_surroundings_once_however_many_agents_it_shows(world: World, machine: Machine) -> None:
    """Each of them has a runtime, a slot and a machine; one read an agent would be three hundred a page."""
    calls: list[str] = []
    execute = world.engine.execute

    def counted(operation: str, request: dict[str, Any]) -> Any:
        calls.append(operation)
        return execute(operation, request)

    for n in range(30):
        world.agent(f"a{n}", machine)
    world.engine.execute = counted  # type: ignore[method-assign]
    few = world.ok("GET", "/api/agents", query={"limit": 2})
    two, calls[:] = len(calls), []
    many = world.ok("GET", "/api/agents", query={"limit": 30})
    assert (len(few["items"]), len(many["items"])) == (2, 30)
    assert len(calls) == two > 5


def test_a_member_sees_the_readiness_of_what_they_may_use(world: World, machine: Machine) -> None:
    member, _ = newcomer(world)
    world.ok("PATCH", agent_path(world), {"permission_mode": "public_to", "model": "m"})
    [shown] = world.ok("GET", "/api/agents", token=member)["items"]
    assert shown["readiness"] == {"state": "ready", "reasons": []}
