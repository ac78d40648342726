"""What an agent's settings may be, and what becomes of them when it gets another runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.meanwhile import Meanwhile
from tests.fakes.sim_world import Clock, Machine, World
from tests.unit.control.test_agents import agent_path


@pytest.fixture
def claude(world: World) -> Machine:
    return world.machine("desktop", "claude")


@pytest.fixture
def codex(world: World) -> Machine:
    return world.machine("tower", "codex")


def claimed(world: World, machine: Machine, agent: str) -> Any:
    world.enqueue(agent)
    return machine.claim()[0].payload["agent"]


# ── thinking level ───────────────────────────────────────────────────────────


def test_a_thinking_level_that_is_absent_stays_and_null_or_empty_clears(world: World, claude: Machine) -> None:
    path = f"/api/agents/{world.agent('ada', claude, thinking_level='high')['id']}"
    assert world.ok("PATCH", path, {"description": "d"})["thinking_level"] == "high"
    assert claimed(world, claude, "ada")["thinking_level"] == "high"
    assert world.ok("PATCH", path, {"thinking_level": ""})["thinking_level"] is None
    assert world.ok("PATCH", path, {"thinking_level": "max"})["thinking_level"] == "max"
    assert world.ok("PATCH", path, {"thinking_level": None})["thinking_level"] is None
    assert claimed(world, claude, "ada")["thinking_level"] is None


def test_a_thinking_level_is_refused_with_the_providers_own(world: World, claude: Machine) -> None:
    path = f"/api/agents/{world.agent('ada', claude)['id']}"
    for answer in (
        world.call("PATCH", path, {"thinking_level": "ultra"}),
        world.call("POST", "/api/agents", {"name": "n", "runtime_id": claude.runtime_id, "thinking_level": "ultra"}),
    ):
        assert (answer.status, answer.error) == (400, "invalid_thinking_level")
        assert answer["details"]["levels"] == ["low", "medium", "high", "xhigh", "max"]


def test_a_provider_without_control_over_thinking_says_so(world: World, machine: Machine) -> None:
    answer = world.call("PATCH", agent_path(world), {"thinking_level": "low"})
    assert (answer.error, answer["message"]) == (
        "invalid_thinking_level",
        "The thinking level cannot be 'low': echo has no control over thinking.",
    )


def test_another_runtime_keeps_a_level_it_knows_and_refuses_one_it_does_not(
    world: World, claude: Machine, codex: Machine, machine: Machine
) -> None:
    path = f"/api/agents/{world.agent('eve', codex, thinking_level='high')['id']}"
    assert world.ok("PATCH", path, {"runtime_id": claude.runtime_id})["thinking_level"] == "high"
    answer = world.call("PATCH", path, {"runtime_id": machine.runtime_id})
    assert (answer.status, answer.error) == (400, "thinking_level_of_old_provider")
    assert world.ok("GET", path)["provider"] == "claude", "a refused change changes nothing"
    moved = world.ok("PATCH", path, {"runtime_id": machine.runtime_id, "thinking_level": None})
    assert (moved["provider"], moved["thinking_level"]) == ("echo", None)


def test_a_level_set_while_the_agent_moves_to_another_provider_is_not_left_on_it(clock: Clock) -> None:
    """Both changes were checked against what the other one is about to replace."""
    meanwhile = Meanwhile()
    world = World(clock=clock, faults=meanwhile)
    claude, echo = world.machine("a", "claude"), world.machine("b", "echo")
    path = f"/api/agents/{world.agent('ada', claude)['id']}"
    meanwhile.before("TransactWriteItems", lambda: world.ok("PATCH", path, {"runtime_id": echo.runtime_id}) and None)
    answer = world.call("PATCH", path, {"thinking_level": "high"})
    assert (answer.status, answer.error) == (409, "contended")
    shown = world.ok("GET", path)
    assert (shown["provider"], shown["thinking_level"]) == ("echo", None)
    world.close()


def test_a_service_tier_is_codexs_alone(world: World, codex: Machine, machine: Machine) -> None:
    path = f"/api/agents/{world.agent('eve', codex, service_tier='fast')['id']}"
    assert claimed(world, codex, "eve")["service_tier"] == "fast"
    assert world.call("PATCH", path, {"service_tier": "no word"}).error == "invalid_service_tier"
    assert world.call("PATCH", agent_path(world), {"service_tier": "fast"}).error == "invalid_service_tier"
    assert world.call("PATCH", path, {"runtime_id": machine.runtime_id}).error == "service_tier_of_old_provider"


# ── model ────────────────────────────────────────────────────────────────────


def test_a_model_known_to_be_the_old_providers_goes_with_it(world: World, claude: Machine, codex: Machine) -> None:
    path = f"/api/agents/{world.agent('eve', claude, model='claude-opus-5')['id']}"
    assert world.ok("PATCH", path, {"runtime_id": codex.runtime_id})["model"] is None


def test_a_model_nobody_knows_is_somebodys_own_and_stays(world: World, claude: Machine, codex: Machine) -> None:
    path = f"/api/agents/{world.agent('eve', claude, model='our-deployment')['id']}"
    assert world.ok("PATCH", path, {"runtime_id": codex.runtime_id})["model"] == "our-deployment"


def test_a_model_sent_with_the_new_runtime_is_taken(world: World, claude: Machine, codex: Machine) -> None:
    path = f"/api/agents/{world.agent('eve', claude, model='opus')['id']}"
    sent = {"runtime_id": codex.runtime_id, "model": "gpt-5.5"}
    assert world.ok("PATCH", path, sent)["model"] == "gpt-5.5"


def test_a_runtime_deleted_at_the_moment_of_the_change_does_not_keep_the_agent(clock: Clock) -> None:
    meanwhile = Meanwhile()
    world = World(clock=clock, faults=meanwhile)
    first, second = world.machine("a"), world.machine("b")
    path = f"/api/agents/{world.agent('ada', first)['id']}"

    def gone() -> None:
        key = {"pk": {"S": f"WS#{world.workspace_id}"}, "sk": {"S": f"RT#{second.runtime_id}"}}
        world.engine.execute("DeleteItem", {"TableName": "callboard", "Key": key})

    meanwhile.before("TransactWriteItems", gone)
    answer = world.call("PATCH", path, {"runtime_id": second.runtime_id})
    assert (answer.status, answer.error) == (400, "runtime_not_found")
    assert world.ok("GET", path)["runtime_id"] == first.runtime_id
    world.close()


def test_a_task_made_before_the_move_is_not_given_what_belongs_to_the_new_provider(
    world: World, claude: Machine, codex: Machine
) -> None:
    path = f"/api/agents/{world.agent('eve', codex)['id']}"
    world.enqueue("eve")
    world.ok("PATCH", path, {"runtime_id": claude.runtime_id, "model": "opus", "thinking_level": "max"})
    world.enqueue("eve")
    there, here = codex.claim()[0].payload, claude.claim()[0].payload
    assert (there["provider"], there["agent"]["model"], there["agent"]["thinking_level"]) == ("codex", None, "max")
    assert (here["provider"], here["agent"]["model"]) == ("claude", "opus")


def test_a_task_that_waits_where_its_agent_no_longer_works_says_how_to_take_it_along(
    world: World, claude: Machine, codex: Machine, clock: Clock
) -> None:
    path = f"/api/agents/{world.agent('eve', codex)['id']}"
    task = world.enqueue("eve")["id"]
    world.ok("PATCH", path, {"runtime_id": claude.runtime_id})
    clock.forward(3600)
    assert f"callboard task rerun {task}" in world.task(task)["waiting"]["message"]
    again = world.ok("POST", f"/api/tasks/{task}/rerun")
    assert (again["runtime_id"], world.task(task)["status"]) == (claude.runtime_id, "cancelled")


# ── what nobody should send ──────────────────────────────────────────────────


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return {"mcpServers": {"deep": value}}


BAD: dict[str, tuple[dict[str, Any], int]] = {
    "a control character in the name": ({"name": "a\x07b"}, 400),
    "a name that turns the line around": ({"name": "a\u202egnp.exe"}, 400),
    "a zero-width space in the name": ({"name": "ad\u200ba"}, 400),
    "half a surrogate pair as the name": ({"name": "\ud800"}, 400),
    "a name of 10 kB": ({"name": "x" * 10_000}, 422),
    "a description that a terminal obeys": ({"description": "a\x1b[2Jb"}, 400),
    "a description that turns the line around": ({"description": "a\u202eb"}, 400),
    "a model of two lines": ({"model": "a\nb"}, 400),
    "instructions beyond their length": ({"instructions": "x" * 100_001}, 422),
    "an mcp_config that is a list": ({"mcp_config": []}, 422),
    "an mcp_config that is text": ({"mcp_config": "{}"}, 422),
    "servers that are no object": ({"mcp_config": {"mcpServers": ["a"]}}, 400),
    "a server that is no object": ({"mcp_config": {"mcpServers": {"a": "b"}}}, 400),
    "an mcp_config 100 deep": ({"mcp_config": nested(100)}, 400),
    "an mcp_config beyond an item's size": ({"mcp_config": {"mcpServers": {"a": {"x": "y" * 400_000}}}}, 413),
    "1001 arguments": ({"custom_args": ["-v"] * 1001}, 422),
    "an argument with a NUL": ({"custom_args": ["-v", "a\x00b"]}, 400),
    "arguments that are no texts": ({"custom_args": [1]}, 422),
    "arguments beyond an item's size": ({"custom_args": ["x" * 8000] * 50}, 413),
    "no concurrency at all": ({"max_concurrent_tasks": 0}, 422),
    "no turns at all": ({"max_turns": 0}, 422),
    "a profile nobody knows": ({"model_profile": "quick"}, 400),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_work_is_refused_on_create_and_on_update_and_changes_nothing(
    world: World, machine: Machine, case: str
) -> None:
    fields, status = BAD[case]
    path = agent_path(world)
    before = world.ok("GET", path)
    assert world.call("PATCH", path, fields).status == status
    assert (
        world.call("POST", "/api/agents", {"name": "eve", "runtime_id": machine.runtime_id, **fields}).status == status
    )
    assert world.ok("GET", path) == before
    assert len(world.ok("GET", "/api/agents")["items"]) == 1


GOOD: dict[str, tuple[dict[str, Any], Callable[[Any], bool]]] = {
    "a name in another script": ({"name": "Агент 7"}, lambda a: a["name"] == "Агент 7"),
    "1000 arguments": ({"custom_args": ["-v"] * 1000}, lambda a: len(a["custom_args"]) == 1000),
    "a server of some depth": ({"mcp_config": nested(28)}, lambda a: a["mcp_config"] == nested(28)),
    "instructions with a NUL": ({"instructions": "a\x00b"}, lambda a: a["instructions"] == "ab"),
    "a description of two lines": ({"description": "a\n\tb"}, lambda a: a["description"] == "a b"),
    "a model with spaces around": ({"model": " m "}, lambda a: a["model"] == "m"),
    "a model of spaces": ({"model": "  "}, lambda a: a["model"] is None),
    "null for the concurrency": ({"max_concurrent_tasks": None}, lambda a: a["max_concurrent_tasks"] == 6),
}


@pytest.mark.parametrize("case", GOOD)
def test_what_can_work_is_taken_as_it_is_meant(world: World, machine: Machine, case: str) -> None:
    fields, holds = GOOD[case]
    assert holds(world.ok("PATCH", agent_path(world), fields))
    body = {"name": "eve", "runtime_id": machine.runtime_id, **fields}
    if "name" in fields:
        world.ok("PATCH", agent_path(world, fields["name"]), {"name": "ada"})
    assert holds(world.ok("POST", "/api/agents", body))


def test_the_longest_arguments_reach_the_claim(world: World, machine: Machine) -> None:
    args = [f"--flag-{n}" for n in range(1000)]
    world.ok("PATCH", agent_path(world), {"custom_args": args})
    assert claimed(world, machine, "ada")["custom_args"] == args


@pytest.mark.parametrize("mask", ["***", "****"])
def test_a_mask_with_nothing_behind_it_is_never_stored(world: World, machine: Machine, mask: str) -> None:
    config = {"mcpServers": {"a": {"command": "c", "env": {"KEY": mask}}}}
    made = world.agent("eve", machine, mcp_config=config)
    assert made["mcp_config"] == {"mcpServers": {"a": {"command": "c", "env": {}}}}


def test_an_archived_agent_with_queued_and_deferred_tasks_keeps_none_of_them(
    world: World, machine: Machine, clock: Clock
) -> None:
    queued = world.enqueue()["id"]
    later = world.enqueue(fire_at="2027-02-01T00:00:00Z")["id"]
    issue = world.enqueue(issue_id="i")["id"]
    path = agent_path(world)
    world.ok("POST", f"{path}/archive")
    assert {world.task(task)["status"] for task in (queued, later, issue)} == {"cancelled"}
    assert machine.claim(3) == []
    for body in ({"agent": "ada", "prompt": "p"}, {"agent": "ada", "prompt": "p", "issue_id": "i"}):
        assert world.call("POST", "/api/tasks", body).error == "agent_archived"
    assert world.call("POST", f"/api/tasks/{queued}/rerun").error == "agent_archived"
