"""Faults on demand: repeatable, seen by the client as AWS's would be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError

from callboard_control.embedded.engine import Engine, Fault, Script, Seeded, client
from tests.unit.embedded.engine import tables

WRITE = {
    "TableName": tables.NAME,
    "Key": tables.key("x"),
    "UpdateExpression": "ADD n :one",
    "ExpressionAttributeValues": {":one": {"N": "1"}},
}


class Clock:
    """Time that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def script() -> Script:
    return Script(operations=["UpdateItem", "TransactWriteItems", "TransactGetItems", "BatchWriteItem", "BatchGetItem"])


@pytest.fixture
def faulty(script: Script) -> Iterator[Engine]:
    with Engine(":memory:", faults=script) as engine:
        tables.create(engine)
        yield engine


def n_of(engine: Engine) -> str | None:
    item = tables.get(engine, "x")
    return item["n"]["N"] if item else None


def code_of(call: Any) -> str:
    with pytest.raises(ClientError) as raised:
        call()
    return str(raised.value.response["Error"]["Code"])


@pytest.mark.parametrize(
    "fault", [Fault.THROUGHPUT, Fault.THROTTLING, Fault.CONFLICT, Fault.UNAVAILABLE], ids=lambda fault: fault.value
)
def test_a_refused_request_has_no_effect_and_its_own_code(script: Script, faulty: Engine, fault: Fault) -> None:
    script.add(fault)
    assert code_of(lambda: client(faulty, retries=0).update_item(**WRITE)) == fault.value
    assert n_of(faulty) is None


def test_a_conflict_cancels_a_transaction_with_reasons(script: Script, faulty: Engine) -> None:
    script.add(Fault.CONFLICT)
    with pytest.raises(ClientError) as raised:
        client(faulty, retries=0).transact_write_items(TransactItems=[{"Update": WRITE}])
    assert raised.value.response["Error"]["Code"] == "TransactionCanceledException"
    assert [reason["Code"] for reason in raised.value.response["CancellationReasons"]] == ["TransactionConflict"]
    assert n_of(faulty) is None


@pytest.mark.parametrize(("fault", "after"), [(Fault.LOST_REQUEST, None), (Fault.LOST_RESPONSE, "1")])
def test_a_lost_message_looks_like_a_broken_connection(
    script: Script, faulty: Engine, fault: Fault, after: str | None
) -> None:
    script.add(fault)
    with pytest.raises(ConnectionClosedError):
        client(faulty, retries=0).update_item(**WRITE)
    assert n_of(faulty) == after


def test_the_clients_own_retry_meets_the_effect_of_a_lost_response(script: Script, faulty: Engine) -> None:
    script.add(Fault.LOST_RESPONSE)
    guarded = {**WRITE, "ConditionExpression": "attribute_not_exists(n)"}
    assert code_of(lambda: client(faulty, retries=1).update_item(**guarded)) == "ConditionalCheckFailedException"
    assert n_of(faulty) == "1"


def test_a_transaction_retried_after_a_lost_response_applies_once(script: Script, faulty: Engine) -> None:
    script.add(Fault.LOST_RESPONSE)
    client(faulty, retries=1).transact_write_items(TransactItems=[{"Update": WRITE}])
    assert n_of(faulty) == "1"


def test_a_batch_may_leave_half_of_it_undone(script: Script, faulty: Engine) -> None:
    dynamodb = client(faulty, retries=0)
    puts = [{"PutRequest": {"Item": tables.key(str(number))}} for number in range(3)]
    script.add(Fault.UNPROCESSED)
    answer = dynamodb.batch_write_item(RequestItems={tables.NAME: puts})
    assert answer["UnprocessedItems"] == {tables.NAME: puts[2:]}
    assert [tables.get(faulty, str(number)) is not None for number in range(3)] == [True, True, False]
    script.add(Fault.UNPROCESSED)
    keys = [tables.key(str(number)) for number in range(2)]
    found = dynamodb.batch_get_item(RequestItems={tables.NAME: {"Keys": keys}})
    assert found["UnprocessedKeys"] == {tables.NAME: {"Keys": keys[1:]}}


def test_held_indexes_answer_from_the_past_while_the_table_does_not() -> None:
    script = Script()
    with Engine(":memory:", faults=script) as engine:
        tables.create(engine)
        item = {**tables.key("x"), "g": {"S": "g"}, "h": {"N": "1"}}
        script.hold_indexes()
        tables.put(engine, item)
        assert indexed(engine) == []
        assert tables.get(engine, "x") == item
        script.release_indexes(writes=1)
        tables.put(engine, {**item, "h": {"N": "2"}})
        assert [found["h"]["N"] for found in indexed(engine)] == ["1"]
        script.release_indexes()
        assert [found["h"]["N"] for found in indexed(engine)] == ["2"]


def test_an_index_that_lags_catches_up_with_the_clock() -> None:
    clock = Clock()
    with Engine(":memory:", clock=clock, faults=Seeded(1, {}, lag=10.0)) as engine:
        tables.create(engine)
        tables.put(engine, {**tables.key("x"), "g": {"S": "g"}, "h": {"N": "1"}})
        at_once = [bool(indexed(engine)) for _ in range(20)]
        clock.now += 5
        later = [bool(indexed(engine)) for _ in range(20)]
        clock.now += 6
        assert not any(at_once)
        assert {True, False} == set(later)
        assert all(indexed(engine) for _ in range(20))


def test_the_same_seed_gives_the_same_faults() -> None:
    rates = {Fault.THROTTLING: 0.2, Fault.LOST_RESPONSE: 0.2}

    def drawn(seed: int) -> list[Fault | None]:
        faults = Seeded(seed, rates)
        return [faults.fault("PutItem", {}) for _ in range(200)]

    assert drawn(7) == drawn(7)
    assert drawn(7) != drawn(8)
    counts = [drawn(7).count(fault) for fault in rates]
    assert all(20 <= count <= 60 for count in counts)


def indexed(engine: Engine) -> list[dict[str, Any]]:
    return tables.query(engine, "g = :g", {":g": {"S": "g"}}, IndexName="by-g")
