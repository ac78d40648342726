"""Attribute values and items: what is kept of a number, which values and keys are refused, how large things may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.contract.dynamodb.backends import (
    BINARY,
    MAIN,
    NUMBERS,
    SINGLE,
    Dynamo,
    both,
    canonical,
    differs,
    key,
    on_both,
    outcome,
)
from tests.contract.dynamodb.values import Value, b, lst, m, n, s

INVALID, SERIALIZATION = "ValidationException", "SerializationException"


@dataclass(frozen=True)
class Check:
    """`kept` is the value read back after `given` was put, or the error code."""

    claim: str
    given: Any
    kept: Value | str


NUMBERS_KEPT = [
    Check(f"the number {given} is kept as {kept}", n(given), n(kept))
    for given, kept in {
        "0": "0",
        "-0": "0",
        "0.000": "0",
        "0e125": "0",
        "7": "7",
        "+7": "7",
        "007": "7",
        "-7.50": "-7.5",
        "1e2": "100",
        "1E+2": "100",
        "12e-1": "1.2",
        ".5": "0.5",
        "5.": "5",
        "0.00012": "0.00012",
        "100": "100",
        "1.0e1": "10",
        "12345678901234567890123456789012345678": "12345678901234567890123456789012345678",
        "0.12345678901234567890123456789012345678": "0.12345678901234567890123456789012345678",
        "123456789012345678901234567890123456780000": "123456789012345678901234567890123456780000",
        "1e125": "1" + "0" * 125,
        "-9.99e125": "-999" + "0" * 123,
        "1e-130": "0." + "0" * 129 + "1",
    }.items()
]
NUMBERS_REFUSED = [
    Check(f"the number {given!r} is refused", n(given), INVALID)
    for given in (
        "",
        "abc",
        "1a",
        "1,5",
        "1_000",
        "0x10",
        "--1",
        "1e",
        "e5",
        ".",
        "-",
        " 1",
        "1 ",
        "NaN",
        "Infinity",
        "-Infinity",
        "1e126",
        "-1e126",
        "1e-131",
        "1" * 39,
        "1." + "1" * 38,
        "1e999999999999",
        "0e126",
        "0e-131",
        "1e99999999999999999999999999",
        "１２",
    )
]
VALUES = [
    Check("an empty string", s(""), s("")),
    Check("an empty binary", b(b""), b(b"")),
    Check("all bytes", b(bytes(range(256))), b(bytes(range(256)))),
    Check("text beyond the basic plane", s("𝄞 é 汉"), s("𝄞 é 汉")),
    Check("a control character", s("\x00\x1f"), s("\x00\x1f")),
    Check("an empty list", lst(), lst()),
    Check("an empty map", m(), m()),
    Check("a false boolean", {"BOOL": False}, {"BOOL": False}),
    Check("numbers inside documents are normalised", m(a=lst(n("1.0"))), m(a=lst(n(1)))),
    Check("members of a set are normalised", {"NS": ["1.0", "2e0"]}, {"NS": ["1", "2"]}),
    Check("an empty string in a set", {"SS": [""]}, {"SS": [""]}),
    Check("an empty string set is refused", {"SS": []}, INVALID),
    Check("an empty number set is refused", {"NS": []}, INVALID),
    Check("an empty binary set is refused", {"BS": []}, INVALID),
    Check("an empty set inside a document is refused", m(a={"SS": []}), INVALID),
    Check("a repeated string is refused", {"SS": ["a", "b", "a"]}, INVALID),
    Check("a repeated number is refused by value", {"NS": ["1", "1.0"]}, INVALID),
    Check("a repeated binary is refused", {"BS": [b"a", b"a"]}, INVALID),
    Check("a value without a type is refused", {}, INVALID),
    Check("a value of two types is refused", {"S": "a", "N": "1"}, INVALID),
    Check("a false null is refused", {"NULL": False}, INVALID),
    Check("a bad number inside a document is refused", m(a=lst(n("x"))), INVALID),
]


def nested(depth: int) -> Value:
    """A string inside `depth` lists."""
    value = s("deep")
    for _ in range(depth):
        value = lst(value)
    return value


DEPTH = [
    Check("31 lists around a value", nested(31), nested(31)),
    Check("32 lists around a value are refused", nested(32), INVALID),
]

MINISTACK_DIFFERS = {
    **differs(
        "accepts it",
        "the number '１２' is refused",
    ),
}


@on_both([*NUMBERS_KEPT, *NUMBERS_REFUSED, *VALUES, *DEPTH], MINISTACK_DIFFERS)
def test_value(dynamo: Dynamo, check: Check) -> None:
    pk = dynamo.fresh()
    expected = check.kept if isinstance(check.kept, str) else "ok"
    assert outcome(lambda: dynamo.put({**key(pk), "v": check.given})) == expected
    kept = dynamo.get(key(pk))
    if expected == "ok":
        assert kept is not None
        assert canonical(kept["v"]) == canonical(check.kept)
    else:
        assert kept is None


@dataclass(frozen=True)
class KeyCheck:
    claim: str
    table: str
    item: dict[str, Value]
    expected: str


KEYS = [
    KeyCheck("a missing sort key is refused", MAIN, {"pk": s("x")}, INVALID),
    KeyCheck("a missing partition key is refused", MAIN, {"sk": s("x")}, INVALID),
    KeyCheck("a key of the wrong type is refused", MAIN, {"pk": s("x"), "sk": n(1)}, INVALID),
    KeyCheck("an empty string key is refused", MAIN, {"pk": s(""), "sk": s("x")}, INVALID),
    KeyCheck("an empty sort key is refused", MAIN, {"pk": s("x"), "sk": s("")}, INVALID),
    KeyCheck("an empty binary key is refused", BINARY, {"pk": b(b"x"), "sk": b(b"")}, INVALID),
    KeyCheck("a partition key of 2048 bytes", MAIN, {"pk": s("p" * 2048), "sk": s("x")}, "ok"),
    KeyCheck("a partition key of 2049 bytes is refused", MAIN, {"pk": s("p" * 2049), "sk": s("x")}, INVALID),
    KeyCheck("key sizes are in bytes", MAIN, {"pk": s("é" * 1025), "sk": s("x")}, INVALID),
    KeyCheck("a sort key of 1024 bytes", MAIN, {"pk": s("x"), "sk": s("k" * 1024)}, "ok"),
    KeyCheck("a sort key of 1025 bytes is refused", MAIN, {"pk": s("x"), "sk": s("k" * 1025)}, INVALID),
    KeyCheck("a binary sort key of 1024 bytes", BINARY, {"pk": b(b"x"), "sk": b(b"k" * 1024)}, "ok"),
    KeyCheck("a number for a key", NUMBERS, {"pk": s("x"), "sk": n("-1.5")}, "ok"),
    KeyCheck("a bad number for a key is refused", NUMBERS, {"pk": s("x"), "sk": n("1e200")}, INVALID),
    KeyCheck("an index key of the wrong type is refused", MAIN, {**key("x"), "g": n(1), "h": n(1)}, INVALID),
    KeyCheck("a lone index key of the wrong type is refused", MAIN, {**key("x"), "h": s("1")}, INVALID),
    KeyCheck("an empty index key is refused", MAIN, {**key("x"), "k": s(""), "kr": s("y")}, INVALID),
    KeyCheck("half an index key", MAIN, {**key("x"), "g": s("y")}, "ok"),
    KeyCheck("an empty attribute name is refused", MAIN, {**key("x"), "": s("y")}, INVALID),
    KeyCheck("an item of 400 KB", SINGLE, {"pk": s("big"), "v": s("x" * (400 * 1024 - 6))}, "ok"),
    KeyCheck(
        "an item of 400 KB and a byte is refused", SINGLE, {"pk": s("big"), "v": s("x" * (400 * 1024 - 5))}, INVALID
    ),
    KeyCheck(
        "attribute names count for the size", SINGLE, {"pk": s("big"), "v" * 20: s("x" * (400 * 1024 - 20))}, INVALID
    ),
]
KEYS_DIFFER = {
    **differs(
        "accepts it",
        "an empty attribute name is refused",
    ),
}


@on_both(KEYS, KEYS_DIFFER)
def test_key_and_item_limits(dynamo: Dynamo, check: KeyCheck) -> None:
    assert outcome(lambda: dynamo.put(check.item, check.table)) == check.expected


@dataclass(frozen=True)
class Malformed:
    claim: str
    operation: str
    request: dict[str, Any]
    expected: str


MALFORMED = [
    Malformed("get with half a key is refused", "get_item", {"Key": {"pk": s("x")}}, INVALID),
    Malformed("get with more than the key is refused", "get_item", {"Key": {**key("x"), "a": n(1)}}, INVALID),
    Malformed("get with a key of the wrong type is refused", "get_item", {"Key": {"pk": s("x"), "sk": n(1)}}, INVALID),
    Malformed("get with an empty key value is refused", "get_item", {"Key": key("")}, INVALID),
    Malformed("delete with half a key is refused", "delete_item", {"Key": {"pk": s("x")}}, INVALID),
    Malformed("update with half a key is refused", "update_item", {"Key": {"pk": s("x")}}, INVALID),
    Malformed("put gives no UPDATED_OLD", "put_item", {"Item": key("x"), "ReturnValues": "UPDATED_OLD"}, INVALID),
    Malformed("delete gives no ALL_NEW", "delete_item", {"Key": key("x"), "ReturnValues": "ALL_NEW"}, INVALID),
    Malformed("an unknown ReturnValues is refused", "put_item", {"Item": key("x"), "ReturnValues": "SOME"}, INVALID),
    Malformed(
        "an unknown ReturnConsumedCapacity is refused",
        "get_item",
        {"Key": key("x"), "ReturnConsumedCapacity": "ALL"},
        INVALID,
    ),
    Malformed(
        "an unknown ReturnValuesOnConditionCheckFailure is refused",
        "put_item",
        {
            "Item": key("x"),
            "ConditionExpression": "attribute_exists(pk)",
            "ReturnValuesOnConditionCheckFailure": "ALL_NEW",
        },
        INVALID,
    ),
    Malformed(
        "values without an expression are refused",
        "put_item",
        {"Item": key("x"), "ExpressionAttributeValues": {":v": n(1)}},
        INVALID,
    ),
    Malformed(
        "names without an expression are refused",
        "get_item",
        {"Key": key("x"), "ExpressionAttributeNames": {"#n": "a"}},
        INVALID,
    ),
    Malformed(
        "no values at all are refused",
        "put_item",
        {"Item": key("x"), "ConditionExpression": "attribute_not_exists(a)", "ExpressionAttributeValues": {}},
        INVALID,
    ),
    Malformed(
        "an empty referenced name is refused",
        "get_item",
        {"Key": key("x"), "ProjectionExpression": "#n", "ExpressionAttributeNames": {"#n": ""}},
        INVALID,
    ),
]
MALFORMED_DIFFERS = {
    **differs(
        "accepts it",
        "an empty referenced name is refused",
        "an unknown ReturnValuesOnConditionCheckFailure is refused",
    ),
}


@on_both(MALFORMED, MALFORMED_DIFFERS)
def test_malformed_request(dynamo: Dynamo, check: Malformed) -> None:
    operation = getattr(dynamo.client, check.operation)
    assert outcome(lambda: operation(TableName=MAIN, **check.request)) == check.expected


@both()
def test_an_unknown_table_is_not_found(dynamo: Dynamo) -> None:
    assert outcome(lambda: dynamo.put(key("x"), "no-such-table")) == "ResourceNotFoundException"
    assert outcome(lambda: dynamo.get(key("x"), "no-such-table")) == "ResourceNotFoundException"


@both()
def test_put_replaces_the_whole_item_and_gives_back_the_old_one(dynamo: Dynamo) -> None:
    pk = dynamo.fresh()
    dynamo.put({**key(pk), "a": n(1), "z": n(2)})
    answer = dynamo.client.put_item(TableName=MAIN, Item={**key(pk), "a": s("new")}, ReturnValues="ALL_OLD")
    assert answer["Attributes"] == {**key(pk), "a": n(1), "z": n(2)}
    assert dynamo.get(key(pk)) == {**key(pk), "a": s("new")}


@both()
def test_delete_is_repeatable_and_gives_back_the_old_item_once(dynamo: Dynamo) -> None:
    pk = dynamo.fresh()
    dynamo.put({**key(pk), "a": n(1)})
    first = dynamo.client.delete_item(TableName=MAIN, Key=key(pk), ReturnValues="ALL_OLD")
    second = dynamo.client.delete_item(TableName=MAIN, Key=key(pk), ReturnValues="ALL_OLD")
    assert first["Attributes"] == {**key(pk), "a": n(1)}
    assert "Attributes" not in second


@both(ministack_differs="finds number keys by their text")
def test_a_number_key_is_found_by_its_value(dynamo: Dynamo) -> None:
    pk = dynamo.fresh()
    dynamo.put({"pk": s(pk), "sk": n("10.0")}, NUMBERS)
    assert dynamo.get({"pk": s(pk), "sk": n("1e1")}, NUMBERS) == {"pk": s(pk), "sk": n(10)}


@dataclass(frozen=True)
class Projected:
    claim: str
    expression: str
    expected: dict[str, Value] | str
    names: tuple[tuple[str, str], ...] = ()


DOC = {"a": m(b=lst(n(2), n(4), m(x=s("hi"), y=s("yo"))), c=n(5)), "b": s("hello"), "c.d": n(1)}
PROJECTED = [
    Projected("one attribute", "b", {"b": s("hello")}),
    Projected("several attributes and the key", "b, pk", {"b": s("hello"), "pk": s("PK")}),
    Projected("a missing attribute gives an empty item", "zz", {}),
    Projected("a name in a map", "a.c", {"a": m(c=n(5))}),
    Projected("an element of a list", "a.b[1]", {"a": m(b=lst(n(4)))}),
    Projected("elements close up in index order", "a.b[2].y, a.b[0]", {"a": m(b=lst(n(2), m(y=s("yo"))))}),
    Projected("parts of one map are merged", "a.c, a.b[0]", {"a": m(c=n(5), b=lst(n(2)))}),
    Projected("beyond a list gives nothing", "a.b[3]", {}),
    Projected("through a scalar gives nothing", "b.x", {}),
    Projected("an index of a map gives nothing", "a[0]", {}),
    Projected("by reference", "#a.#c", {"a": m(c=n(5))}, (("#a", "a"), ("#c", "c"))),
    Projected("a dot in a reference is no path", "#n", {"c.d": n(1)}, (("#n", "c.d"),)),
    Projected("the same twice is refused", "b, b", INVALID),
    Projected("a part of another is refused", "a, a.c", INVALID),
    Projected("a map and a list at one place are refused", "a.b, a[0]", INVALID),
    Projected("an empty projection is refused", "", INVALID),
    Projected("a trailing comma is refused", "b,", INVALID),
    Projected("a reserved word is refused", "b, name", INVALID),
    Projected("an unused name is refused", "b", INVALID, (("#n", "a"),)),
    Projected("an undefined name is refused", "#m", INVALID, (("#n", "a"),)),
    Projected("a value is refused", ":v", INVALID),
    Projected("a function is refused", "size(b)", INVALID),
]
PROJECTED_DIFFERS = {
    **differs(
        "accepts it",
        "a map and a list at one place are refused",
        "an empty projection is refused",
        "a trailing comma is refused",
        "a function is refused",
    ),
}


@on_both(PROJECTED, PROJECTED_DIFFERS)
def test_projection(dynamo: Dynamo, check: Projected) -> None:
    pk = dynamo.fresh()
    dynamo.put({**key(pk), **DOC})
    wanted: dict[str, Any] = {"TableName": MAIN, "Key": key(pk), "ProjectionExpression": check.expression}
    if check.names:
        wanted["ExpressionAttributeNames"] = dict(check.names)
    if isinstance(check.expected, str):
        assert outcome(lambda: dynamo.client.get_item(**wanted)) == check.expected
        return
    expected = {name: s(pk) if name == "pk" else value for name, value in check.expected.items()}
    # An empty item may come as {} or not at all: botocore shows DynamoDB's {} as {}.
    assert dynamo.client.get_item(**wanted).get("Item", {}) == expected
