"""No answer outgrows what a function can give, in whatever script people write: one that does is an error for ever."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard_wire.answers import ANSWER_BYTES, cost, fitted
from callboard_wire.bodies import MAX_PROMPT_CHARS
from tests.fakes.sim_world import Held, Machine, World

LIMIT = 6 * 1024 * 1024
SCRIPTS = {"latin": "a", "code": 'x"\n', "cyrillic": "ж", "chinese": "字", "emoji": "\U0001f3ad"}


@pytest.fixture(params=sorted(SCRIPTS))
def letters(request: pytest.FixtureRequest) -> str:
    return SCRIPTS[request.param]


def text(letters: str, *, bytes_at_most: int, chars: int = 10**9) -> str:
    whole = letters * (bytes_at_most // len(letters.encode()))
    return whole[:chars]


def answered(world: World, method: str, path: str, *arguments: Any, **more: Any) -> Any:
    """The answer, measured as Lambda measures it."""
    raw = world.raw(method, path, *arguments, **more)
    assert raw["statusCode"] == 200
    assert len(json.dumps(raw).encode()) < LIMIT
    return json.loads(raw["body"])


def run(machine: Machine) -> Held:
    [held] = machine.claim()
    assert held.say("start").status == 200
    return held


def test_a_transcript_comes_whole_in_pages_that_fit(world: World, machine: Machine, letters: str) -> None:
    world.enqueue()
    held = run(machine)
    for first in range(1, 1001, 100):
        content = text(letters, bytes_at_most=6000)
        sent = [{"seq": first + n, "type": "text", "content": content} for n in range(100)]
        assert held.say("messages", messages=sent).status == 200
    seen: list[int] = []
    while len(seen) < 1000:
        query = {"limit": 1000, "since": seen[-1] if seen else 0}
        page = answered(world, "GET", f"/api/tasks/{held.id}/messages", query=query)
        seen += [message["seq"] for message in page["items"]]
        assert (page["next_cursor"] is None) == (len(seen) == 1000)
    assert seen == list(range(1, 1001))


def test_a_task_with_the_longest_texts_is_shown_and_says_what_is_cut(
    world: World, machine: Machine, letters: str
) -> None:
    prompt, output = (
        text(letters, bytes_at_most=n, chars=c) for n, c in ((10**6, MAX_PROMPT_CHARS), (4_190_000, 10**9))
    )
    world.enqueue(prompt=prompt)
    held = run(machine)
    assert held.say("complete", output=output).status == 200
    shown = answered(world, "GET", f"/api/tasks/{held.id}")
    assert shown["prompt"] == prompt
    beginning, cut, _ = shown["output"].partition("\n… [cut: ")
    assert output.startswith(beginning)
    assert bool(cut) == (letters != "a")
    assert len(beginning) > len(output) // 10


def test_a_claim_hands_out_all_the_wishes_that_a_task_was_let_have(
    world: World, machine: Machine, letters: str
) -> None:
    long = text(letters, bytes_at_most=10**6, chars=MAX_PROMPT_CHARS - 2)
    wishes = [f"{n:02}{long}" for n in range(20)]
    taken = []
    for wish in wishes:
        body = {"agent": "ada", "prompt": wish, "issue_id": "i-1"}
        answer = world.call("POST", "/api/tasks", body)
        if answer.status >= 300:
            assert answer.error == "too_many_wishes"
            break
        taken.append(wish)
    assert 1 <= len(taken) < len(wishes)
    asked = {"daemon_id": machine.daemon_id, "runtime_ids": [machine.runtime_id], "max_tasks": 8}
    [task] = answered(world, "POST", "/api/daemon/tasks/claim", asked, machine.token)["tasks"]
    assert task["prompt"] == "\n\n".join(taken)


def test_a_task_that_does_not_fit_beside_others_comes_by_itself_afterwards(world: World, machine: Machine) -> None:
    world.enqueue(prompt=text("字", bytes_at_most=10**6, chars=150_000))
    for n in range(4):  # 1.3 MB of wishes after a prompt of 1.4
        world.enqueue(
            prompt=f"{n}" + text("字", bytes_at_most=10**6, chars=MAX_PROMPT_CHARS - 1), issue_id=f"i-{n % 2}"
        )
    world.ok("PATCH", "/api/workspaces/current", {"context": "ж" * 50_000, "repos": [{"url": "ж" * 20_000}]})
    asked = {"daemon_id": machine.daemon_id, "runtime_ids": [machine.runtime_id], "max_tasks": 8}
    for _ in range(6):
        found = answered(world, "POST", "/api/daemon/tasks/claim", asked, machine.token)["tasks"]
        for task in found:
            proof = {"claim_id": task["claim_id"], "fence": task["fence"]}
            assert machine.call("POST", f"/api/daemon/tasks/{task['id']}/start", proof).status == 200
        assert world.clock is not None
        world.clock.forward(50)
    assert {task["status"] for task in world.ok("GET", "/api/tasks")["items"]} == {"running"}


def test_two_long_tasks_that_became_one_are_still_handed_out(world: World, machine: Machine) -> None:
    """A claim runs out and another wish for the issue waits by then: the one joins the other, whatever it is long."""
    assert world.clock is not None
    asked = {"daemon_id": machine.daemon_id, "runtime_ids": [machine.runtime_id], "max_tasks": 1}
    for n, chars in enumerate((MAX_PROMPT_CHARS - 1, 140_000)):
        world.enqueue(prompt=f"{n}" + "\U0001f3ad" * chars, issue_id="i-1")
    [whole] = answered(world, "POST", "/api/daemon/tasks/claim", asked, machine.token)["tasks"]
    assert "… [cut: " not in whole["prompt"]
    world.clock.forward(60)
    world.enqueue(prompt="\U0001f3ad" * MAX_PROMPT_CHARS, issue_id="i-1")
    world.tick()
    [task] = answered(world, "POST", "/api/daemon/tasks/claim", asked, machine.token)["tasks"]
    assert "… [cut: " in task["prompt"]


def test_a_long_queue_comes_in_pages_that_end_with_a_runtime(world: World) -> None:
    waiting = {}
    for name, tasks in (("one", 250), ("two", 251), ("three", 252)):
        machine = world.machine(name)
        world.agent(name, machine)
        for _ in range(tasks):
            world.enqueue(name, "\U0001f3ad" * 80)
        waiting[machine.runtime_id] = tasks
    pages = [answered(world, "GET", "/api/queue")]
    while cursor := pages[-1]["next_cursor"]:
        pages.append(answered(world, "GET", "/api/queue", query={"cursor": cursor}))
    assert len(pages) == 2
    runtimes = [[task["runtime_id"] for task in page["items"]] for page in pages]
    assert not set(runtimes[0]) & set(runtimes[1])
    assert Counter(runtimes[0] + runtimes[1]) == waiting


def test_agents_with_long_instructions_are_listed_once_each(world: World, machine: Machine, letters: str) -> None:
    instructions = text(letters, bytes_at_most=95_000)
    names = {"ada", *(f"a{n}" for n in range(25))}
    for name in names - {"ada"}:
        world.agent(name, machine, instructions=instructions)
    pages = [answered(world, "GET", "/api/agents", query={"limit": 100})]
    while cursor := pages[-1]["next_cursor"]:
        pages.append(answered(world, "GET", "/api/agents", query={"limit": 100, "cursor": cursor}))
    assert sorted(agent["name"] for page in pages for agent in page["items"]) == sorted(names)
    assert len(pages) == (1 if letters in ("a", "字") else 2)


@given(st.text(max_size=9000), st.integers(min_value=200, max_value=60_000))
def test_what_is_fitted_takes_no_more_than_its_room_and_is_a_beginning(whole: str, room: int) -> None:
    whole = whole * 3
    kept = fitted(whole, room)
    assert cost(kept) <= room
    assert kept == whole or whole.startswith(kept.rpartition("\n… [cut: ")[0])
    assert (kept == whole) == (cost(whole) <= room)


def test_the_room_of_an_answer_leaves_something_for_what_is_around_it() -> None:
    assert ANSWER_BYTES < LIMIT - 200_000
