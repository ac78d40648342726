"""What a runtime's runs cost, and when: summed from the reports, each counted once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from callboard_control.fleet.usage import ROWS_AT_ONCE
from callboard_control.store import keys, table
from callboard_control.store.models import UsageItem
from tests.fakes.meanwhile import Meanwhile
from tests.fakes.sim_world import Clock, Held, Machine, World

DAY_S = 24 * 3600


@pytest.fixture
def meanwhile() -> Meanwhile:
    return Meanwhile()


@pytest.fixture
def world(clock: Clock, meanwhile: Meanwhile) -> Iterator[World]:
    world = World(clock=clock, faults=meanwhile)
    yield world
    world.close()


def run(world: World, machine: Machine, *rows: dict[str, Any], ends: bool = True) -> Held:
    world.enqueue()
    [held] = machine.claim()
    held.say("start")
    assert held.say("usage", usage=list(rows)).status == 200
    if ends:
        held.say("complete")
    return held


def usage(world: World, machine: Machine, **query: Any) -> list[dict[str, Any]]:
    return list(world.ok("GET", f"/api/runtimes/{machine.runtime_id}/usage", query=query)["items"])


def test_tokens_and_cost_are_summed_by_day_provider_and_model(world: World, machine: Machine, clock: Clock) -> None:
    run(world, machine, {"model": "m", "input_tokens": 5, "cache_read_tokens": 2, "cost_usd_ticks": 100})
    run(
        world,
        machine,
        {"model": "m", "output_tokens": 3, "cost_usd_ticks": 50},
        {"provider": "X", "model": "n", "input_tokens": 1},
    )
    clock.forward(DAY_S)
    run(world, machine, {"model": "m", "cache_write_tokens": 7, "cost_usd_ticks": 0})
    today, *before = usage(world, machine)
    assert (today["date"], today["cache_write_tokens"], today["runs"]) == ("2027-01-16", 7, 1)
    assert (today["cost_usd_ticks"], today["uncosted_runs"]) == (None, 1), (
        "a cost of nothing is one that was not stated"
    )
    assert before == [
        {
            "date": "2027-01-15",
            "provider": "echo",
            "model": "m",
            "runs": 2,
            "input_tokens": 5,
            "output_tokens": 3,
            "cache_read_tokens": 2,
            "cache_write_tokens": 0,
            "cost_usd_ticks": 150,
            "uncosted_runs": 0,
        },
        before[1],
    ]
    assert (before[1]["provider"], before[1]["model"], before[1]["uncosted_runs"]) == ("x", "n", 1)


def test_a_report_that_is_repeated_is_counted_once_and_the_last_one_counts(world: World, machine: Machine) -> None:
    held = run(world, machine, {"model": "m", "input_tokens": 5}, ends=False)
    held.say("usage", usage=[{"model": "m", "input_tokens": 5}])
    held.say("complete")
    held.say("usage", usage=[{"model": "m", "input_tokens": 6}])
    [row] = usage(world, machine)
    assert (row["input_tokens"], row["runs"]) == (6, 1)
    assert world.task(held.id)["usage"][0]["input_tokens"] == 6


def test_each_claim_of_a_task_is_counted_and_the_task_shows_its_latest(
    world: World, machine: Machine, clock: Clock
) -> None:
    world.enqueue()
    [first] = machine.claim()
    first.say("usage", usage=[{"model": "m", "input_tokens": 1}])
    clock.forward(60)
    [second] = machine.claim()
    assert second.id == first.id
    second.say("start")
    second.say("usage", usage=[{"model": "m", "input_tokens": 10}])
    [row] = usage(world, machine)
    assert (row["input_tokens"], row["runs"]) == (11, 2)
    assert world.task(first.id)["usage"][0]["input_tokens"] == 10


def test_a_report_that_comes_days_late_is_in_the_sum_of_its_day(world: World, machine: Machine, clock: Clock) -> None:
    world.enqueue(max_attempts=1)
    [held] = machine.claim()
    held.say("start")
    clock.forward(3 * DAY_S)
    world.tick()
    assert world.task(held.id)["failure_reason"] == "runtime_offline"
    assert held.say("usage", usage=[{"model": "m", "input_tokens": 4}]).status == 200
    assert [(row["date"], row["input_tokens"]) for row in usage(world, machine)] == [("2027-01-15", 4)]


def test_only_the_days_asked_for_are_read(world: World, machine: Machine, clock: Clock) -> None:
    for _ in range(3):
        run(world, machine, {"model": "m", "input_tokens": 1})
        clock.forward(DAY_S)
    assert [row["date"] for row in usage(world, machine, days=2)] == ["2027-01-17"]
    path = f"/api/runtimes/{machine.runtime_id}/usage"
    assert world.call("GET", path, query={"days": 0}).status == 422
    assert world.call("GET", path, query={"cursor": "tomorrow"}).error == "invalid_cursor"


def test_a_page_ends_with_a_day_and_the_pages_are_the_whole(world: World, machine: Machine, clock: Clock) -> None:
    for day in range(3):
        for n in range(ROWS_AT_ONCE // 2):
            key = f"{keys.stamp(clock.ms - day * DAY_S * 1000 - n)}#{n}#000001"
            table.put(UsageItem(keys.usage_of(machine.runtime_id), key, rows=[{"model": "m", "input_tokens": 1}]))
    path, pages, query = f"/api/runtimes/{machine.runtime_id}/usage", [], {}
    while True:
        page = world.ok("GET", path, query=query)
        pages.append([(row["date"], row["runs"]) for row in page["items"]])
        if page["next_cursor"] is None:
            break
        query = {"cursor": page["next_cursor"]}
    half = ROWS_AT_ONCE // 2
    assert pages == [[("2027-01-15", half), ("2027-01-14", half)], [("2027-01-13", half)]]


def test_activity_counts_runs_by_the_hour_they_were_claimed_in(world: World, machine: Machine, clock: Clock) -> None:
    run(world, machine, {"model": "m", "input_tokens": 1}, {"model": "n", "output_tokens": 2})
    run(world, machine, {"model": "m", "input_tokens": 3})
    clock.forward(2 * 3600)
    run(world, machine, {"model": "m", "input_tokens": 4})
    hours = world.ok("GET", f"/api/runtimes/{machine.runtime_id}/activity")["items"]
    assert [(hour["hour"], hour["runs"], hour["tokens"]) for hour in hours] == [
        ("2027-01-15T10:00:00Z", 1, 4),
        ("2027-01-15T08:00:00Z", 2, 6),
    ]


def test_a_report_of_usage_is_one_write(world: World, machine: Machine, meanwhile: Meanwhile) -> None:
    world.enqueue()
    [held] = machine.claim()
    held.say("start")
    before = meanwhile.asked.copy()
    held.say("usage", usage=[{"model": "m", "input_tokens": 1}])
    asked = meanwhile.asked - before
    assert {name: n for name, n in asked.items() if name not in ("GetItem", "BatchGetItem")} == {"PutItem": 1}
