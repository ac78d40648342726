"""Query (and Scan): key conditions, order, pages, filters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.contract.dynamodb.backends import (
    BINARY,
    MAIN,
    NUMBERS,
    SINGLE,
    Dynamo,
    both,
    differs,
    key,
    on_both,
    outcome,
    pages,
)
from tests.contract.dynamodb.values import Value, b, n, s

INVALID = "ValidationException"
SORT_KEYS = ["a", "ab", "abc", "b", "z", "é", "𝄞"]
ORDERED_NUMBERS = [
    "-1e20",
    "-10",
    "-9.5",
    "-1",
    "-0.1",
    "-1e-9",
    "0",
    "1e-9",
    "0.1",
    "1",
    "2",
    "9.5",
    "10",
    "100",
    "1e20",
]


@dataclass(frozen=True)
class Check:
    """`expected`: the sort keys found, or the error code. `:p` is the partition of the table's letters."""

    claim: str
    condition: str
    values: dict[str, Value]
    expected: list[str] | str
    more: dict[str, Any] = field(default_factory=dict)


KEY_CONDITIONS = [
    Check("the whole partition, in order", "pk = :p", {}, SORT_KEYS),
    Check("the whole partition, backwards", "pk = :p", {}, SORT_KEYS[::-1], {"ScanIndexForward": False}),
    Check("an exact sort key", "pk = :p AND sk = :v", {":v": s("ab")}, ["ab"]),
    Check("no such sort key", "pk = :p AND sk = :v", {":v": s("nope")}, []),
    Check("less", "pk = :p AND sk < :v", {":v": s("abc")}, ["a", "ab"]),
    Check("less or equal", "pk = :p AND sk <= :v", {":v": s("abc")}, ["a", "ab", "abc"]),
    Check("greater, by UTF-8 bytes", "pk = :p AND sk > :v", {":v": s("z")}, ["é", "𝄞"]),
    Check("greater or equal", "pk = :p AND sk >= :v", {":v": s("z")}, ["z", "é", "𝄞"]),
    Check("between", "pk = :p AND sk BETWEEN :v AND :w", {":v": s("ab"), ":w": s("b")}, ["ab", "abc", "b"]),
    Check(
        "between, backwards",
        "pk = :p AND sk BETWEEN :v AND :w",
        {":v": s("ab"), ":w": s("b")},
        ["b", "abc", "ab"],
        {"ScanIndexForward": False},
    ),
    Check("begins_with", "pk = :p AND begins_with(sk, :v)", {":v": s("ab")}, ["ab", "abc"]),
    Check("begins_with a letter of four bytes", "pk = :p AND begins_with(sk, :v)", {":v": s("𝄞")}, ["𝄞"]),
    Check("the sort key may come first", "sk = :v AND pk = :p", {":v": s("b")}, ["b"]),
    Check("the value may come first", ":p = pk AND :v < sk", {":v": s("z")}, ["é", "𝄞"]),
    Check("parentheses", "(pk = :p) AND (sk = :v)", {":v": s("b")}, ["b"]),
    Check(
        "keywords are case-insensitive",
        "pk = :p and sk between :v and :w",
        {":v": s("ab"), ":w": s("b")},
        ["ab", "abc", "b"],
    ),
    Check(
        "names by reference",
        "#p = :p AND #s = :v",
        {":v": s("b")},
        ["b"],
        {"ExpressionAttributeNames": {"#p": "pk", "#s": "sk"}},
    ),
    Check("limit", "pk = :p", {}, ["a", "ab"], {"Limit": 2}),
    Check("limit, backwards", "pk = :p", {}, ["𝄞", "é"], {"Limit": 2, "ScanIndexForward": False}),
    Check("consistent read of the table", "pk = :p", {}, SORT_KEYS, {"ConsistentRead": True}),
    Check("no partition key is refused", "sk = :p", {}, INVALID),
    Check("a partition key by < is refused", "pk < :p", {}, INVALID),
    Check("a partition key by begins_with is refused", "begins_with(pk, :p)", {}, INVALID),
    Check("or is refused", "pk = :p OR sk = :v", {":v": s("b")}, INVALID),
    Check("not is refused", "pk = :p AND NOT sk = :v", {":v": s("b")}, INVALID),
    Check("<> is refused", "pk = :p AND sk <> :v", {":v": s("b")}, INVALID),
    Check("in is refused", "pk = :p AND sk IN (:v)", {":v": s("b")}, INVALID),
    Check("contains is refused", "pk = :p AND contains(sk, :v)", {":v": s("b")}, INVALID),
    Check("attribute_exists is refused", "pk = :p AND attribute_exists(sk)", {}, INVALID),
    Check("size is refused", "pk = :p AND size(sk) = :v", {":v": n(1)}, INVALID),
    Check("two conditions on the sort key are refused", "pk = :p AND sk > :v AND sk < :v", {":v": s("b")}, INVALID),
    Check("two conditions on the partition key are refused", "pk = :p AND pk = :p", {}, INVALID),
    Check("another attribute is refused", "pk = :p AND a = :v", {":v": s("b")}, INVALID),
    Check("a nested path is refused", "pk = :p AND sk.a = :v", {":v": s("b")}, INVALID),
    Check("two attributes are refused", "pk = sk", {}, INVALID),
    Check("a value of the wrong type is refused", "pk = :p AND sk = :v", {":v": n(1)}, INVALID),
    Check("an empty value is refused", "pk = :p AND sk = :v", {":v": s("")}, INVALID),
    Check(
        "bounds the wrong way round are refused",
        "pk = :p AND sk BETWEEN :v AND :w",
        {":v": s("b"), ":w": s("a")},
        INVALID,
    ),
    Check("an empty condition is refused", "", {}, INVALID),
    Check("an undefined value is refused", "pk = :p AND sk = :q", {}, INVALID),
    Check("an unused value is refused", "pk = :p", {":v": n(1)}, INVALID),
    Check("a limit of zero is refused", "pk = :p", {}, INVALID, {"Limit": 0}),
    Check("a negative limit is refused", "pk = :p", {}, INVALID, {"Limit": -1}),
    Check("an unknown index is refused", "pk = :p", {}, INVALID, {"IndexName": "nope"}),
    Check("an unknown Select is refused", "pk = :p", {}, INVALID, {"Select": "EVERYTHING"}),
    Check(
        "SPECIFIC_ATTRIBUTES without a projection is refused", "pk = :p", {}, INVALID, {"Select": "SPECIFIC_ATTRIBUTES"}
    ),
    Check(
        "COUNT with a projection is refused", "pk = :p", {}, INVALID, {"Select": "COUNT", "ProjectionExpression": "sk"}
    ),
    Check(
        "ALL_PROJECTED_ATTRIBUTES of a table is refused", "pk = :p", {}, INVALID, {"Select": "ALL_PROJECTED_ATTRIBUTES"}
    ),
]

FILTERS = [
    Check("a filter", "pk = :p", {":n": n(3)}, ["abc"], {"FilterExpression": "num = :n"}),
    Check(
        "a filter with or",
        "pk = :p",
        {":n": n(1), ":m": n(5)},
        ["a", "é", "𝄞"],
        {"FilterExpression": "num = :n OR num > :m"},
    ),
    Check(
        "limit counts before the filter",
        "pk = :p",
        {":n": n(2)},
        ["ab", "abc"],
        {"FilterExpression": "num >= :n", "Limit": 3},
    ),
    Check("a filter on the partition key is refused", "pk = :p", {}, INVALID, {"FilterExpression": "pk = :p"}),
    Check("a filter on the sort key is refused", "pk = :p", {}, INVALID, {"FilterExpression": "attribute_exists(sk)"}),
    Check(
        "a filter on the sort key by reference is refused",
        "pk = :p",
        {},
        INVALID,
        {"FilterExpression": "#s = :p", "ExpressionAttributeNames": {"#s": "sk"}},
    ),
    Check("an empty filter is refused", "pk = :p", {}, INVALID, {"FilterExpression": ""}),
]

MINISTACK_DIFFERS = {
    **differs(
        "accepts it",
        "or is refused",
        "not is refused",
        "<> is refused",
        "contains is refused",
        "attribute_exists is refused",
        "size is refused",
        "a filter on the partition key is refused",
        "a filter on the sort key is refused",
        "a filter on the sort key by reference is refused",
        "an empty filter is refused",
    ),
}


@pytest.fixture
def letters(dynamo: Dynamo) -> str:
    """A partition with one item for each of SORT_KEYS, numbered from 1; made once a backend."""
    pk = "letters"
    if dynamo.get(key(pk, "a")) is None:
        for number, sort_key in enumerate(SORT_KEYS, 1):
            dynamo.put({**key(pk, sort_key), "num": n(number)})
        dynamo.put(key(f"{pk}2", "other partition"))
    return pk


@on_both([*KEY_CONDITIONS, *FILTERS], MINISTACK_DIFFERS)
def test_query(dynamo: Dynamo, check: Check, letters: str) -> None:
    request: dict[str, Any] = {"TableName": MAIN, "KeyConditionExpression": check.condition, **check.more}
    values = dict(check.values)
    if ":p" in check.condition or ":p" in check.more.get("FilterExpression", ""):
        values[":p"] = s(letters)
    if values:
        request["ExpressionAttributeValues"] = values
    if isinstance(check.expected, str):
        assert outcome(lambda: dynamo.client.query(**request)) == check.expected
        return
    answer = dynamo.client.query(**request)
    assert [item["sk"]["S"] for item in answer["Items"]] == check.expected
    assert answer["Count"] == len(check.expected)


@both()
def test_number_keys_are_ordered_as_numbers(dynamo: Dynamo) -> None:
    pk = dynamo.fresh()
    for number in reversed(ORDERED_NUMBERS):
        dynamo.put({"pk": s(pk), "sk": n(number), "was": s(number)}, NUMBERS)
    request = {"TableName": NUMBERS, "KeyConditionExpression": "pk = :p", "ExpressionAttributeValues": {":p": s(pk)}}
    assert [item["was"]["S"] for item in dynamo.client.query(**request)["Items"]] == ORDERED_NUMBERS
    request["KeyConditionExpression"] = "pk = :p AND sk BETWEEN :a AND :b"
    request["ExpressionAttributeValues"] = {":p": s(pk), ":a": n("-9.5"), ":b": n("0.1")}
    assert [item["was"]["S"] for item in dynamo.client.query(**request)["Items"]] == ORDERED_NUMBERS[2:9]


@both()
def test_binary_keys_are_ordered_as_unsigned_bytes(dynamo: Dynamo) -> None:
    pk = dynamo.fresh().encode()
    ordered = [b"\x00", b"\x00\x01", b"\x01", b"\x7f", b"\x80", b"\xff", b"\xff\xff"]
    for data in reversed(ordered):
        dynamo.put({"pk": b(pk), "sk": b(data)}, BINARY)
    request = {"TableName": BINARY, "KeyConditionExpression": "pk = :p", "ExpressionAttributeValues": {":p": b(pk)}}
    assert [item["sk"]["B"] for item in dynamo.client.query(**request)["Items"]] == ordered
    request["KeyConditionExpression"] = "pk = :p AND begins_with(sk, :v)"
    request["ExpressionAttributeValues"] = {":p": b(pk), ":v": b(b"\xff")}
    assert [item["sk"]["B"] for item in dynamo.client.query(**request)["Items"]] == [b"\xff", b"\xff\xff"]


@both()
def test_begins_with_on_a_number_key_is_refused(dynamo: Dynamo) -> None:
    request = {
        "TableName": NUMBERS,
        "KeyConditionExpression": "pk = :p AND begins_with(sk, :v)",
        "ExpressionAttributeValues": {":p": s("x"), ":v": n(1)},
    }
    assert outcome(lambda: dynamo.client.query(**request)) == INVALID


@both()
def test_a_table_without_a_sort_key_can_be_queried(dynamo: Dynamo) -> None:
    pk = dynamo.fresh()
    dynamo.put({"pk": s(pk), "a": n(1)}, SINGLE)
    request = {"TableName": SINGLE, "KeyConditionExpression": "pk = :p", "ExpressionAttributeValues": {":p": s(pk)}}
    assert dynamo.client.query(**request)["Items"] == [{"pk": s(pk), "a": n(1)}]


@both()
@pytest.mark.parametrize("forward", [True, False])
def test_pages_join_without_a_gap_and_the_last_full_page_has_a_key(dynamo: Dynamo, letters: str, forward: bool) -> None:
    found = pages(
        dynamo,
        TableName=MAIN,
        KeyConditionExpression="pk = :p",
        ExpressionAttributeValues={":p": s(letters)},
        Limit=2,
        ScanIndexForward=forward,
    )
    ordered = SORT_KEYS if forward else SORT_KEYS[::-1]
    assert [[item["sk"]["S"] for item in page] for page in found] == [
        ordered[0:2],
        ordered[2:4],
        ordered[4:6],
        ordered[6:],
    ]
    exact = pages(
        dynamo,
        TableName=MAIN,
        KeyConditionExpression="pk = :p",
        ExpressionAttributeValues={":p": s(letters)},
        Limit=len(SORT_KEYS),
        ScanIndexForward=forward,
    )
    assert [len(page) for page in exact] == [len(SORT_KEYS), 0], (
        "a page that ends at Limit has a key, though nothing follows"
    )


@both()
def test_a_start_key_may_be_of_no_item(dynamo: Dynamo, letters: str) -> None:
    answer = dynamo.client.query(
        TableName=MAIN,
        KeyConditionExpression="pk = :p",
        ExpressionAttributeValues={":p": s(letters)},
        ExclusiveStartKey=key(letters, "aa"),
    )
    assert [item["sk"]["S"] for item in answer["Items"]] == SORT_KEYS[1:]


@dataclass(frozen=True)
class Start:
    claim: str
    start: dict[str, Value]
    condition: str = "pk = :p"


STARTS = [
    Start("a start key of half a key is refused", {"pk": s("letters")}),
    Start("a start key of the wrong type is refused", {"pk": s("letters"), "sk": n(1)}),
    Start("a start key with more attributes is refused", {**key("letters", "a"), "x": n(1)}),
    Start("a start key of another partition is refused", key("other", "a")),
    Start("a start key outside the range is refused", key("letters", "zzz"), "pk = :p AND sk < :v"),
]
STARTS_DIFFER = {
    **differs(
        "accepts it",
        "a start key of the wrong type is refused",
        "a start key with more attributes is refused",
    ),
}


@on_both(STARTS, STARTS_DIFFER)
def test_start_key(dynamo: Dynamo, check: Start, letters: str) -> None:
    values = {":p": s(letters)} | ({":v": s("b")} if ":v" in check.condition else {})
    request = {
        "TableName": MAIN,
        "KeyConditionExpression": check.condition,
        "ExpressionAttributeValues": values,
        "ExclusiveStartKey": check.start,
    }
    assert outcome(lambda: dynamo.client.query(**request)) == INVALID


@both()
def test_a_page_ends_at_one_megabyte(dynamo: Dynamo) -> None:
    pk = dynamo.fresh()
    for number in range(5):
        dynamo.put({**key(pk, str(number)), "v": s("x" * 300_000)})
    found = pages(
        dynamo,
        TableName=MAIN,
        KeyConditionExpression="pk = :p",
        ExpressionAttributeValues={":p": s(pk)},
        ConsistentRead=True,
    )
    assert [len(page) for page in found] == [3, 2]


@both()
def test_a_count_has_no_items(dynamo: Dynamo, letters: str) -> None:
    answer = dynamo.client.query(
        TableName=MAIN,
        KeyConditionExpression="pk = :p",
        FilterExpression="num > :n",
        ExpressionAttributeValues={":p": s(letters), ":n": n(2)},
        Select="COUNT",
    )
    assert (answer["Count"], answer["ScannedCount"]) == (len(SORT_KEYS) - 2, len(SORT_KEYS))
    assert "Items" not in answer


@both()
def test_a_scan_sees_every_item_once_over_its_pages(dynamo: Dynamo) -> None:
    mark = dynamo.fresh()
    for number in range(6):
        dynamo.put({"pk": s(f"{mark}-{number}"), "mark": s(mark)}, SINGLE)
    seen: list[str] = []
    start: dict[str, Any] = {}
    while True:
        answer = dynamo.client.scan(
            TableName=SINGLE,
            FilterExpression="mark = :m",
            ExpressionAttributeValues={":m": s(mark)},
            Limit=2,
            **start,
        )
        seen += [item["pk"]["S"] for item in answer["Items"]]
        if "LastEvaluatedKey" not in answer:
            break
        start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}
    assert sorted(seen) == [f"{mark}-{number}" for number in range(6)]
