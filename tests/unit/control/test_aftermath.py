"""What comes after an ending: whose conversation goes on, what is tried again, and what a run's words may weigh."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fakes.sim_world import Clock, Held, Machine, World


def chat(world: World, machine: Machine, prompt: str, **fields: Any) -> Held:
    world.enqueue(prompt=prompt, chat_session_id="c-1", **fields)
    [held] = machine.claim()
    held.say("start", work_dir="/w")
    return held


# ── conversations ────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "said",
    [
        {"retired_session_id": "s-1"},
        {"session_id": "s-1", "retired_session_id": "s-1"},
        {"session_id": "s-1", "session_rollout_missing": True},
        {"session_id": "s-1", "error": "400 invalid_request_error"},
    ],
)
def test_a_retry_is_not_offered_the_session_its_parent_gave_up(
    world: World, machine: Machine, said: dict[str, Any]
) -> None:
    chat(world, machine, "one").say("complete", session_id="s-1")
    second = chat(world, machine, "two")
    assert second.payload["prior_session_id"] == "s-1"
    second.say("fail", **({"error": "cut"} | said), failure_reason="agent_error.provider_network")
    [retry] = machine.claim()
    assert (retry.payload["attempt"], retry.payload["prior_session_id"]) == (2, "")
    assert retry.payload["prior_work_dir"] == "/w"


def test_a_retry_without_a_word_of_its_parent_goes_on_with_the_parents_conversation(
    world: World, machine: Machine
) -> None:
    chat(world, machine, "one").say("complete", session_id="s-1")
    chat(world, machine, "two").say("fail", error="cut", failure_reason="agent_error.provider_network")
    [retry] = machine.claim()
    assert retry.payload["prior_session_id"] == "s-1"


@pytest.mark.parametrize("late", ["cancel-ack", "session"])
def test_the_session_of_a_cancelled_run_is_remembered_although_it_came_after_the_cancel(
    world: World, machine: Machine, late: str
) -> None:
    held = chat(world, machine, "one")
    world.ok("POST", f"/api/tasks/{held.id}/cancel")
    for _ in range(2):
        assert held.say(late, session_id="s-1", work_dir="/w").status == 200
    assert chat(world, machine, "two").payload["prior_session_id"] == "s-1"


def test_a_late_word_of_a_cancelled_run_does_not_turn_the_conversation_back(
    world: World, machine: Machine, clock: Clock
) -> None:
    first = chat(world, machine, "one")
    world.ok("POST", f"/api/tasks/{first.id}/cancel")
    clock.forward(1)
    chat(world, machine, "two").say("complete", session_id="s-2")
    assert first.say("cancel-ack", session_id="s-1").status == 200
    assert world.task(first.id)["session_id"] == "s-1"
    assert chat(world, machine, "three").payload["prior_session_id"] == "s-2"


# ── tried again ──────────────────────────────────────────────────────────────


def test_a_newer_chat_message_does_not_overtake_the_retry_of_an_older(
    world: World, machine: Machine, clock: Clock
) -> None:
    first = chat(world, machine, "one")
    world.enqueue(prompt="two", chat_session_id="c-1")
    clock.forward(5)
    first.say("fail", error="cut", failure_reason="agent_error.provider_network")
    [next_up] = machine.claim()
    assert next_up.payload["prompt"] == "one"


@pytest.mark.parametrize("reason", ["agent_error.provider_network", "runtime_offline"])
def test_a_rerun_takes_the_place_of_the_retry_that_waits(
    world: World, machine: Machine, clock: Clock, reason: str
) -> None:
    world.enqueue(prompt="once")
    [held] = machine.claim()
    held.say("start")
    held.say("fail", error="x", failure_reason=reason)
    retry = world.task(held.id)["retried_by_task_id"]
    again = world.ok("POST", f"/api/tasks/{held.id}/rerun")
    assert world.task(retry)["status"] == "cancelled"
    clock.forward(10)
    machine.call("POST", "/api/daemon/heartbeat", {"runtime_id": machine.runtime_id})
    world.tick()
    assert [t.id for t in machine.claim(5)] == [again["id"]]


def test_a_due_task_that_waits_for_its_issues_place_says_so(world: World, machine: Machine, clock: Clock) -> None:
    later = world.enqueue(prompt="later", issue_id="i-1", fire_at="2027-01-15T08:10:00Z")
    clock.forward(700)
    first = world.enqueue(prompt="now", issue_id="i-1")
    world.tick()
    waiting = world.task(later["id"])["waiting"]
    assert (waiting["code"], waiting["details"]["behind_task_id"]) == ("serialised", first["id"])


# ── sizes ────────────────────────────────────────────────────────────────────


@pytest.fixture
def running(world: World, machine: Machine) -> Held:
    world.enqueue()
    [held] = machine.claim()
    held.say("start")
    return held


def noise(n: int) -> str:
    return "".join(chr(0x4E00 + (i * 7919) % 20000) for i in range(n))


@pytest.mark.parametrize("field", ["tool", "call_id", "parent_call_id", "status", "level", "content", "output"])
def test_no_field_of_a_message_is_too_long_to_be_stored(running: Held, field: str) -> None:
    message = {"seq": 1, "type": "tool_use", field: noise(300_000)}
    answer = running.say("messages", messages=[message])
    assert (answer.status, answer["last_seq"]) == (200, 1)


def test_a_page_of_long_messages_fits_into_an_answer_and_the_next_goes_on(world: World, running: Held) -> None:
    for first in range(1, 121, 20):
        batch = [{"seq": n, "type": "text", "content": "x" * 60_000} for n in range(first, first + 20)]
        assert running.say("messages", messages=batch).status == 200
    seen: list[int] = []
    while True:
        page = world.ok("GET", f"/api/tasks/{running.id}/messages", query={"since": seen[-1] if seen else 0})
        assert len(json.dumps(page)) < 5_000_000
        seen += [m["seq"] for m in page["items"]]
        if page["next_cursor"] is None:
            break
        assert int(page["next_cursor"]) == seen[-1]
    assert seen == list(range(1, 121))


def test_a_cancel_ack_may_say_as_much_as_it_likes(world: World, running: Held) -> None:
    world.ok("POST", f"/api/tasks/{running.id}/cancel")
    assert running.say("cancel-ack", failure_reason=noise(300_000), error_message=noise(300_000)).status == 200
    assert world.task(running.id)["failure_reason"] == "agent_error.unknown"


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("start", {"fence": int("7" * 60)}),
        ("complete", {"duration_ms": int("7" * 60)}),
        ("messages", {"messages": [{"seq": int("7" * 60), "type": "text"}]}),
    ],
)
def test_a_number_no_table_holds_is_refused_and_no_outage(running: Held, verb: str, body: dict[str, Any]) -> None:
    assert running.say(verb, **body).status == 422


def test_a_machine_with_more_runtimes_than_a_condition_takes_starts_its_tasks(world: World) -> None:
    machine = world.machine()
    path = f"/api/workspaces/{world.workspace_id}/runtime-profiles"
    body = {"protocol_family": "echo", "command_name": "echo"}
    profiles = [world.ok("POST", path, body | {"display_name": f"p{n}"})["id"] for n in range(80)]
    own = [{"name": f"t{n}", "type": f"t{n}"} for n in range(79)]
    for more in ([{"name": "p", "type": "echo", "profile_id": p} for p in profiles], own):
        runtimes = [{"name": "echo", "type": "echo"}, *more]
        world.ok("POST", "/api/daemon/register", {"daemon_id": machine.daemon_id, "runtimes": runtimes}, machine.token)
    world.agent("ada", machine)
    world.enqueue()
    [held] = machine.claim()
    assert held.say("start").status == 200
