"""What happens between a look and the write after it: the write's own condition decides, not the look."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from callboard_control.store.models import TaskItem
from callboard_control.tasks import conditions
from tests.fakes.sim_world import Clock, World


class Between:
    """An injector that lets something else happen just before the next write of one kind."""

    def __init__(self) -> None:
        self._then: Callable[[], None] | None = None
        self._operation = ""

    def before(self, operation: str, then: Callable[[], None]) -> None:
        self._operation, self._then = operation, then

    def fault(self, operation: str, request: Mapping[str, Any]) -> None:
        if self._then is not None and operation == self._operation:
            then, self._then = self._then, None
            then()

    def wrote(self, table: str, index: str) -> None:
        pass

    def index_lag(self, table: str, index: str, ages: Sequence[float]) -> int:
        return 0


@pytest.fixture
def between() -> Between:
    return Between()


@pytest.fixture
def world(clock: Clock, between: Between) -> Iterator[World]:
    world = World(clock=clock, faults=between)
    yield world
    world.close()


def always(*_: Any) -> Any:
    return TaskItem.pk.exists() | TaskItem.pk.does_not_exist()


def frozen_fail(world: World, clock: Clock, between: Between) -> tuple[str, str]:
    """A daemon fails its task; while the call is frozen before its write, the task is claimed anew."""
    machine = world.machine()
    world.agent("ada", machine)
    world.enqueue(max_attempts=1)
    slow = machine.claim(claim_id="slow")[0]

    def claimed_anew() -> None:
        clock.forward(50)
        assert machine.claim(claim_id="new")[0].id == slow.id

    between.before("TransactWriteItems", claimed_anew)
    answer = slow.say("fail", error="late")
    return answer.error, world.task(slow.id)["status"]


def test_a_fail_that_was_frozen_while_the_task_was_claimed_anew_changes_nothing(
    world: World, clock: Clock, between: Between
) -> None:
    assert frozen_fail(world, clock, between) == ("wrong_state", "dispatched")


def test_without_the_fence_in_the_condition_it_would_end_the_winners_task(
    world: World, clock: Clock, between: Between, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditions, "fence_is", always)
    assert frozen_fail(world, clock, between)[1] == "failed"


def renewed_between(world: World, clock: Clock, between: Between, operation: str, act: Callable[[Any], Any]) -> int:
    """Somebody finds the lease over; the daemon renews before the write. Returns the task's fence afterwards."""
    machine = world.machine()
    world.agent("ada", machine)
    world.enqueue()
    held = machine.claim(claim_id="first")[0]
    clock.forward(46)
    # Else the machine's liveness is what a claim writes first.
    machine.call("POST", "/api/daemon/heartbeat", {"runtime_id": machine.runtime_id})
    between.before(operation, lambda: held.renew())
    act(machine)
    return len(world.task(held.id)["moves"])


def by_a_claim(machine: Any) -> None:
    machine.claim(claim_id="second")


def by_the_sweep(machine: Any) -> None:
    machine.world.tick()


CASES = [("UpdateItem", by_a_claim), ("TransactWriteItems", by_the_sweep)]


@pytest.mark.parametrize(("operation", "act"), CASES)
def test_a_renewal_between_the_look_and_the_write_keeps_the_task(
    world: World, clock: Clock, between: Between, operation: str, act: Callable[[Any], Any]
) -> None:
    assert renewed_between(world, clock, between, operation, act) == 2


@pytest.mark.parametrize(("operation", "act"), CASES)
def test_without_the_lease_in_the_condition_it_would_lose_it(
    world: World,
    clock: Clock,
    between: Between,
    operation: str,
    act: Callable[[Any], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(conditions, "lease_over", always)
    assert renewed_between(world, clock, between, operation, act) == 3


def claimed_on_two_machines(world: World, between: Between, **limits: Any) -> list[str]:
    """An agent's two tasks wait on two machines, for it moved; both machines have looked before either writes."""
    laptop, desktop = world.machine("laptop"), world.machine("desktop")
    world.agent("ada", laptop, max_concurrent_tasks=limits.get("capacity", 6))
    about = {"chat_session_id": limits["chat"]} if "chat" in limits else {}
    world.enqueue(**about)
    world.ok("PATCH", "/api/agents/ada", {"runtime_id": desktop.runtime_id})
    world.enqueue(**about)
    got: list[str] = []
    between.before("TransactWriteItems", lambda: got.extend(t.id for t in desktop.claim()))
    got += [t.id for t in laptop.claim()]
    return got


LIMITS = [("lane_is_free", {"chat": "c-1"}), ("has_room", {"capacity": 1})]


@pytest.mark.parametrize(("condition", "limits"), LIMITS)
def test_two_machines_that_look_at_the_same_time_do_not_both_claim_beyond_the_agents_limits(
    world: World, between: Between, condition: str, limits: dict[str, Any]
) -> None:
    assert len(claimed_on_two_machines(world, between, **limits)) == 1


@pytest.mark.parametrize(("condition", "limits"), LIMITS)
def test_without_the_slots_condition_both_would(
    world: World, between: Between, condition: str, limits: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditions, condition, always)
    assert len(claimed_on_two_machines(world, between, **limits)) == 2
