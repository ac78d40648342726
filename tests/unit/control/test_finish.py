"""Endings: late, doubled, stale and lost ones change nothing; exactly one terminal state, and nothing held after it."""

from __future__ import annotations

import pytest

from tests.fakes.sim_world import Clock, Held, Machine, World


@pytest.fixture
def running(world: World, machine: Machine) -> Held:
    world.enqueue()
    held = machine.claim(claim_id="c-1")[0]
    assert held.say("start", work_dir="/w")["status"] == "running"
    return held


def slot(world: World, agent_id: str) -> dict[str, object]:
    key = {"pk": {"S": f"AG#{agent_id}"}, "sk": {"S": "SLOT"}}
    return world.engine.execute("GetItem", {"TableName": "callboard", "Key": key}).get("Item", {})


def test_a_completed_task_has_released_everything(world: World, running: Held) -> None:
    running.say("complete", output="done", session_id="s-1")
    task = world.task(running.id)
    assert (task["status"], task["output"], task["session_id"], task["work_dir"]) == ("completed", "done", "s-1", "/w")
    assert "run" not in slot(world, task["agent_id"])
    assert world.call("GET", "/api/me", token=running.payload["auth_token"]).status == 401
    assert [m["move"] for m in task["moves"]] == ["enqueue", "claim", "start", "complete"]


@pytest.mark.parametrize("verb", ["complete", "fail", "start", "messages", "usage", "session"])
def test_repeating_any_write_answers_200_and_changes_nothing(world: World, running: Held, verb: str) -> None:
    body = {
        "complete": {"output": "done"},
        "fail": {"error": "no", "failure_reason": "agent_error.provider_quota_limit"},
        "messages": {"messages": [{"seq": 1, "type": "text", "content": "hi"}]},
        "usage": {"usage": [{"model": "m", "input_tokens": 5}]},
        "session": {"session_id": "s-9"},
    }.get(verb, {})
    assert running.say(verb, **body).status == 200
    before = world.task(running.id)
    for _ in range(3):
        assert running.say(verb, **body).status == 200
    assert world.task(running.id) == before


def test_complete_of_a_task_that_never_started_is_refused(world: World, machine: Machine) -> None:
    world.enqueue()
    held = machine.claim()[0]
    answer = held.say("complete", output="?")
    assert (answer.status, answer.error) == (409, "wrong_state")


def test_complete_of_a_queued_task_is_refused(world: World, machine: Machine) -> None:
    task = world.enqueue()
    answer = machine.call("POST", f"/api/daemon/tasks/{task['id']}/complete", {"output": "?"})
    assert (answer.status, answer.error) == (409, "wrong_state")
    assert world.task(task["id"])["status"] == "queued"


def test_complete_after_cancel_leaves_it_cancelled(world: World, running: Held) -> None:
    world.ok("POST", f"/api/tasks/{running.id}/cancel")
    answer = running.say("complete", output="too late")
    assert (answer.status, answer["status"], answer["stop"]) == (200, "cancelled", True)
    assert world.task(running.id)["output"] == ""


def test_late_fail_of_a_stale_claim_changes_nothing(world: World, machine: Machine, clock: Clock) -> None:
    world.enqueue()
    slow = machine.claim(claim_id="slow")[0]
    clock.forward(50)
    winner = machine.claim(claim_id="fast")[0]
    winner.say("start")
    for verb, body in [
        ("start", {}),
        ("fail", {"error": "x"}),
        ("complete", {"output": "x"}),
        ("messages", {"messages": [{"seq": 1, "type": "text", "content": "x"}]}),
        ("usage", {"usage": [{"model": "m", "input_tokens": 1}]}),
        ("session", {"session_id": "x"}),
        ("cancel-ack", {}),
    ]:
        assert slow.say(verb, **body).error == "stale_claim", verb
    task = world.task(winner.id)
    assert (task["status"], task["message_count"], task["usage"], task["session_id"]) == ("running", 0, [], "")


def test_cancel_of_a_terminal_task_answers_it_unchanged(world: World, running: Held) -> None:
    running.say("complete", output="done")
    assert world.ok("POST", f"/api/tasks/{running.id}/cancel")["status"] == "completed"


def test_cancel_reaches_the_daemon_with_its_next_word_and_its_ack_keeps_branch_and_folder(
    world: World, running: Held
) -> None:
    world.ok("POST", f"/api/tasks/{running.id}/cancel")
    answer = running.say("messages", messages=[{"seq": 1, "type": "text", "content": "last words"}])
    assert answer["stop"] is True
    running.say("cancel-ack", branch_name="b", durable_work_dir="/d", session_id="s")
    task = world.task(running.id)
    assert (task["status"], task["branch_name"], task["session_id"], task["message_count"]) == (
        "cancelled",
        "b",
        "s",
        1,
    )


def test_a_retryable_failure_makes_one_child_in_its_own_transaction(world: World, running: Held) -> None:
    body = {"error": "stream cut", "failure_reason": "agent_error.provider_network", "session_id": "s-1"}
    for _ in range(2):
        running.say("fail", **body)
    parent = world.task(running.id)
    child = world.task(parent["retried_by_task_id"])
    assert (child["status"], child["attempt"], child["retry_of_task_id"]) == ("queued", 2, parent["id"])
    again = running.machine.claim()[0]
    assert (again.id, again.payload["prior_session_id"], again.payload["prior_work_dir"]) == (child["id"], "s-1", "/w")
    assert len(world.ok("GET", "/api/tasks")["items"]) == 2


@pytest.mark.parametrize(
    ("reason", "attempts"),
    [
        ("agent_error.provider_network", 3),
        ("runtime_recovery", 2),
        ("timeout", 2),
        ("agent_error.provider_auth_or_access", 1),
        ("iteration_limit", 1),
        ("a word from a newer daemon", 1),
    ],
)
def test_a_reason_is_tried_as_often_as_its_data_says(
    world: World, machine: Machine, clock: Clock, reason: str, attempts: int
) -> None:
    world.enqueue()
    made = 0
    while claimed := machine.claim():
        made += 1
        claimed[0].say("start")
        claimed[0].say("fail", error="x", failure_reason=reason)
        clock.forward(30)
        world.tick()
    assert made == attempts


def test_one_attempt_means_no_retry_whatever_the_reason(world: World, machine: Machine) -> None:
    world.enqueue(max_attempts=1)
    held = machine.claim()[0]
    held.say("start")
    held.say("fail", error="x", failure_reason="agent_error.provider_network")
    assert world.task(held.id)["retried_by_task_id"] == ""


def test_recovered_orphans_are_given_back_or_retried(world: World, running: Held) -> None:
    world.enqueue(prompt="was being prepared")
    preparing = running.machine.claim()[0]
    path = f"/api/daemon/runtimes/{running.machine.runtime_id}/recover-orphans"
    assert running.machine.call("POST", path, {"keep": []}).body == {"orphaned": 2, "retried": 2}
    assert world.task(preparing.id)["status"] == "queued"
    failed = world.task(running.id)
    assert (failed["status"], failed["failure_reason"]) == ("failed", "runtime_recovery")
    assert world.task(failed["retried_by_task_id"])["status"] == "queued"
    assert running.machine.call("POST", path, {"keep": []}).body == {"orphaned": 0, "retried": 0}


def test_tasks_the_daemon_still_runs_are_no_orphans(world: World, running: Held) -> None:
    path = f"/api/daemon/runtimes/{running.machine.runtime_id}/recover-orphans"
    assert running.machine.call("POST", path, {"keep": [running.id]})["orphaned"] == 0


def test_messages_are_gapless_in_order_and_once_whatever_arrives(world: World, running: Held) -> None:
    def send(*numbers: int) -> object:
        return running.say("messages", messages=[{"seq": n, "type": "text", "content": str(n)} for n in numbers])

    assert send(1, 2)["last_seq"] == 2
    assert send(2, 3, 4)["last_seq"] == 4
    gap = send(6)
    assert (gap.error, gap["details"]["expected_seq"]) == ("sequence_gap", 5)
    assert send(1, 2, 3)["last_seq"] == 4
    assert send(6, 5)["last_seq"] == 6
    found = world.ok("GET", f"/api/tasks/{running.id}/messages")["items"]
    assert [m["content"] for m in found] == list("123456")
    assert [m["seq"] for m in world.ok("GET", f"/api/tasks/{running.id}/messages", query={"since": 4})["items"]] == [
        5,
        6,
    ]


def test_a_daemon_from_before_fences_is_held_to_the_state_alone(world: World, machine: Machine) -> None:
    task = world.enqueue()
    machine.claim()
    base = f"/api/daemon/tasks/{task['id']}"
    assert machine.call("POST", f"{base}/start", {})["status"] == "running"
    assert machine.call("POST", f"{base}/messages", {"messages": [{"seq": 7, "type": "text"}]}).status == 200
    assert machine.call("POST", f"{base}/complete", {"output": "ok"})["status"] == "completed"


def test_long_texts_come_back_whole(world: World, machine: Machine) -> None:
    prompt = "ä" * 90_000
    task = world.enqueue(prompt=prompt)
    held = machine.claim()[0]
    assert held.payload["prompt"] == prompt
    held.say("start")
    output = "".join(chr(33 + n % 90) for n in range(2_000_000))
    held.say("complete", output=output)
    assert world.task(task["id"])["output"] == output


@pytest.mark.parametrize("verb", ["complete", "fail", "cancel-ack"])
def test_half_a_character_in_what_a_run_says_does_not_cost_it_its_ending(
    world: World, running: Held, verb: str
) -> None:
    half = "cut \ud83d"
    fields = dict.fromkeys(("output", "error", "error_message", "branch_name", "session_id"), half)
    assert running.say("messages", messages=[{"seq": 1, "type": "tool_use", "input": {half: half}}]).status == 200
    assert running.say("usage", usage=[{"provider": "p", "model": half, "input_tokens": 1}]).status == 200
    if verb == "cancel-ack":
        world.ok("POST", f"/api/tasks/{running.id}/cancel")
    assert running.say(verb, **fields).status == 200
    task = world.ok("GET", f"/api/tasks/{running.id}")
    assert task["status"] in ("completed", "failed", "cancelled")
    assert (task["usage"][0]["model"], task["output"]) in (("cut ?", "cut ?"), ("cut ?", ""))
    assert world.ok("GET", f"/api/tasks/{running.id}/messages")["items"][0]["input"] == {"cut ?": "cut ?"}


def test_a_run_whose_runtime_was_withdrawn_meanwhile_can_still_tell_how_it_ended(
    world: World, machine: Machine
) -> None:
    """The CLI left the PATH during the run and the daemon registered without it. A 404 would make it drop the run."""
    world.enqueue()
    held = machine.claim()[0]
    held.say("start")
    world.machine("laptop", "another")
    world.ok("POST", "/api/daemon/deregister", {"runtime_ids": [machine.runtime_id]})
    machine.token = world.token
    assert held.say("messages", messages=[{"seq": 1, "type": "text", "content": "x"}]).status == 200
    assert held.say("complete", output="done").status == 200
    assert world.task(held.id)["status"] == "completed"


def test_another_machine_with_the_right_proof_reaches_nothing(world: World, machine: Machine) -> None:
    world.enqueue()
    held = machine.claim()[0]
    other = world.machine("desktop")
    for verb in ("start", "messages", "usage", "session", "complete", "fail", "cancel-ack"):
        body = {**held.proof, "messages": [], "usage": []}
        answer = other.call("POST", f"/api/daemon/tasks/{held.id}/{verb}", body)
        assert (answer.status, answer.error) == (403, "daemon_of_another"), verb
    assert world.task(held.id)["status"] == "dispatched"
