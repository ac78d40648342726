"""Secondary indexes: what they hold, in which order, over which pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.contract.dynamodb.backends import MAIN, Dynamo, both, differs, key, on_both, outcome, pages
from tests.contract.dynamodb.values import Value, n, s

INVALID = "ValidationException"


def index_items(
    dynamo: Dynamo, index: str, condition: str, values: dict[str, Value], **more: Any
) -> list[dict[str, Value]]:
    items: list[dict[str, Value]] = dynamo.client.query(
        TableName=MAIN, IndexName=index, KeyConditionExpression=condition, ExpressionAttributeValues=values, **more
    )["Items"]
    return items


@both()
def test_an_index_holds_only_items_with_all_its_keys(dynamo: Dynamo) -> None:
    g = dynamo.fresh()
    dynamo.put({**key(g, "1"), "g": s(g), "h": n(1)})
    dynamo.put({**key(g, "2"), "g": s(g)})
    dynamo.put({**key(g, "3"), "h": n(1)})
    assert [item["sk"]["S"] for item in index_items(dynamo, "by-g", "g = :g", {":g": s(g)})] == ["1"]


@both()
def test_an_index_follows_updates_moves_and_deletes(dynamo: Dynamo) -> None:
    g, moved = dynamo.fresh(), dynamo.fresh()
    dynamo.put({**key(g, "1"), "g": s(g), "h": n(1)})
    dynamo.client.update_item(
        TableName=MAIN,
        Key=key(g, "1"),
        UpdateExpression="SET g = :g, a = :a",
        ExpressionAttributeValues={":g": s(moved), ":a": n(7)},
    )
    assert index_items(dynamo, "by-g", "g = :g", {":g": s(g)}) == []
    assert index_items(dynamo, "by-g", "g = :g", {":g": s(moved)}) == [
        {**key(g, "1"), "g": s(moved), "h": n(1), "a": n(7)}
    ]
    dynamo.client.update_item(TableName=MAIN, Key=key(g, "1"), UpdateExpression="REMOVE g")
    assert index_items(dynamo, "by-g", "g = :g", {":g": s(moved)}) == []
    dynamo.put({**key(g, "1"), "g": s(g), "h": n(1)})
    dynamo.client.delete_item(TableName=MAIN, Key=key(g, "1"))
    assert index_items(dynamo, "by-g", "g = :g", {":g": s(g)}) == []


@both()
def test_an_index_is_ordered_by_its_number_key_and_keeps_equal_keys_apart(dynamo: Dynamo) -> None:
    g = dynamo.fresh()
    for sort_key, number in (("a", 10), ("b", 9), ("c", 10), ("d", -1)):
        dynamo.put({**key(g, sort_key), "g": s(g), "h": n(number)})
    found = index_items(dynamo, "by-g", "g = :g", {":g": s(g)})
    assert [item["h"]["N"] for item in found] == ["-1", "9", "10", "10"]
    assert {item["sk"]["S"] for item in found[2:]} == {"a", "c"}
    backwards = index_items(dynamo, "by-g", "g = :g AND h >= :h", {":g": s(g), ":h": n(9)}, ScanIndexForward=False)
    assert [item["h"]["N"] for item in backwards] == ["10", "10", "9"]


@both()
@pytest.mark.parametrize("forward", [True, False])
def test_pages_of_an_index_with_equal_keys_join_without_a_gap(dynamo: Dynamo, forward: bool) -> None:
    g = dynamo.fresh()
    for number in range(7):
        dynamo.put({**key(f"{g}-{number % 3}", str(number)), "g": s(g), "h": n(number // 4)})
    found = pages(
        dynamo,
        TableName=MAIN,
        IndexName="by-g",
        KeyConditionExpression="g = :g",
        ExpressionAttributeValues={":g": s(g)},
        Limit=2,
        ScanIndexForward=forward,
    )
    assert sorted(item["sk"]["S"] for page in found for item in page) == list("0123456")
    assert [len(page) for page in found] == [2, 2, 2, 1]


@both()
def test_the_last_key_of_an_index_has_index_and_table_keys(dynamo: Dynamo) -> None:
    g = dynamo.fresh()
    for number in range(2):
        dynamo.put({**key(g, str(number)), "g": s(g), "h": n(number)})
    answer = dynamo.client.query(
        TableName=MAIN,
        IndexName="by-g",
        KeyConditionExpression="g = :g",
        ExpressionAttributeValues={":g": s(g)},
        Limit=1,
    )
    assert answer["LastEvaluatedKey"] == {**key(g, "0"), "g": s(g), "h": n(0)}


@both()
def test_a_keys_only_index_gives_keys_and_an_including_one_what_it_includes(dynamo: Dynamo) -> None:
    pk = dynamo.fresh()
    dynamo.put({**key(pk), "k": s(pk), "kr": s("1"), "g": s(pk), "a": n(1), "b": n(2), "c": n(3)})
    assert index_items(dynamo, "keys-only", "k = :k", {":k": s(pk)}) == [{**key(pk), "k": s(pk), "kr": s("1")}]
    assert index_items(dynamo, "some", "g = :g", {":g": s(pk)}) == [
        {**key(pk), "g": s(pk), "kr": s("1"), "a": n(1), "b": n(2)}
    ]


@both()
def test_a_consistent_read_of_an_index_is_refused(dynamo: Dynamo) -> None:
    assert outcome(lambda: index_items(dynamo, "by-g", "g = :g", {":g": s("x")}, ConsistentRead=True)) == INVALID


@dataclass(frozen=True)
class Refused:
    claim: str
    more: dict[str, Any]


REFUSED = [
    Refused("ALL_ATTRIBUTES of a keys-only index is refused", {"Select": "ALL_ATTRIBUTES"}),
    Refused("an attribute the index does not project is refused", {"ProjectionExpression": "a"}),
]
REFUSED_DIFFER = differs("accepts it", *(check.claim for check in REFUSED))


@on_both(REFUSED, REFUSED_DIFFER)
def test_index_projection(dynamo: Dynamo, check: Refused) -> None:
    assert outcome(lambda: index_items(dynamo, "keys-only", "k = :k", {":k": s("x")}, **check.more)) == INVALID
