"""What depends on the engine's clock: time to live and request tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from callboard_control.embedded.engine import Engine
from tests.unit.embedded.engine import tables
from tests.unit.embedded.engine.test_faults import Clock

YEAR = 365 * 24 * 3600


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def engine(clock: Clock) -> Iterator[Engine]:
    with Engine(":memory:", clock=clock) as made:
        tables.create(made)
        yield made


def enable(engine: Engine, *, enabled: bool = True) -> None:
    wish = {"AttributeName": "ttl", "Enabled": enabled}
    engine.execute("UpdateTimeToLive", {"TableName": tables.NAME, "TimeToLiveSpecification": wish})


def left(engine: Engine) -> set[str]:
    return {item["pk"]["S"] for item in engine.execute("Scan", {"TableName": tables.NAME})["Items"]}


def fill(engine: Engine, clock: Clock) -> None:
    now = int(clock.now)
    values: dict[str, dict[str, Any]] = {
        "past": {"N": str(now - 1)},
        "long past": {"N": str(now - 4 * YEAR)},
        "fraction": {"N": f"{now - 10}.75"},
        "now": {"N": str(now)},
        "future": {"N": str(now + 1)},
        "text": {"S": str(now - 1)},
        "six years past": {"N": str(now - 6 * YEAR)},
        "milliseconds": {"N": str(now * 1000)},
        "beyond all integers": {"N": "1e100"},
    }
    for name, value in values.items():
        tables.put(engine, {**tables.key(name), "ttl": value, "g": {"S": "g"}, "h": {"N": "1"}})
    tables.put(engine, tables.key("without"))


KEPT = {"now", "future", "text", "six years past", "milliseconds", "beyond all integers", "without"}


@pytest.mark.parametrize("first", ["enable", "fill"])
def test_a_sweep_deletes_only_numbers_in_the_past(engine: Engine, clock: Clock, first: str) -> None:
    for step in ["enable", "fill"] if first == "enable" else ["fill", "enable"]:
        enable(engine) if step == "enable" else fill(engine, clock)
    assert engine.sweep_expired() == 3
    assert left(engine) == KEPT
    indexed = tables.query(engine, "g = :g", {":g": {"S": "g"}}, IndexName="by-g")
    assert {item["pk"]["S"] for item in indexed} == KEPT - {"without"}
    clock.now += 2
    assert engine.sweep_expired() == 2
    assert left(engine) == KEPT - {"now", "future"}


def test_nothing_is_swept_without_a_time_to_live(engine: Engine, clock: Clock) -> None:
    fill(engine, clock)
    assert engine.sweep_expired() == 0
    enable(engine)
    enable(engine, enabled=False)
    assert engine.sweep_expired() == 0


def test_a_sweep_is_bounded(engine: Engine, clock: Clock) -> None:
    enable(engine)
    for number in range(10):
        tables.put(engine, {**tables.key(str(number)), "ttl": {"N": str(int(clock.now) - 5)}})
    assert [engine.sweep_expired(limit=4) for _ in range(4)] == [4, 4, 2, 0]


def test_an_item_whose_time_was_moved_or_removed_stays(engine: Engine, clock: Clock) -> None:
    enable(engine)
    past, future = {"N": str(int(clock.now) - 5)}, {"N": str(int(clock.now) + 5)}
    for name in ("moved", "removed"):
        tables.put(engine, {**tables.key(name), "ttl": past})
    request = {"TableName": tables.NAME, "Key": tables.key("moved"), "ExpressionAttributeNames": {"#t": "ttl"}}
    engine.execute(
        "UpdateItem", {**request, "UpdateExpression": "SET #t = :t", "ExpressionAttributeValues": {":t": future}}
    )
    engine.execute("UpdateItem", {**request, "Key": tables.key("removed"), "UpdateExpression": "REMOVE #t"})
    assert engine.sweep_expired() == 0


def transact(engine: Engine) -> None:
    action = {
        "TableName": tables.NAME,
        "Key": tables.key("x"),
        "UpdateExpression": "ADD n :one",
        "ExpressionAttributeValues": {":one": {"N": "1"}},
    }
    engine.execute("TransactWriteItems", {"TransactItems": [{"Update": action}], "ClientRequestToken": "token"})


def test_a_request_token_is_known_for_ten_minutes(engine: Engine, clock: Clock) -> None:
    def n() -> str:
        item = tables.get(engine, "x")
        assert item is not None
        return str(item["n"]["N"])

    transact(engine)
    clock.now += 600
    transact(engine)
    assert n() == "1"
    clock.now += 1
    transact(engine)
    assert n() == "2"


def test_a_repeated_transaction_costs_reads(engine: Engine) -> None:
    item = {**tables.key("x"), "v": {"S": "x" * 5000}}
    request = {
        "TransactItems": [{"Put": {"TableName": tables.NAME, "Item": item}}],
        "ClientRequestToken": "token",
        "ReturnConsumedCapacity": "TOTAL",
    }
    first, second = (engine.execute("TransactWriteItems", request)["ConsumedCapacity"][0] for _ in range(2))
    assert first["WriteCapacityUnits"] == 10
    assert second["ReadCapacityUnits"] == 4
