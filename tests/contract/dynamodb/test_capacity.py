"""ReturnConsumedCapacity: what reads and writes cost, in tables, indexes and transactions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.contract.dynamodb.backends import MAIN, SINGLE, Dynamo, both, differs, key, on_both
from tests.contract.dynamodb.values import Value, n, s

Units = dict[str, Any]


def padded(pk: str, size: int, **attributes: Value) -> dict[str, Value]:
    """An item of the one-key table that is `size` bytes large ("pk" and "v" are two and one)."""
    used = len("pk") + len(pk) + len("v") + sum(len(name) + 1 for name in attributes)
    return {"pk": s(pk), "v": s("x" * (size - used)), **attributes}


@dataclass(frozen=True)
class Check:
    """`run` does what is measured and returns ConsumedCapacity."""

    claim: str
    run: Callable[[Dynamo, str], Any]
    units: float


def read(size: int, *, consistent: bool = False) -> Callable[[Dynamo, str], Any]:
    def run(dynamo: Dynamo, pk: str) -> Any:
        if size:
            dynamo.put(padded(pk, size), SINGLE)
        return dynamo.client.get_item(
            TableName=SINGLE, Key={"pk": s(pk)}, ConsistentRead=consistent, ReturnConsumedCapacity="TOTAL"
        )["ConsumedCapacity"]

    return run


def write(before: int, after: int) -> Callable[[Dynamo, str], Any]:
    def run(dynamo: Dynamo, pk: str) -> Any:
        if before:
            dynamo.put(padded(pk, before), SINGLE)
        if not after:
            return dynamo.client.delete_item(TableName=SINGLE, Key={"pk": s(pk)}, ReturnConsumedCapacity="TOTAL")[
                "ConsumedCapacity"
            ]
        return dynamo.client.put_item(TableName=SINGLE, Item=padded(pk, after), ReturnConsumedCapacity="TOTAL")[
            "ConsumedCapacity"
        ]

    return run


def query(
    count: int, size: int, *, consistent: bool = False, projection: str | None = None
) -> Callable[[Dynamo, str], Any]:
    def run(dynamo: Dynamo, pk: str) -> Any:
        used = len("pk") + len(pk) + len("sk") + 1 + len("v")
        for i in range(count):
            dynamo.put({**key(pk, str(i)), "v": s("x" * (size - used))})
        more = {"ProjectionExpression": projection} if projection else {}
        return dynamo.client.query(
            TableName=MAIN,
            KeyConditionExpression="pk = :p",
            ExpressionAttributeValues={":p": s(pk)},
            ConsistentRead=consistent,
            ReturnConsumedCapacity="TOTAL",
            **more,
        )["ConsumedCapacity"]

    return run


CHECKS = [
    Check("an eventual read of up to 4 KB costs half a unit", read(4096), 0.5),
    Check("a consistent read of up to 4 KB costs one", read(4096, consistent=True), 1),
    Check("an eventual read of more than 4 KB costs one", read(4097), 1),
    Check("a consistent read of more than 4 KB costs two", read(4097, consistent=True), 2),
    Check("an eventual read of nothing costs half a unit", read(0), 0.5),
    Check("a consistent read of nothing costs one", read(0, consistent=True), 1),
    Check("a write of up to 1 KB costs one", write(0, 1024), 1),
    Check("a write of more than 1 KB costs two", write(0, 1025), 2),
    Check("a write costs the larger of before and after", write(3000, 500), 3),
    Check("a delete costs the size of what is deleted", write(3000, 0), 3),
    Check("a delete of nothing costs one", write(0, 0), 1),
    Check("a query rounds the sum and not the items", query(10, 400), 0.5),
    Check("a consistent query rounds the sum", query(10, 500, consistent=True), 2),
    Check("a query of nothing costs half a unit", query(0, 0), 0.5),
    Check("a projection makes a query no cheaper", query(10, 1000, projection="sk"), 1.5),
]
MINISTACK_DIFFERS = {
    **differs(
        "counts every read as one of 4 KB",
        "an eventual read of more than 4 KB costs one",
        "a consistent read of more than 4 KB costs two",
        "a consistent query rounds the sum",
        "a projection makes a query no cheaper",
    ),
}


@on_both(CHECKS, MINISTACK_DIFFERS)
def test_capacity(dynamo: Dynamo, check: Check) -> None:
    assert check.run(dynamo, dynamo.fresh())["CapacityUnits"] == check.units


def split(capacity: Units) -> tuple[float, dict[str, float]]:
    """Table units and index units of an INDEXES report; checks that the total is their sum."""
    indexes = {name: part["CapacityUnits"] for name, part in capacity.get("GlobalSecondaryIndexes", {}).items()}
    table = capacity["Table"]["CapacityUnits"]
    assert capacity["CapacityUnits"] == table + sum(indexes.values())
    return table, indexes


@both()
def test_an_index_insert_move_update_and_delete_cost_their_own_units(dynamo: Dynamo) -> None:
    pk = dynamo.fresh()

    def update(expression: str, **values: Value) -> tuple[float, dict[str, float]]:
        answer = dynamo.client.update_item(
            TableName=MAIN,
            Key=key(pk),
            UpdateExpression=expression,
            ReturnConsumedCapacity="INDEXES",
            **({"ExpressionAttributeValues": {f":{name}": value for name, value in values.items()}} if values else {}),
        )
        return split(answer["ConsumedCapacity"])

    assert update("SET z = :z", z=n(1)) == (1, {})
    assert update("SET k = :k, kr = :r", k=s(pk), r=s("1")) == (1, {"keys-only": 1})
    assert update("SET z = :z", z=n(2)) == (1, {}), "a keys-only index does not change with other attributes"
    assert update("SET kr = :r", r=s("2")) == (1, {"keys-only": 2}), "a moved entry is deleted and inserted"
    assert update("REMOVE k") == (1, {"keys-only": 1})
    assert update("SET g = :g, h = :h", g=s(pk), h=n(1)) == (1, {"by-g": 1, "some": 1})
    assert update("SET z = :z", z=n(3)) == (1, {"by-g": 1}), "an index of all attributes changes with each"
    assert update("SET a = :a", a=n(3)) == (1, {"by-g": 1, "some": 1})


@both(ministack_differs="leaves index units out of a transaction's total")
def test_a_transaction_doubles_table_units_and_not_index_units(dynamo: Dynamo) -> None:
    pk = dynamo.fresh()
    answer = dynamo.client.transact_write_items(
        TransactItems=[
            {"Put": {"TableName": MAIN, "Item": {**key(pk), "k": s(pk), "kr": s("1")}}},
            {"Put": {"TableName": SINGLE, "Item": padded(pk, 1500)}},
            {
                "ConditionCheck": {
                    "TableName": SINGLE,
                    "Key": {"pk": s("none")},
                    "ConditionExpression": "attribute_not_exists(pk)",
                }
            },
        ],
        ReturnConsumedCapacity="INDEXES",
    )
    reports = {report["TableName"]: report for report in answer["ConsumedCapacity"]}
    assert split(reports[MAIN]) == (2, {"keys-only": 1})
    assert reports[SINGLE]["CapacityUnits"] == 6


@both()
def test_a_reading_transaction_costs_double(dynamo: Dynamo) -> None:
    pk = dynamo.fresh()
    dynamo.put(padded(pk, 3000), SINGLE)
    answer = dynamo.client.transact_get_items(
        TransactItems=[{"Get": {"TableName": SINGLE, "Key": {"pk": s(name)}}} for name in (pk, f"{pk}-none")],
        ReturnConsumedCapacity="TOTAL",
    )
    assert [report["CapacityUnits"] for report in answer["ConsumedCapacity"]] == [4]


@both()
def test_an_index_query_costs_the_index_and_not_the_table(dynamo: Dynamo) -> None:
    pk = dynamo.fresh()
    dynamo.put({**key(pk), "k": s(pk), "kr": s("1"), "v": s("x" * 9000)})
    answer = dynamo.client.query(
        TableName=MAIN,
        IndexName="keys-only",
        KeyConditionExpression="k = :k",
        ExpressionAttributeValues={":k": s(pk)},
        ReturnConsumedCapacity="INDEXES",
    )
    assert split(answer["ConsumedCapacity"]) == (0, {"keys-only": 0.5}), "only the projected attributes are read"


@both(ministack_differs="tells no capacity of a batch")
def test_a_batch_costs_each_item_by_itself(dynamo: Dynamo) -> None:
    pk = dynamo.fresh()
    names = [f"{pk}-{i}" for i in range(3)]
    written = dynamo.client.batch_write_item(
        RequestItems={SINGLE: [{"PutRequest": {"Item": padded(name, 1100)}} for name in names]},
        ReturnConsumedCapacity="TOTAL",
    )
    assert [report["CapacityUnits"] for report in written["ConsumedCapacity"]] == [6]
    found = dynamo.client.batch_get_item(
        RequestItems={SINGLE: {"Keys": [{"pk": s(name)} for name in names]}}, ReturnConsumedCapacity="TOTAL"
    )
    assert [report["CapacityUnits"] for report in found["ConsumedCapacity"]] == [1.5]


@both()
def test_no_capacity_is_told_unless_asked(dynamo: Dynamo) -> None:
    assert "ConsumedCapacity" not in dynamo.client.get_item(TableName=SINGLE, Key={"pk": s("x")})
    answer = dynamo.client.get_item(TableName=SINGLE, Key={"pk": s("x")}, ReturnConsumedCapacity="NONE")
    assert "ConsumedCapacity" not in answer
