"""Claims: who gets which task, and what repeats, walls and lost answers do to it."""

from __future__ import annotations

import json
import threading

from tests.fakes.sim_world import Clock, Machine, World


def test_a_repeated_claim_id_gets_the_same_tasks_and_no_others(world: World, machine: Machine) -> None:
    first, second = world.enqueue(prompt="1"), world.enqueue(prompt="2")
    taken = machine.claim(claim_id="c-1")
    again = machine.claim(claim_id="c-1")
    assert [t.id for t in taken] == [t.id for t in again] == [first["id"]]
    assert again[0].payload["fence"] == taken[0].payload["fence"]
    assert [t.id for t in machine.claim(claim_id="c-2")] == [second["id"]]


def test_both_answers_of_a_repeated_claim_carry_a_token_that_works(world: World, machine: Machine) -> None:
    world.enqueue()
    tokens = [machine.claim(claim_id="c-1")[0].payload["auth_token"] for _ in range(2)]
    for token in tokens:
        assert world.ok("GET", "/api/me", token=token)["actor"] == "agent"


def test_no_free_slot_claims_nothing(world: World, machine: Machine) -> None:
    world.enqueue()
    assert machine.claim(0) == []


def test_unknown_and_foreign_runtimes_in_a_batch_are_skipped_and_the_rest_served(
    world: World, machine: Machine
) -> None:
    other = world.machine("desktop")
    world.agent("bob", other)
    world.enqueue("bob")
    mine = world.enqueue("ada")
    body = {
        "daemon_id": machine.daemon_id,
        "runtime_ids": ["no such id", other.runtime_id, machine.runtime_id],
        "max_tasks": 5,
    }
    answer = world.ok("POST", "/api/daemon/tasks/claim", body, machine.token)
    assert [t["id"] for t in answer["tasks"]] == [mine["id"]]


def test_an_agent_runs_no_more_than_its_limit_and_others_behind_it_are_served(world: World, machine: Machine) -> None:
    world.agent("full", machine, max_concurrent_tasks=2)
    for n in range(60):
        world.enqueue("full", f"{n}")
    behind = world.enqueue("ada", "behind sixty of a full agent")
    ids = [t.id for t in machine.claim(32)]
    assert len(ids) == 3
    assert behind["id"] in ids


def test_one_issue_of_an_agent_runs_one_task_at_a_time(world: World, machine: Machine) -> None:
    first = world.enqueue(issue_id="i-1", prompt="a")
    held = machine.claim(5)
    assert [t.id for t in held] == [first["id"]]
    successor = world.enqueue(issue_id="i-1", prompt="b")
    other = world.enqueue(issue_id="i-2", prompt="c")
    assert [t.id for t in machine.claim(5)] == [other["id"]]
    assert world.task(successor["id"])["waiting"]["code"] == "serialised"
    held[0].say("start")
    held[0].say("complete")
    assert [t.id for t in machine.claim(5)] == [successor["id"]]


def test_a_second_wish_for_a_waiting_issue_joins_the_first(world: World, machine: Machine) -> None:
    first = world.enqueue(issue_id="i-1", prompt="a")
    joined = world.enqueue(issue_id="i-1", prompt="b")
    repeated = world.enqueue(issue_id="i-1", prompt="b")
    assert joined["id"] == repeated["id"] == first["id"]
    assert machine.claim()[0].payload["prompt"] == "a\n\nb"


def test_priority_goes_first_and_age_overtakes_it_after_a_quarter_hour_a_level(
    world: World, machine: Machine, clock: Clock
) -> None:
    plain = world.enqueue(prompt="plain")
    clock.forward(59 * 60)
    urgent = world.enqueue(prompt="urgent", priority=4)
    first = machine.claim()[0]
    first.say("start")
    assert first.id == urgent["id"]
    clock.forward(2 * 60)
    world.enqueue(prompt="urgent too late", priority=4)
    assert machine.claim()[0].id == plain["id"]


def test_a_lease_that_ran_out_is_handed_out_again_under_a_new_fence(
    world: World, machine: Machine, clock: Clock
) -> None:
    world.enqueue()
    lost = machine.claim(claim_id="lost")[0]
    clock.forward(46)
    again = machine.claim(claim_id="new")[0]
    assert again.id == lost.id
    assert again.payload["fence"] == lost.payload["fence"] + 1
    assert lost.say("start").error == "stale_claim"
    assert again.say("start").status == 200


def test_a_renewed_lease_is_not_handed_out_again(world: World, machine: Machine, clock: Clock) -> None:
    world.enqueue()
    held = machine.claim()[0]
    for _ in range(6):
        clock.forward(15)
        assert held.renew()["lease_s"] == 45.0
        assert machine.claim() == []


def test_a_claim_for_another_daemons_runtime_takes_nothing(world: World, machine: Machine) -> None:
    other = world.machine("desktop")
    world.enqueue("ada")
    body = {"daemon_id": other.daemon_id, "runtime_ids": [machine.runtime_id], "max_tasks": 1}
    assert world.call("POST", "/api/daemon/tasks/claim", body, other.token)["tasks"] == []
    assert world.call("POST", "/api/daemon/tasks/claim", {**body, "daemon_id": "laptop"}, other.token).status == 403


def test_negative_and_huge_numbers_are_refused_or_bounded(world: World, machine: Machine) -> None:
    for _ in range(40):
        world.enqueue()
    body = {"runtime_ids": [machine.runtime_id], "max_tasks": -1}
    assert world.call("POST", "/api/daemon/tasks/claim", body, machine.token).status == 422
    body["max_tasks"] = 10**9
    assert len(world.ok("POST", "/api/daemon/tasks/claim", body, machine.token)["tasks"]) == 6
    assert world.call("POST", "/api/daemon/tasks/claim", {**body, "wait": -1}, machine.token).status == 422


def test_a_hundred_threads_racing_for_one_task_have_one_winner() -> None:
    world = World()
    machine = world.machine()
    world.agent("ada", machine)
    world.enqueue()
    start = threading.Barrier(100)
    won: list[str] = []

    def race(n: int) -> None:
        start.wait()
        won.extend(t.id for t in machine.claim(claim_id=f"c-{n}"))

    threads = [threading.Thread(target=race, args=(n,)) for n in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    world.close()
    assert len(won) == 1


def test_a_task_whose_agent_vanished_is_refused_with_its_reason_and_never_loops(world: World, machine: Machine) -> None:
    task = world.enqueue()
    key = {"pk": {"S": f"WS#{world.workspace_id}"}, "sk": {"S": f"AG#{task['agent_id']}"}}
    world.engine.execute("DeleteItem", {"TableName": "callboard", "Key": key})
    assert machine.claim() == []
    ended = world.task(task["id"])
    assert (ended["status"], ended["failure_reason"]) == ("failed", "invalid_task_identity")


def test_a_batch_of_long_prompts_is_handed_out_in_answers_that_a_function_can_give(
    world: World, machine: Machine, clock: Clock
) -> None:
    world.agent("long", machine, max_concurrent_tasks=50)
    prompt = 'a "quoted" line\n' * 12_000
    made = [world.enqueue("long", f"{n} {prompt}")["id"] for n in range(32)]
    given: list[str] = []
    while len(given) < len(made):
        body = {"daemon_id": machine.daemon_id, "runtime_ids": [machine.runtime_id], "max_tasks": 32}
        answer = world.ok("POST", "/api/daemon/tasks/claim", body, machine.token)
        assert len(json.dumps(json.dumps(answer))) < 6_000_000
        assert answer["tasks"]
        given += [task["id"] for task in answer["tasks"]]
        clock.forward(2)
    assert given == made
    assert {world.task(task_id)["status"] for task_id in made} == {"dispatched"}
