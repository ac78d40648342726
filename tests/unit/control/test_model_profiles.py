"""Model profiles: what a key means to a provider, who says so, and what a run is given."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.meanwhile import Meanwhile
from tests.fakes.sim_world import Clock, Machine, World
from tests.unit.control.test_agents import agent_path
from tests.unit.control.test_people import newcomer


@pytest.fixture
def claude(world: World) -> Machine:
    machine = world.machine("desktop", "claude")
    world.agent("cleo", machine)
    return machine


def put(world: World, key: str, **providers: Any) -> Any:
    return world.ok("PUT", f"/api/model-profiles/{key}", {"providers": providers})


def run(world: World, machine: Machine, agent: str = "cleo", **fields: Any) -> dict[str, Any]:
    """What the claim of a new task says of model, level, turns and tokens."""
    task = world.enqueue(agent, **fields)["id"]
    held = machine.claim()[0]
    world.ok("POST", f"/api/tasks/{task}/cancel")
    spec = held.payload["agent"]
    kept = {name: spec[name] for name in ("model", "thinking_level", "max_turns", "max_tokens")}
    return {name: value for name, value in kept.items() if value is not None}


def test_every_workspace_has_the_built_in_profiles(world: World) -> None:
    listed = {p["key"]: p for p in world.ok("GET", "/api/model-profiles")["items"]}
    assert set(listed) == {"default", "fast", "smart"}
    assert all(p["built_in"] and not p["own_providers"] for p in listed.values())
    assert listed["fast"]["providers"]["claude"]["model"] == "haiku"
    assert listed["smart"]["providers"]["codex"]["thinking_level"] == "high"


def test_a_tasks_profile_reaches_the_claim(world: World, claude: Machine) -> None:
    assert run(world, claude) == {}
    assert run(world, claude, model_profile="fast") == {"model": "haiku"}
    assert run(world, claude, model_profile="default") == {}
    put(world, "deep", claude={"model": "opus", "thinking_level": "max", "max_tokens": 64_000, "max_turns": 90})
    assert run(world, claude, model_profile="deep") == {
        "model": "opus",
        "thinking_level": "max",
        "max_tokens": 64_000,
        "max_turns": 90,
    }


def test_a_profile_is_what_it_means_when_the_task_is_claimed(world: World, claude: Machine) -> None:
    put(world, "deep", claude={"model": "sonnet"})
    world.enqueue("cleo", model_profile="deep")
    put(world, "deep", claude={"model": "opus"})
    assert claude.claim()[0].payload["agent"]["model"] == "opus"


def test_an_agents_profile_fills_what_the_agent_does_not_say_itself(world: World, claude: Machine) -> None:
    path = agent_path(world, "cleo")
    put(world, "deep", claude={"model": "opus", "thinking_level": "max", "max_turns": 90})
    assert world.ok("PATCH", path, {"model_profile": "deep"})["model_profile"] == "deep"
    assert run(world, claude) == {"model": "opus", "thinking_level": "max", "max_turns": 90}
    world.ok("PATCH", path, {"max_turns": 5})
    assert run(world, claude)["max_turns"] == 5
    world.ok("PATCH", path, {"model": "sonnet"})
    assert run(world, claude) == {"model": "sonnet", "max_turns": 5}, "the level was chosen for the other model"
    assert world.ok("PATCH", path, {"model_profile": None})["model_profile"] is None


def test_a_tasks_profile_goes_before_what_the_agent_says(world: World, claude: Machine) -> None:
    world.ok(
        "PATCH",
        agent_path(world, "cleo"),
        {"model": "opus", "thinking_level": "max", "max_turns": 9, "model_profile": "smart"},
    )
    assert run(world, claude, model_profile="fast") == {"model": "haiku", "max_turns": 9}
    assert run(world, claude, model_profile="default") == {"model": "opus", "thinking_level": "max", "max_turns": 9}


def test_an_own_meaning_of_a_built_in_key_is_for_its_providers_and_can_be_taken_back(
    world: World, claude: Machine
) -> None:
    shown = put(world, "fast", claude={"model": "sonnet"})
    assert (shown["built_in"], shown["own_providers"]) == (True, ["claude"])
    assert (shown["providers"]["claude"]["model"], shown["providers"]["codex"]["thinking_level"]) == ("sonnet", "low")
    assert run(world, claude, model_profile="fast") == {"model": "sonnet"}
    assert world.ok("DELETE", "/api/model-profiles/fast")["own_providers"] == []
    assert run(world, claude, model_profile="fast") == {"model": "haiku"}


def test_a_key_nobody_knows_is_refused_with_the_list(world: World, claude: Machine) -> None:
    put(world, "deep", claude={"model": "opus"})
    for method, path, body in [
        ("POST", "/api/tasks", {"agent": "cleo", "prompt": "p", "model_profile": "quick"}),
        ("PATCH", agent_path(world, "cleo"), {"model_profile": "quick"}),
        ("POST", "/api/agents", {"name": "n", "runtime_id": claude.runtime_id, "model_profile": "quick"}),
    ]:
        answer = world.call(method, path, body)
        assert (answer.status, answer.error) == (400, "unknown_model_profile")
        assert answer["details"]["profiles"] == ["deep", "default", "fast", "smart"]


def test_a_profile_that_agents_use_is_not_deleted(world: World, claude: Machine) -> None:
    put(world, "deep", claude={"model": "opus"})
    path = agent_path(world, "cleo")
    world.ok("PATCH", path, {"model_profile": "deep"})
    answer = world.call("DELETE", "/api/model-profiles/deep")
    assert (answer.status, answer.error) == (409, "model_profile_in_use")
    assert answer["details"]["agent_ids"] == [path.rpartition("/")[2]]
    world.ok("PATCH", path, {"model_profile": ""})
    world.ok("DELETE", "/api/model-profiles/deep")
    assert world.call("DELETE", "/api/model-profiles/deep").error == "model_profile_not_found"


def test_a_task_whose_profile_is_gone_runs_without_it_and_says_so(world: World, claude: Machine) -> None:
    put(world, "deep", claude={"model": "opus"})
    world.enqueue("cleo", model_profile="deep")
    world.ok("DELETE", "/api/model-profiles/deep")
    payload = claude.claim()[0].payload
    assert (payload["model_profile"], payload["model_profile_missing"]) == ("deep", True)
    assert payload["agent"]["model"] is None


def test_a_retry_and_a_rerun_use_the_profile_of_the_first_try(world: World, claude: Machine) -> None:
    first = world.enqueue("cleo", model_profile="fast")
    assert first["model_profile"] == "fast"
    held = claude.claim()[0]
    assert held.say("start").status == 200
    assert held.say("fail", error="e", failure_reason="agent_error.provider_network").status == 200
    again = claude.claim()[0]
    assert again.payload["agent"]["model"] == "haiku"
    assert again.say("start").status == again.say("complete", output="o").status == 200
    assert world.ok("POST", f"/api/tasks/{again.id}/rerun")["model_profile"] == "fast"


@pytest.mark.parametrize(
    ("providers", "error"),
    [
        ({}, "validation_failed"),
        ({"claude": {"thinking_level": "ultra"}}, "invalid_thinking_level"),
        ({"echo": {"thinking_level": "low"}}, "invalid_thinking_level"),
        ({"claude": {"model": "a\nb"}}, "invalid_model"),
        ({"claude": {"max_tokens": 0}}, "validation_failed"),
        ({"Claude Code": {"model": "opus"}}, "validation_failed"),
        ({f"p{n}": {} for n in range(51)}, "validation_failed"),
    ],
)
def test_a_profile_that_cannot_work_is_refused(world: World, providers: Any, error: str) -> None:
    assert world.call("PUT", "/api/model-profiles/deep", {"providers": providers}).error == error


@pytest.mark.parametrize("key", ["Deep", "a b", "-a", "x" * 41, "a%0Ab"])
def test_a_key_is_a_short_word(world: World, key: str) -> None:
    body = {"providers": {"claude": {"model": "opus"}}}
    assert world.call("PUT", f"/api/model-profiles/{key}", body).status in (404, 422)


def test_somebodys_own_provider_is_taken_at_its_word(world: World) -> None:
    own = world.machine("tower", "somebody-elses")
    world.agent("eve", own)
    put(world, "deep", **{"somebody-elses": {"model": "m", "thinking_level": "very"}})
    assert run(world, own, "eve", model_profile="deep") == {"model": "m", "thinking_level": "very"}


def test_a_workspace_has_fifty_profiles_of_its_own_and_not_one_more(world: World) -> None:
    for n in range(50):
        put(world, f"p{n}", claude={"model": "opus"})
    answer = world.call("PUT", "/api/model-profiles/p50", {"providers": {"claude": {"model": "opus"}}})
    assert (answer.status, answer.error) == (400, "too_many_profiles")
    put(world, "p49", claude={"model": "sonnet"})


def test_two_admins_who_set_two_profiles_at_once_set_both(clock: Clock) -> None:
    meanwhile = Meanwhile()
    world = World(clock=clock, faults=meanwhile)
    put(world, "first", claude={"model": "opus"})
    for operation in ("second", "third"):
        meanwhile.before("TransactWriteItems", lambda key=operation: put(world, key, claude={"model": "opus"}) and None)
        put(world, f"{operation}-beside", claude={"model": "opus"})
    own = {p["key"] for p in world.ok("GET", "/api/model-profiles")["items"] if not p["built_in"]}
    assert own == {"first", "second", "second-beside", "third", "third-beside"}
    world.close()


def test_a_profile_set_while_another_is_deleted_is_not_lost(clock: Clock) -> None:
    meanwhile = Meanwhile()
    world = World(clock=clock, faults=meanwhile)
    put(world, "deep", claude={"model": "opus"})
    meanwhile.before("TransactWriteItems", lambda: put(world, "other", claude={"model": "opus"}) and None)
    world.ok("DELETE", "/api/model-profiles/deep")
    own = {p["key"] for p in world.ok("GET", "/api/model-profiles")["items"] if not p["built_in"]}
    assert own == {"other"}
    world.close()


def test_only_admins_say_what_a_profile_means_and_it_is_written_down(world: World) -> None:
    member, _ = newcomer(world)
    body = {"providers": {"claude": {"model": "opus"}}}
    assert world.call("PUT", "/api/model-profiles/deep", body, member).status == 403
    assert world.call("DELETE", "/api/model-profiles/deep", token=member).status == 403
    put(world, "deep", claude={"model": "opus"})
    assert len(world.ok("GET", "/api/model-profiles", token=member)["items"]) == 4
    world.ok("DELETE", "/api/model-profiles/deep")
    deeds = [r["action"] for r in world.ok("GET", "/api/audit")["items"]]
    assert deeds[:2] == ["model_profile_deleted", "model_profile_set"]
