"""Update expressions: what an item becomes, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.contract.dynamodb.backends import MAIN, Dynamo, canonical, differs, key, on_both, outcome
from tests.contract.dynamodb.values import Value, lst, m, n, s

INVALID = "ValidationException"


def nested(depth: int) -> Value:
    """A string inside `depth` lists."""
    value = s("deep")
    for _ in range(depth):
        value = lst(value)
    return value


@dataclass(frozen=True)
class Check:
    """`after` is the item's other attributes after the update, or the error code. `before` None: there is no item
    yet.
    """

    claim: str
    before: dict[str, Value] | None
    expression: str
    values: dict[str, Value]
    after: dict[str, Value] | str | None
    names: dict[str, str] = field(default_factory=dict)


OLD = {
    "num": n(5),
    "str": s("old"),
    "seq": lst(n(0), n(1), n(2), n(3)),
    "doc": m(a=n(1), b=m(c=s("x"))),
    "ss": {"SS": ["a", "b"]},
}
LIST = {"l": lst(s("a"), s("b"), s("c"), s("d"))}
DOC = {"doc": m(a=n(1), b=m(c=s("x")))}

SET = [
    Check("set a new attribute", {}, "SET a = :v", {":v": n(1)}, {"a": n(1)}),
    Check("set makes the item", None, "SET a = :v", {":v": n(1)}, {"a": n(1)}),
    Check("set replaces a value of any type", {"a": s("x")}, "SET a = :v", {":v": lst()}, {"a": lst()}),
    Check("set several", {}, "SET a = :v, b = :v", {":v": n(1)}, {"a": n(1), "b": n(1)}),
    Check("set leaves the rest", {"z": n(9)}, "SET a = :v", {":v": n(1)}, {"a": n(1), "z": n(9)}),
    Check("set from an attribute", {"a": s("x")}, "SET c = a", {}, {"a": s("x"), "c": s("x")}),
    Check("set from a nested path", DOC, "SET c = doc.b.c", {}, {**DOC, "c": s("x")}),
    Check("set from a missing attribute is refused", {}, "SET a = z", {}, INVALID),
    Check(
        "values are read before anything is written",
        {"a": n(1), "b": n(2)},
        "SET a = b, b = a",
        {},
        {"a": n(2), "b": n(1)},
    ),
    Check("what is set is not yet there to read", {}, "SET a = :v, b = a", {":v": n(1)}, INVALID),
    Check("a removed attribute can be read", {"a": n(1)}, "REMOVE a SET c = a", {}, {"c": n(1)}),
    Check("set of a key attribute is refused", {}, "SET pk = :v", {":v": s("x")}, INVALID),
    Check("set of a sort key is refused", {}, "SET sk = :v", {":v": s("x")}, INVALID),
    Check("set from a key attribute", {}, "SET a = sk", {}, {"a": s("s")}),
    Check("set by reference", {}, "SET #n = :v", {":v": n(1)}, {"a.b": n(1)}, {"#n": "a.b"}),
    Check("keywords are case-insensitive", {"z": n(1)}, "set a = :v rEmoVe z", {":v": n(1)}, {"a": n(1)}),
    Check("an empty string may be set", {}, "SET a = :v", {":v": s("")}, {"a": s("")}),
]

ARITHMETIC = [
    Check("plus", {"a": n(5)}, "SET a = a + :v", {":v": n(3)}, {"a": n(8)}),
    Check("minus", {"a": n(5)}, "SET a = a - :v", {":v": n(8)}, {"a": n(-3)}),
    Check("a value minus an attribute", {"a": n(5)}, "SET a = :v - a", {":v": n(8)}, {"a": n(3)}),
    Check(
        "the sum of two attributes",
        {"a": n(5), "b": n("0.5")},
        "SET c = a + b",
        {},
        {"a": n(5), "b": n("0.5"), "c": n("5.5")},
    ),
    Check("sums are exact", {"a": n("0.1")}, "SET a = a + :v", {":v": n("0.2")}, {"a": n("0.3")}),
    Check("38 digits are exact", {"a": n("9" * 37)}, "SET a = a + :v", {":v": n(1)}, {"a": n("1" + "0" * 37)}),
    Check("a sum of more than 38 digits is refused", {"a": n("1e50")}, "SET a = a + :v", {":v": n(1)}, INVALID),
    Check("a sum out of range is refused", {"a": n("9e125")}, "SET a = a + :v", {":v": n("9e125")}, INVALID),
    Check("plus of a string attribute is refused", {"a": s("5")}, "SET a = a + :v", {":v": n(1)}, INVALID),
    Check("plus of a string value is refused", {"a": n(5)}, "SET a = a + :v", {":v": s("1")}, INVALID),
    Check("plus of a missing attribute is refused", {}, "SET a = a + :v", {":v": n(1)}, INVALID),
    Check("three summands are refused", {"a": n(1)}, "SET a = a + :v + :v", {":v": n(1)}, INVALID),
    Check("times is refused", {"a": n(1)}, "SET a = a * :v", {":v": n(1)}, INVALID),
    Check("a sum may stand in parentheses", {"a": n(1)}, "SET a = (a + :v)", {":v": n(1)}, {"a": n(2)}),
]

FUNCTIONS = [
    Check("if_not_exists, missing", {}, "SET a = if_not_exists(a, :v)", {":v": n(1)}, {"a": n(1)}),
    Check("if_not_exists, there", {"a": n(7)}, "SET a = if_not_exists(a, :v)", {":v": n(1)}, {"a": n(7)}),
    Check(
        "if_not_exists of another path",
        {"a": n(7)},
        "SET b = if_not_exists(a, :v)",
        {":v": n(1)},
        {"a": n(7), "b": n(7)},
    ),
    Check(
        "if_not_exists with a path for default", {"d": n(3)}, "SET a = if_not_exists(a, d)", {}, {"d": n(3), "a": n(3)}
    ),
    Check("if_not_exists with a missing default is refused", {}, "SET a = if_not_exists(a, z)", {}, INVALID),
    Check("if_not_exists of a value is refused", {}, "SET a = if_not_exists(:v, :v)", {":v": n(1)}, INVALID),
    Check("if_not_exists plus", {}, "SET a = if_not_exists(a, :z) + :v", {":v": n(1), ":z": n(0)}, {"a": n(1)}),
    Check("a sum inside if_not_exists is refused", {}, "SET a = if_not_exists(a, :v + :v)", {":v": n(1)}, INVALID),
    Check("if_not_exists nests", {}, "SET a = if_not_exists(a, if_not_exists(z, :v))", {":v": n(1)}, {"a": n(1)}),
    Check(
        "list_append at the end", LIST, "SET l = list_append(l, :v)", {":v": lst(s("e"))}, {"l": lst(*map(s, "abcde"))}
    ),
    Check(
        "list_append at the front",
        LIST,
        "SET l = list_append(:v, l)",
        {":v": lst(s("e"))},
        {"l": lst(*map(s, "eabcd"))},
    ),
    Check("list_append to nothing is refused", {}, "SET l = list_append(l, :v)", {":v": lst(s("e"))}, INVALID),
    Check(
        "list_append with if_not_exists",
        {},
        "SET l = list_append(if_not_exists(l, :e), :v)",
        {":v": lst(n(1)), ":e": lst()},
        {"l": lst(n(1))},
    ),
    Check("list_append of a string is refused", LIST, "SET l = list_append(l, :v)", {":v": s("e")}, INVALID),
    Check("list_append to a string is refused", {"l": s("x")}, "SET l = list_append(l, :v)", {":v": lst()}, INVALID),
    Check("list_append of one operand is refused", LIST, "SET l = list_append(l)", {}, INVALID),
    Check(
        "list_append in list_append is refused",
        LIST,
        "SET l = list_append(list_append(l, :v), :v)",
        {":v": lst()},
        INVALID,
    ),
    Check("function names are case-sensitive", LIST, "SET l = LIST_APPEND(l, :v)", {":v": lst()}, INVALID),
    Check("an unknown function is refused", LIST, "SET l = reverse(l)", {}, INVALID),
    Check("size in an update is refused", LIST, "SET l = size(l)", {}, INVALID),
]

PATHS = [
    Check("set in a map", DOC, "SET doc.a = :v", {":v": n(2)}, {"doc": m(a=n(2), b=m(c=s("x")))}),
    Check("set a new name in a map", DOC, "SET doc.b.d = :v", {":v": n(2)}, {"doc": m(a=n(1), b=m(c=s("x"), d=n(2)))}),
    Check("set through a missing map is refused", {}, "SET doc.a = :v", {":v": n(2)}, INVALID),
    Check("set through a missing item is refused", None, "SET doc.a = :v", {":v": n(2)}, INVALID),
    Check("set through a scalar is refused", {"doc": s("x")}, "SET doc.a = :v", {":v": n(2)}, INVALID),
    Check("set of a name in a list is refused", LIST, "SET l.a = :v", {":v": n(2)}, INVALID),
    Check("set of an index in a map is refused", DOC, "SET doc[0] = :v", {":v": n(2)}, INVALID),
    Check("set in a list", LIST, "SET l[1] = :v", {":v": s("B")}, {"l": lst(*map(s, "aBcd"))}),
    Check("set beyond a list appends", LIST, "SET l[10] = :v", {":v": s("e")}, {"l": lst(*map(s, "abcde"))}),
    Check(
        "several beyond a list append by index",
        LIST,
        "SET l[30] = :x, l[20] = :y",
        {":x": s("x"), ":y": s("y")},
        {"l": lst(*map(s, "abcdyx"))},
    ),
    Check("remove an attribute", {"a": n(1), "b": n(2)}, "REMOVE a", {}, {"b": n(2)}),
    Check("remove several", {"a": n(1), "b": n(2)}, "REMOVE a, b", {}, {}),
    Check("remove a missing attribute", {"a": n(1)}, "REMOVE z", {}, {"a": n(1)}),
    Check("remove in a map", DOC, "REMOVE doc.b.c", {}, {"doc": m(a=n(1), b=m())}),
    Check("remove a missing name in a map", DOC, "REMOVE doc.z", {}, DOC),
    Check("remove through a missing map is refused", {}, "REMOVE doc.a", {}, INVALID),
    Check("remove through a scalar is refused", {"doc": s("x")}, "REMOVE doc.a", {}, INVALID),
    Check("remove in a list closes the gap", LIST, "REMOVE l[1]", {}, {"l": lst(*map(s, "acd"))}),
    Check("several removals use the old positions", LIST, "REMOVE l[0], l[2]", {}, {"l": lst(*map(s, "bd"))}),
    Check("removals in any order use the old positions", LIST, "REMOVE l[2], l[0]", {}, {"l": lst(*map(s, "bd"))}),
    Check(
        "set and remove use the old positions",
        LIST,
        "REMOVE l[0] SET l[2] = :v",
        {":v": s("C")},
        {"l": lst(*map(s, "bCd"))},
    ),
    Check("remove beyond a list", LIST, "REMOVE l[9]", {}, LIST),
    Check("remove of a key attribute is refused", {}, "REMOVE sk", {}, INVALID),
    Check("remove alone makes no item", None, "REMOVE a", {}, None),
    Check("remove through a missing item is nothing", None, "REMOVE a.b", {}, None),
    Check(
        "several places in one map",
        DOC,
        "SET doc.a = :v, doc.z = :v REMOVE doc.b",
        {":v": n(2)},
        {"doc": m(a=n(2), z=n(2))},
    ),
]

ADD_DELETE = [
    Check("add to a number", {"a": n(5)}, "ADD a :v", {":v": n(-2)}, {"a": n(3)}),
    Check("add to nothing starts at zero", {}, "ADD a :v", {":v": n(3)}, {"a": n(3)}),
    Check("add makes the item", None, "ADD a :v", {":v": n(3)}, {"a": n(3)}),
    Check("add to a set", {"x": {"SS": ["a"]}}, "ADD x :v", {":v": {"SS": ["b", "a"]}}, {"x": {"SS": ["a", "b"]}}),
    Check(
        "add to a number set is by value",
        {"x": {"NS": ["1"]}},
        "ADD x :v",
        {":v": {"NS": ["1.0", "2"]}},
        {"x": {"NS": ["1", "2"]}},
    ),
    Check("add makes a set", {}, "ADD x :v", {":v": {"SS": ["b"]}}, {"x": {"SS": ["b"]}}),
    Check("add in a map", {"doc": m(a=n(1))}, "ADD doc.a :v", {":v": n(1)}, {"doc": m(a=n(2))}),
    Check("add of a string is refused", {"a": s("x")}, "ADD a :v", {":v": s("y")}, INVALID),
    Check("add of a list is refused", LIST, "ADD l :v", {":v": lst(n(1))}, INVALID),
    Check("add of a number to a string is refused", {"a": s("x")}, "ADD a :v", {":v": n(1)}, INVALID),
    Check("add of a set of another type is refused", {"x": {"SS": ["a"]}}, "ADD x :v", {":v": {"NS": ["1"]}}, INVALID),
    Check("add of an attribute is refused", {"a": n(1), "b": n(1)}, "ADD a b", {}, INVALID),
    Check(
        "delete from a set", {"x": {"SS": ["a", "b"]}}, "DELETE x :v", {":v": {"SS": ["b", "z"]}}, {"x": {"SS": ["a"]}}
    ),
    Check("an emptied set disappears", {"x": {"SS": ["a", "b"]}}, "DELETE x :v", {":v": {"SS": ["b", "a"]}}, {}),
    Check(
        "delete from a number set is by value",
        {"x": {"NS": ["1", "2"]}},
        "DELETE x :v",
        {":v": {"NS": ["2.0"]}},
        {"x": {"NS": ["1"]}},
    ),
    Check(
        "delete from a binary set",
        {"x": {"BS": [b"a", b"b"]}},
        "DELETE x :v",
        {":v": {"BS": [b"a"]}},
        {"x": {"BS": [b"b"]}},
    ),
    Check("delete from nothing", {"a": n(1)}, "DELETE x :v", {":v": {"SS": ["b"]}}, {"a": n(1)}),
    Check("delete alone makes no item", None, "DELETE x :v", {":v": {"SS": ["b"]}}, None),
    Check("delete of a number is refused", {"a": n(1)}, "DELETE a :v", {":v": n(1)}, INVALID),
    Check("delete from a list is refused", LIST, "DELETE l :v", {":v": {"SS": ["a"]}}, INVALID),
    Check(
        "delete of a set of another type is refused",
        {"x": {"SS": ["1"]}},
        "DELETE x :v",
        {":v": {"NS": ["1"]}},
        INVALID,
    ),
    Check(
        "all four sections",
        OLD,
        "ADD num :v DELETE ss :s SET str = :t REMOVE doc, seq",
        {":v": n(1), ":s": {"SS": ["a"]}, ":t": s("new")},
        {"num": n(6), "ss": {"SS": ["b"]}, "str": s("new")},
    ),
]

REFUSED = [
    Check("an empty update is refused", {}, "", {}, INVALID),
    Check("an unknown section is refused", {}, "PUT a = :v", {":v": n(1)}, INVALID),
    Check("a section twice is refused", {}, "SET a = :v SET b = :v", {":v": n(1)}, INVALID),
    Check(
        "a section twice, not in a row, is refused",
        {"z": n(1)},
        "SET a = :v REMOVE z SET b = :v",
        {":v": n(1)},
        INVALID,
    ),
    Check("the same path twice is refused", {}, "SET a = :v, a = :v", {":v": n(1)}, INVALID),
    Check("the same path by reference is refused", {}, "SET a = :v, #a = :v", {":v": n(1)}, INVALID, {"#a": "a"}),
    Check("set and remove of one path is refused", {"a": n(1)}, "SET a = :v REMOVE a", {":v": n(1)}, INVALID),
    Check("a path inside another is refused", DOC, "SET doc = :v, doc.a = :v", {":v": n(1)}, INVALID),
    Check("a list element inside another path is refused", LIST, "SET l = :v REMOVE l[0]", {":v": n(1)}, INVALID),
    Check("a map and a list at one place are refused", DOC, "SET doc.a = :v, doc[0] = :v", {":v": n(1)}, INVALID),
    Check("a trailing comma is refused", {}, "SET a = :v,", {":v": n(1)}, INVALID),
    Check("a missing value is refused", {}, "SET a =", {}, INVALID),
    Check("set to a bare number is refused", {}, "SET a = 1", {}, INVALID),
    Check("a value on the left is refused", {}, "SET :v = :v", {":v": n(1)}, INVALID),
    Check("an undefined value is refused", {}, "SET a = :w", {":v": n(1)}, INVALID),
    Check("an unused value is refused", {}, "SET a = :v", {":v": n(1), ":w": n(1)}, INVALID),
    Check("a reserved word is refused", {}, "SET status = :v", {":v": n(1)}, INVALID),
    Check("remove of a value is refused", {}, "REMOVE :v", {":v": n(1)}, INVALID),
    Check(
        "an update to more than 32 levels is refused", {"doc": m(a=n(1))}, "SET doc.a = :v", {":v": nested(31)}, INVALID
    ),
    Check("an index key of the wrong type is refused", {}, "SET g = :v", {":v": n(1)}, INVALID),
    Check("an empty index key is refused", {}, "SET g = :v", {":v": s("")}, INVALID),
    Check("an update to over 400 KB is refused", {"a": s("x" * 300_000)}, "SET c = a", {}, INVALID),
]

CHECKS = [*SET, *ARITHMETIC, *FUNCTIONS, *PATHS, *ADD_DELETE, *REFUSED]
MINISTACK_DIFFERS = {
    **differs(
        "accepts it",
        "a sum of more than 38 digits is refused",
        "plus of a string attribute is refused",
        "plus of a string value is refused",
        "three summands are refused",
        "times is refused",
        "if_not_exists of a value is refused",
        "a sum inside if_not_exists is refused",
        "list_append of a string is refused",
        "list_append to a string is refused",
        "list_append in list_append is refused",
        "function names are case-sensitive",
        "set of an index in a map is refused",
        "remove through a missing map is refused",
        "remove through a scalar is refused",
        "add of an attribute is refused",
        "a section twice is refused",
        "a section twice, not in a row, is refused",
        "the same path twice is refused",
        "the same path by reference is refused",
        "set and remove of one path is refused",
        "a list element inside another path is refused",
        "a map and a list at one place are refused",
        "a trailing comma is refused",
        "a missing value is refused",
        "set to a bare number is refused",
        "a value on the left is refused",
        "remove of a value is refused",
    ),
    **differs(
        "appends in the order written",
        "several beyond a list append by index",
    ),
    **differs(
        "removes one after the other",
        "several removals use the old positions",
    ),
    **differs(
        "makes an item of the key",
        "remove alone makes no item",
        "remove through a missing item is nothing",
        "delete alone makes no item",
    ),
    **differs(
        "compares members of number sets as their text",
        "add to a number set is by value",
        "delete from a number set is by value",
    ),
}


def request(pk: str, check: Check) -> dict[str, Any]:
    wanted: dict[str, Any] = {"TableName": MAIN, "Key": key(pk), "UpdateExpression": check.expression}
    if check.values:
        wanted["ExpressionAttributeValues"] = check.values
    if check.names:
        wanted["ExpressionAttributeNames"] = check.names
    return wanted


@on_both(CHECKS, MINISTACK_DIFFERS)
def test_update(dynamo: Dynamo, check: Check) -> None:
    pk = dynamo.fresh()
    before = None if check.before is None else {**key(pk), **check.before}
    if before is not None:
        dynamo.put(before)
        before = dynamo.get(key(pk))
    refused = isinstance(check.after, str)
    assert outcome(lambda: dynamo.client.update_item(**request(pk, check))) == (check.after if refused else "ok")
    after = before if refused else None if check.after is None else {**key(pk), **dict(check.after)}
    assert canonical(dynamo.get(key(pk))) == canonical(after)
