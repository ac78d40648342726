"""The table of moves: every pair outside it is refused, and random walks never leave it."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from callboard_control.tasks import invariants
from callboard_wire.states import MOVES, Move, TaskStatus, allowed
from tests.fakes.sim_world import Clock, Held, World

DRIVEN = {
    "start": Move.START,
    "complete": Move.COMPLETE,
    "fail": Move.FAIL,
    "wait-local-directory": Move.WAIT,
}


def brought_to(world: World, status: TaskStatus, clock: Clock) -> str:
    """A task in `status`, moved there by the API alone; returns its id."""
    machine = world.machine()
    later = {"fire_at": "2030-01-01T00:00:00Z"} if status is TaskStatus.DEFERRED else {}
    task = world.enqueue(max_attempts=1, **later)
    if status in (TaskStatus.QUEUED, TaskStatus.DEFERRED):
        return str(task["id"])
    held = machine.claim()[0]
    ways: dict[TaskStatus, list[str]] = {
        TaskStatus.DISPATCHED: [],
        TaskStatus.WAITING_LOCAL_DIRECTORY: ["wait-local-directory"],
        TaskStatus.RUNNING: ["start"],
        TaskStatus.COMPLETED: ["start", "complete"],
        TaskStatus.FAILED: ["start", "fail"],
        TaskStatus.CANCELLED: [],
    }
    for verb in ways[status]:
        assert held.say(verb).status == 200
    if status is TaskStatus.CANCELLED:
        world.ok("POST", f"/api/tasks/{held.id}/cancel")
    return held.id


@pytest.mark.parametrize(("verb", "status"), list(itertools.product(DRIVEN, TaskStatus)))
def test_a_move_outside_the_table_changes_nothing(world: World, clock: Clock, verb: str, status: TaskStatus) -> None:
    world.agent("ada", world.machine())
    task_id = brought_to(world, status, clock)
    before = world.task(task_id)
    assert before["status"] == status
    answer = world.machine().call("POST", f"/api/daemon/tasks/{task_id}/{verb}", {})
    after = world.task(task_id)
    if allowed(DRIVEN[verb], status):
        assert (answer.status, after["status"]) == (200, MOVES[DRIVEN[verb]][1])
    else:
        assert after["status"] == before["status"]
        assert after["moves"] == before["moves"]
        # A repeat of what has happened, and anything after the end, is no error; a move that cannot be is one.
        repeated = status.terminal or status is MOVES[DRIVEN[verb]][1]
        assert answer.status == (200 if repeated else 409)


def test_every_state_can_be_reached_and_every_state_that_is_not_terminal_left() -> None:
    ends = {end for _, end in MOVES.values()}
    assert ends == set(TaskStatus)
    sources = {source for starts, _ in MOVES.values() for source in starts}
    assert sources == {s for s in TaskStatus if not s.terminal}


class Walk(RuleBasedStateMachine):
    """Anything anybody may say about one agent's tasks, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.world = World(clock=self.clock)
        self.machine = self.world.machine()
        self.world.agent("ada", self.machine, max_concurrent_tasks=2)
        self.held: list[Held] = []
        self.ids: list[str] = []

    def teardown(self) -> None:
        self.world.close()

    @rule()
    def enqueue(self) -> None:
        self.ids.append(self.world.enqueue(prompt=f"p{len(self.ids)}")["id"])

    @rule()
    def enqueue_for_an_issue(self) -> None:
        self.ids.append(self.world.enqueue(prompt=f"p{len(self.ids)}", issue_id="i")["id"])

    @rule()
    def claim(self) -> None:
        self.held += self.machine.claim(2)

    @rule()
    def say(self) -> None:
        for held, verb in zip(self.held[-3:], ("start", "complete", "fail"), strict=False):
            assert held.say(verb, **({"failure_reason": "timeout"} if verb == "fail" else {})).status in (200, 409)

    @rule()
    def cancel(self) -> None:
        if self.ids:
            self.world.ok("POST", f"/api/tasks/{self.ids[len(self.ids) // 2]}/cancel")

    @rule()
    def wait(self) -> None:
        self.clock.forward(50)
        self.world.tick()

    @invariant()
    def all_holds(self) -> None:
        items = self.world.engine.execute("Scan", {"TableName": "callboard"})["Items"]
        assert invariants.check(items) == []


def test_no_order_of_words_breaks_an_invariant() -> None:
    run_state_machine_as_test(
        Walk,
        settings=settings(
            max_examples=15, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
