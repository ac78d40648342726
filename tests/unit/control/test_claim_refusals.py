"""Tasks that can never run: the claim that meets one ends it with a reason and hands out those behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from callboard_control.store import keys, table
from callboard_control.store.models import AgentItem, Item, MemberItem, RuntimeItem, TaskItem
from tests.fakes.meanwhile import Meanwhile
from tests.fakes.sim_world import Clock, Machine, World

ELSEWHERE = "0190a000-0000-7000-8000-000000000000"


@pytest.fixture
def meanwhile() -> Meanwhile:
    return Meanwhile()


@pytest.fixture
def world(clock: Clock, meanwhile: Meanwhile) -> Iterator[World]:
    world = World(clock=clock, faults=meanwhile)
    yield world
    world.close()


def changed(item: Item, *actions: Any) -> None:
    table.update(item, actions)


def of_task(task: Any) -> TaskItem:
    return TaskItem(keys.task(task["id"]), "T")


def of_agent(task: Any) -> AgentItem:
    return AgentItem(keys.workspace(task["workspace_id"]), f"AG#{task['agent_id']}")


def of_runtime(task: Any) -> RuntimeItem:
    return RuntimeItem(keys.workspace(task["workspace_id"]), f"RT#{task['runtime_id']}")


def without_agent(task: Any) -> None:
    stored = table.get(TaskItem, keys.task(task["id"]), "T")
    assert stored is not None
    turn = stored.rsk.split("#")[0]
    changed(of_task(task), TaskItem.agent_id.remove(), TaskItem.rsk.set(f"{turn}#{task['id']}"))


# Each makes one stored task wrong; none of these can come about through the API.
OF_THE_TASK: dict[str, tuple[Callable[[Any], None], str]] = {
    "a task without an agent": (without_agent, "invalid_task_identity"),
    "a task that lost its agent but not its row": (
        lambda t: changed(of_task(t), TaskItem.agent_id.remove()),
        "invalid_task_identity",
    ),
    "a task that names another agent than its row": (
        lambda t: changed(of_task(t), TaskItem.agent_id.set(ELSEWHERE)),
        "invalid_task_identity",
    ),
    "a task that names another id than its key": (
        lambda t: changed(of_task(t), TaskItem.id.set(ELSEWHERE)),
        "invalid_task_identity",
    ),
    "a task that names another runtime than the one it waits for": (
        lambda t: changed(of_task(t), TaskItem.runtime_id.set(ELSEWHERE)),
        "invalid_task_identity",
    ),
    "a task without a runtime": (
        lambda t: changed(of_task(t), TaskItem.runtime_id.remove()),
        "invalid_task_identity",
    ),
    "a task of another workspace": (
        lambda t: changed(of_task(t), TaskItem.workspace_id.set(ELSEWHERE)),
        "workspace_mismatch",
    ),
}
OF_THE_AGENT: dict[str, tuple[Callable[[Any], None], str]] = {
    "an agent that is gone": (lambda t: table.delete(of_agent(t)), "invalid_task_identity"),
    "an agent that says it is another": (
        lambda t: changed(of_agent(t), AgentItem.id.set(ELSEWHERE)),
        "invalid_task_identity",
    ),
    "an agent of another workspace": (
        lambda t: changed(of_agent(t), AgentItem.workspace_id.set(ELSEWHERE)),
        "workspace_mismatch",
    ),
    "an agent without a runtime": (
        lambda t: changed(of_agent(t), AgentItem.runtime_id.remove()),
        "agent_without_runtime",
    ),
}
OF_THE_RUNTIME: dict[str, tuple[Callable[[Any], None], str]] = {
    "a runtime that is gone": (lambda t: table.delete(of_runtime(t)), "invalid_task_identity"),
    "a runtime of another workspace": (
        lambda t: changed(of_runtime(t), RuntimeItem.workspace_id.set(ELSEWHERE)),
        "workspace_mismatch",
    ),
    "a runtime without an owner": (
        lambda t: changed(of_runtime(t), RuntimeItem.owner_id.remove()),
        "runtime_without_owner",
    ),
    "a runtime whose owner is no member": (
        lambda t: changed(of_runtime(t), RuntimeItem.owner_id.set(ELSEWHERE)),
        "runtime_without_owner",
    ),
}


def refused(task_id: str) -> TaskItem:
    """The task as it is stored; its views are its workspace's, and that is what one of these lost."""
    stored = table.get(TaskItem, keys.task(task_id), "T")
    assert stored is not None
    assert stored.status == "failed"
    assert stored.error
    assert not {"rpk", "rsk"} & stored.attribute_values.keys()
    return stored


def claim_one(machine: Machine) -> list[str]:
    """A claim as daemons make it that know of one runtime at a time; ids of what was handed out."""
    path = f"/api/daemon/runtimes/{machine.runtime_id}/tasks/claim"
    task = machine.world.ok("POST", path, {"daemon_id": machine.daemon_id}, machine.token)["task"]
    return [task["id"]] if task else []


def claim_many(machine: Machine) -> list[str]:
    return [held.id for held in machine.claim(8)]


CLAIMS = pytest.mark.parametrize("claim", [claim_one, claim_many], ids=["single", "batch"])


@CLAIMS
@pytest.mark.parametrize("wrong", OF_THE_TASK)
def test_one_task_that_can_never_run_is_ended_and_the_one_behind_it_handed_out(
    world: World, machine: Machine, claim: Callable[[Machine], list[str]], wrong: str
) -> None:
    spoil, reason = OF_THE_TASK[wrong]
    task, behind = world.enqueue(priority=4, issue_id="i-1"), world.enqueue(issue_id="i-2")
    spoil(task)
    assert claim(machine) == [behind["id"]]
    assert refused(task["id"]).failure_reason == reason


@CLAIMS
@pytest.mark.parametrize("wrong", OF_THE_AGENT)
def test_a_broken_agents_tasks_are_ended_and_another_agents_handed_out(
    world: World, machine: Machine, claim: Callable[[Machine], list[str]], wrong: str
) -> None:
    spoil, reason = OF_THE_AGENT[wrong]
    world.agent("bob", machine)
    tasks = [world.enqueue(prompt=str(n)) for n in range(3)]
    behind = world.enqueue("bob")
    spoil(tasks[0])
    assert claim(machine) == [behind["id"]]
    assert {refused(task["id"]).failure_reason for task in tasks} == {reason}


@pytest.mark.parametrize("wrong", OF_THE_RUNTIME)
def test_a_broken_runtimes_tasks_are_ended_and_another_runtimes_handed_out(
    world: World, machine: Machine, wrong: str
) -> None:
    spoil, reason = OF_THE_RUNTIME[wrong]
    offers = [{"name": name, "type": name} for name in ("echo", "claude")]
    body = {"daemon_id": machine.daemon_id, "device_name": machine.daemon_id, "runtimes": offers}
    both = [runtime["id"] for runtime in world.ok("POST", "/api/daemon/register", body, machine.token)["runtimes"]]
    world.ok("POST", "/api/agents", {"name": "bob", "runtime_id": both[1]})
    tasks = [world.enqueue(prompt=str(n)) for n in range(3)]
    behind = world.enqueue("bob")
    spoil(tasks[0])
    wanted = {"daemon_id": machine.daemon_id, "runtime_ids": both, "max_tasks": 8}
    answer = world.ok("POST", "/api/daemon/tasks/claim", wanted, machine.token)
    assert [task["id"] for task in answer["tasks"]] == [behind["id"]]
    assert {refused(task["id"]).failure_reason for task in tasks} == {reason}


@pytest.mark.parametrize("wrong", OF_THE_RUNTIME)
def test_a_single_claim_for_a_broken_runtime_ends_what_waits_and_hands_out_nothing(
    world: World, machine: Machine, wrong: str
) -> None:
    spoil, reason = OF_THE_RUNTIME[wrong]
    task = world.enqueue()
    spoil(task)
    assert claim_one(machine) == []
    assert refused(task["id"]).failure_reason == reason


def test_an_owner_who_is_no_member_any_more_has_no_runs_made_for_them(world: World, machine: Machine) -> None:
    task = world.enqueue()
    table.delete(MemberItem(keys.workspace(world.workspace_id), f"ME#{world.me['user_id']}"))
    assert claim_many(machine) == []
    assert refused(task["id"]).failure_reason == "runtime_without_owner"


def test_the_history_says_by_whom_and_why_a_task_was_refused(world: World, machine: Machine) -> None:
    task = world.enqueue()
    changed(of_runtime(task), RuntimeItem.owner_id.remove())
    claim_many(machine)
    seen = world.task(task["id"])
    last = seen["moves"][-1]
    assert [move["move"] for move in seen["moves"]] == ["enqueue", "refuse"]
    assert (last["start"], last["end"], last["by"], last["reason"]) == (
        "queued",
        "failed",
        "system",
        "runtime_without_owner",
    )
    assert "owns the runtime" in seen["error"]


def test_a_task_that_was_claimed_before_its_owner_left_is_not_handed_out_again(
    world: World, machine: Machine, clock: Clock
) -> None:
    task = world.enqueue()
    machine.claim(claim_id="c-1")
    changed(of_runtime(task), RuntimeItem.owner_id.remove())
    assert machine.claim(claim_id="c-1") == []
    assert refused(task["id"]).failure_reason == "runtime_without_owner"
    clock.forward(60)
    world.tick()
    assert world.task(task["id"])["retried_by_task_id"] == ""


def test_a_refused_task_gives_its_issues_place_to_the_next_wish(world: World, machine: Machine) -> None:
    task = world.enqueue(issue_id="i-1", prompt="a")
    changed(of_task(task), TaskItem.workspace_id.set(ELSEWHERE))
    assert claim_many(machine) == []
    again = world.enqueue(issue_id="i-1", prompt="b")
    assert claim_many(machine) == [again["id"]]


def test_refusing_a_task_with_the_wrong_id_leaves_the_one_it_names_alone(world: World, machine: Machine) -> None:
    other = world.enqueue(fire_at="2030-01-01T00:00:00Z")
    task = world.enqueue()
    changed(of_task(task), TaskItem.id.set(other["id"]))
    assert claim_many(machine) == []
    assert refused(task["id"]).failure_reason == "invalid_task_identity"
    assert world.task(other["id"])["status"] == "deferred"


def test_a_task_without_an_agent_can_be_looked_at_explained_and_cancelled(world: World, machine: Machine) -> None:
    task = world.enqueue(issue_id="i-1")
    without_agent(task)
    assert world.task(task["id"])["waiting"]["code"] == "agent_missing"
    assert [t["id"] for t in world.ok("GET", "/api/tasks")["items"]] == [task["id"]]
    assert world.ok("POST", f"/api/tasks/{task['id']}/cancel")["status"] == "cancelled"


def test_a_deferred_task_without_an_agent_ends_when_it_is_due(world: World, machine: Machine, clock: Clock) -> None:
    task = world.enqueue(issue_id="i-1", fire_at="2030-01-01T00:00:00Z")
    changed(of_task(task), TaskItem.agent_id.remove())
    clock.forward(20 * 365 * 24 * 3600)
    world.tick()
    assert refused(task["id"]).failure_reason == "invalid_task_identity"


@pytest.mark.parametrize("wrong", ["an agent without a runtime", "a runtime without an owner"])
def test_why_a_task_will_be_refused_is_said_before_a_claim_meets_it(world: World, machine: Machine, wrong: str) -> None:
    spoil, reason = (OF_THE_AGENT | OF_THE_RUNTIME)[wrong]
    task = world.enqueue()
    spoil(task)
    assert world.task(task["id"])["waiting"]["code"] == reason


def test_a_hundred_broken_tasks_hold_up_no_claim(world: World, machine: Machine) -> None:
    world.agent("gone", machine)
    broken = [world.enqueue("gone", str(n)) for n in range(100)]
    behind = world.enqueue()
    table.delete(of_agent(broken[0]))
    assert claim_one(machine) == [behind["id"]]
    assert {refused(task["id"]).failure_reason for task in broken} == {"invalid_task_identity"}


def test_knowing_whose_runtime_it_is_costs_a_claim_no_call_of_its_own(
    world: World, machine: Machine, meanwhile: Meanwhile
) -> None:
    world.enqueue()
    before = dict(meanwhile.asked)
    assert len(claim_many(machine)) == 1
    asked = {name: count - before.get(name, 0) for name, count in meanwhile.asked.items()}
    assert asked["GetItem"] == 1  # the daemon's own token
    assert asked["BatchGetItem"] == 1


def test_a_runtime_a_daemon_adds_by_itself_is_its_owners(world: World, machine: Machine) -> None:
    offers = [{"name": name, "type": name} for name in ("echo", "claude")]
    body = {"daemon_id": machine.daemon_id, "device_name": machine.daemon_id, "runtimes": offers}
    added = world.ok("POST", "/api/daemon/register", body, machine.token)["runtimes"][1]["id"]
    world.ok("POST", "/api/agents", {"name": "bob", "runtime_id": added})
    task = world.enqueue("bob")
    wanted = {"daemon_id": machine.daemon_id, "runtime_ids": [added], "max_tasks": 1}
    answer = world.ok("POST", "/api/daemon/tasks/claim", wanted, machine.token)
    assert [t["id"] for t in answer["tasks"]] == [task["id"]]
