"""Which session and folder a follow-up is offered, and which failures end a conversation for good."""

from __future__ import annotations

import pytest

from callboard_wire.failures import FAILURES, FailureReason
from tests.fakes.sim_world import Clock, Machine, World


def run(world: World, machine: Machine, verb: str = "complete", session: str = "s-1", **fields: object) -> dict:  # type: ignore[type-arg]
    world.enqueue(issue_id="i-1", prompt=f"{verb} {session}", max_attempts=1)
    held = machine.claim()[0]
    held.say("start", work_dir="/w")
    assert held.say(verb, session_id=session, **fields).status == 200
    return held.payload


def offered(world: World, machine: Machine) -> tuple[str, str]:
    world.enqueue(issue_id="i-1", prompt="next", max_attempts=1)
    held = machine.claim()[0]
    return held.payload["prior_session_id"], held.payload["prior_work_dir"]


def test_a_follow_up_on_the_same_issue_is_offered_the_session_and_the_folder(world: World, machine: Machine) -> None:
    run(world, machine)
    assert offered(world, machine) == ("s-1", "/w")


def test_another_issue_is_offered_nothing(world: World, machine: Machine) -> None:
    run(world, machine)
    world.enqueue(issue_id="i-2")
    assert machine.claim()[0].payload["prior_session_id"] == ""


@pytest.mark.parametrize("reason", FailureReason)
def test_a_failed_session_is_offered_again_unless_its_reason_poisons_it(
    world: World, machine: Machine, reason: FailureReason
) -> None:
    run(world, machine, "fail", error="x", failure_reason=reason.value)
    expected = "" if FAILURES[reason].poisons_session else "s-1"
    assert offered(world, machine) == (expected, "/w")


def test_a_retired_session_is_never_offered_again(world: World, machine: Machine) -> None:
    run(world, machine)
    run(world, machine, session="s-2", retired_session_id="s-1")
    assert offered(world, machine)[0] == "s-2"


def test_a_cancelled_run_can_be_resumed(world: World, machine: Machine) -> None:
    task = world.enqueue(issue_id="i-1")
    held = machine.claim()[0]
    held.say("start", work_dir="/w")
    held.say("session", session_id="s-1", work_dir="/w")
    world.ok("POST", f"/api/tasks/{task['id']}/cancel")
    assert offered(world, machine) == ("s-1", "/w")


def test_a_lost_rollout_is_told_to_the_next_run_as_a_gap(world: World, machine: Machine) -> None:
    run(world, machine, session_rollout_missing=True)
    world.enqueue(issue_id="i-1", prompt="next")
    payload = machine.claim()[0].payload
    assert (payload["prior_session_id"], payload["prior_session_resume_unavailable"]) == ("", True)


def test_a_session_of_another_runtime_is_not_offered_but_its_folder_is(world: World, machine: Machine) -> None:
    run(world, machine)
    other = world.machine("desktop")
    agent = world.ok("GET", "/api/agents/ada")
    key = {"pk": {"S": f"WS#{world.workspace_id}"}, "sk": {"S": f"AG#{agent['id']}"}}
    world.engine.execute(
        "UpdateItem",
        {
            "TableName": "callboard",
            "Key": key,
            "UpdateExpression": "SET rt = :r",
            "ExpressionAttributeValues": {":r": {"S": other.runtime_id}},
        },
    )
    assert offered(world, other) == ("", "/w")


def test_a_plain_task_may_resume_a_named_one_of_the_same_agent_only(world: World, machine: Machine) -> None:
    first = world.enqueue()
    held = machine.claim()[0]
    held.say("start", work_dir="/w")
    held.say("complete", session_id="s-1")
    world.enqueue(prompt="go on", resume_task_id=first["id"])
    assert machine.claim()[0].payload["prior_session_id"] == "s-1"
    world.agent("bob", machine)
    refused = world.call("POST", "/api/tasks", {"agent": "bob", "prompt": "x", "resume_task_id": first["id"]})
    assert (refused.status, refused.error) == (400, "other_agents_session")


def test_a_rerun_replaces_what_has_not_started_and_queues_behind_what_runs(world: World, machine: Machine) -> None:
    source = run(world, machine)["id"]
    waiting = world.enqueue(issue_id="i-1", prompt="waits")
    made = world.ok("POST", "/api/issues/i-1/rerun", {"task_id": source})
    assert world.task(waiting["id"])["status"] == "cancelled"
    held = machine.claim()[0]
    assert (held.id, held.payload["prior_session_id"], held.payload["prior_work_dir"]) == (made["id"], "s-1", "/w")
    held.say("start")
    behind = world.ok("POST", "/api/issues/i-1/rerun", {"task_id": source})
    assert world.task(held.id)["status"] == "running"
    assert world.task(behind["id"])["waiting"]["code"] == "serialised"


def test_a_rerun_of_a_task_of_another_issue_is_refused(world: World, machine: Machine) -> None:
    source = run(world, machine)["id"]
    answer = world.call("POST", "/api/issues/i-9/rerun", {"task_id": source})
    assert (answer.status, answer.error) == (400, "task_of_another_issue")


def test_cancelling_all_of_an_agent_reaches_what_runs_waits_and_is_deferred(
    world: World, machine: Machine, clock: Clock
) -> None:
    world.agent("bob", machine)
    others = world.enqueue("bob")
    running = world.enqueue()
    held = {t.id: t for t in machine.claim(2)}
    held[running["id"]].say("start")
    waiting = world.enqueue()
    deferred = world.enqueue(fire_at="2027-02-01T00:00:00Z")
    answer = world.ok("POST", "/api/agents/ada/cancel-tasks")
    assert set(answer["task_ids"]) == {running["id"], waiting["id"], deferred["id"]}
    assert world.task(others["id"])["status"] == "dispatched"


def test_cancelling_a_queued_batch_leaves_what_was_claimed_meanwhile(world: World, machine: Machine) -> None:
    ids = [world.enqueue()["id"] for _ in range(3)]
    claimed = machine.claim()[0].id
    answer = world.ok("POST", "/api/tasks/cancel", {"task_ids": [*ids, "unknown"], "only_queued": True})
    assert set(answer["task_ids"]) == set(ids) - {claimed}


def test_the_queue_is_shown_in_the_order_it_will_be_claimed(world: World, machine: Machine) -> None:
    ids = [world.enqueue(priority=p)["id"] for p in (0, 4, 2)]
    shown = [row["task_id"] for row in world.ok("GET", "/api/queue")["items"]]
    assert shown == [ids[1], ids[2], ids[0]] == [t.id for t in machine.claim(3)]


def test_a_lane_that_retires_a_session_every_run_stays_small_and_knows_the_latest(
    world: World, machine: Machine, clock: Clock
) -> None:
    for n in range(230):
        run(world, machine, "fail", session=f"s-{n}", error="x", failure_reason="iteration_limit")
        clock.forward(1)
    agent_id = world.ok("GET", "/api/agents/ada")["id"]
    key = {"pk": {"S": f"CV#{agent_id}"}, "sk": {"S": "I#i-1"}}
    item = world.engine.execute("GetItem", {"TableName": "callboard", "Key": key})["Item"]
    assert 100 <= len(item["rd"]["SS"]) <= 200
    for late in ("s-229", "s-135"):
        run(world, machine, session=late)  # a daemon that goes on with it all the same
        assert offered(world, machine)[0] == ""
        world.ok("POST", "/api/agents/ada/cancel-tasks")


def test_a_session_retired_before_its_time_was_written_down_is_not_offered_either(
    world: World, machine: Machine
) -> None:
    run(world, machine)
    agent_id = world.ok("GET", "/api/agents/ada")["id"]
    key = {"pk": {"S": f"CV#{agent_id}"}, "sk": {"S": "I#i-1"}}
    change = {"UpdateExpression": "ADD rd :r", "ExpressionAttributeValues": {":r": {"SS": ["s-1"]}}}
    world.engine.execute("UpdateItem", {"TableName": "callboard", "Key": key, **change})
    assert offered(world, machine)[0] == ""


def test_cancelling_all_of_an_agents_tasks_finds_those_at_the_runtimes_it_has_left(
    world: World, machine: Machine, clock: Clock
) -> None:
    desktop = world.machine("desktop")
    later = world.enqueue(fire_at="2027-06-01T00:00:00Z")["id"]
    before = world.enqueue()["id"]
    world.ok("PATCH", "/api/agents/ada", {"runtime_id": desktop.runtime_id})
    after = world.enqueue()["id"]
    world.agent("bob", machine)
    others = [world.enqueue("bob")["id"], world.enqueue("bob", fire_at="2027-06-01T00:00:00Z")["id"]]
    answer = world.ok("POST", "/api/agents/ada/cancel-tasks")
    assert sorted(answer["task_ids"]) == sorted([later, before, after])
    assert [world.task(task_id)["status"] for task_id in others] == ["queued", "deferred"]
