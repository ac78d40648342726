"""Random requests: anything gets an answer or a coded error, and well-formed ones mean what an independent model
says.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callboard_control.embedded.engine import OPERATIONS, Engine, EngineError
from tests.unit.embedded.engine import tables

# The same examples every time: a run that fails on another machine can be repeated there.
RELAXED = settings(
    deadline=None, derandomize=True, max_examples=200, suppress_health_check=[HealthCheck.too_slow], database=None
)

WORDS = """
a b doc doc.x l[0] l[1] #n #n.x :v :w :s :z = <> < <= > >= ( ) , . [ ] + - AND OR NOT BETWEEN IN SET REMOVE ADD DELETE
size contains begins_with attribute_exists attribute_not_exists attribute_type if_not_exists list_append pk sk g h
status 0 99999999999999999999 é ' _x 1a
"""
TOKENS = [*WORDS.split(), "\x00", ""]
VALUES = {":v": {"N": "1"}, ":w": {"S": "x"}, ":s": {"SS": ["x", "y"]}}
NAMES = {"#n": "doc"}
expressions = st.one_of(
    st.lists(st.sampled_from(TOKENS), max_size=14).map(" ".join),
    st.lists(st.sampled_from(TOKENS), max_size=14).map("".join),
    st.text(max_size=30),
)


@pytest.fixture(scope="module")
def shared() -> Iterator[Engine]:
    with Engine(":memory:") as engine:
        tables.create(engine)
        yield engine


def coded(engine: Engine, operation: str, request: dict[str, Any]) -> None:
    """Run a request; only coded errors may come, and never that of a bug."""
    try:
        engine.execute(operation, request)
    except EngineError as error:
        assert error.code != "InternalServerError", error  # noqa: PT017 - the success branch is as good


@RELAXED
@given(expressions, st.sampled_from(["ConditionExpression", "UpdateExpression", "both"]))
def test_any_condition_and_update_text_gets_an_answer(shared: Engine, text: str, kind: str) -> None:
    item = {"a": {"N": "1"}, "b": {"S": "x"}, "doc": {"M": {"x": {"N": "2"}}}, "l": {"L": [{"N": "1"}]}}
    tables.put(shared, {**tables.key("fuzz"), **item})
    used = {"ConditionExpression": text, "UpdateExpression": text} if kind == "both" else {kind: text}
    request = {"TableName": tables.NAME, "Key": tables.key("fuzz"), **used}
    values = {name: value for name, value in VALUES.items() if name in text}
    names = {name: value for name, value in NAMES.items() if name in text}
    if values:
        request["ExpressionAttributeValues"] = values
    if names:
        request["ExpressionAttributeNames"] = names
    coded(shared, "UpdateItem", request)


@RELAXED
@given(expressions, expressions, expressions)
def test_any_key_condition_filter_and_projection_text_gets_an_answer(
    shared: Engine, condition: str, filtering: str, projection: str
) -> None:
    request = {
        "TableName": tables.NAME,
        "KeyConditionExpression": condition,
        "FilterExpression": filtering,
        "ProjectionExpression": projection,
        "ExpressionAttributeValues": VALUES,
        "ExpressionAttributeNames": NAMES,
    }
    coded(shared, "Query", request)
    del request["KeyConditionExpression"]
    coded(shared, "Scan", request)


json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.text(max_size=6),
        st.sampled_from([tables.NAME, "pk", "ALL_OLD", "a = :v"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["S", "N", "B", "SS", "NS", "L", "M", "BOOL", "NULL", "pk", "sk", "Put", "Get", "Keys", tables.NAME]
            ),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=8,
)
NAMES_OF_PARAMETERS = """
TableName Key Item TransactItems RequestItems ConditionExpression UpdateExpression KeyConditionExpression
ExpressionAttributeValues ExpressionAttributeNames ReturnValues Limit ExclusiveStartKey ConsistentRead Select IndexName
ReturnConsumedCapacity ClientRequestToken AttributeDefinitions KeySchema GlobalSecondaryIndexes TimeToLiveSpecification
ScanIndexForward ProjectionExpression BillingMode StreamSpecification Expected
"""
PARAMETERS = NAMES_OF_PARAMETERS.split()


@RELAXED
@given(st.sampled_from(sorted(OPERATIONS)), st.dictionaries(st.sampled_from(PARAMETERS), json_values, max_size=5))
def test_any_json_request_gets_an_answer(shared: Engine, operation: str, request: dict[str, Any]) -> None:
    if operation == "DeleteTable":
        request.pop("TableName", None)  # the table is wanted again
    coded(shared, operation, request)


# An independent model: Python values instead of typed JSON, evaluated straight from the generated structure.

numbers = st.integers(-5, 5).map(Decimal)
plain = st.one_of(numbers, st.sampled_from(["", "a", "ab", "b"]), st.booleans(), st.none())
items = st.dictionaries(
    st.sampled_from(["a", "b", "c"]),
    st.one_of(plain, st.lists(plain, max_size=3), st.frozensets(st.sampled_from(["x", "y"]), min_size=1)),
    max_size=3,
)
MISSING = object()


def typed(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"BOOL": value}
        case Decimal():
            return {"N": str(value)}
        case str():
            return {"S": value}
        case None:
            return {"NULL": True}
        case frozenset():
            return {"SS": sorted(value)}
        case _:
            return {"L": [typed(element) for element in value]}


def same(left: Any, right: Any) -> bool:
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(same(one, two) for one, two in zip(left, right, strict=True))
    return left is not MISSING and right is not MISSING and type(left) is type(right) and left == right


def ordered(left: Any, right: Any, compare: Callable[[Any, Any], bool]) -> bool:
    return type(left) is type(right) and isinstance(left, Decimal | str) and compare(left, right)


Meaning = Callable[[dict[str, Any]], bool]


@st.composite
def comparisons(draw: st.DrawFn) -> tuple[str, dict[str, Any], Meaning]:
    """One test: its text with `?` for the place of its value, its value, its meaning."""
    name = draw(st.sampled_from(["a", "b", "c"]))
    value = draw(plain)
    sign = draw(st.sampled_from(["=", "<>", "<", ">=", "exists", "missing", "begins", "contains", "size", "in"]))

    def of(item: dict[str, Any]) -> Any:
        return item.get(name, MISSING)

    scalar = value if isinstance(value, Decimal | str) else Decimal(1)
    text = value if isinstance(value, str) else "a"
    match sign:
        case "=":
            return f"{name} = ?", {"?": value}, lambda item: same(of(item), value)
        case "<>":
            return f"{name} <> ?", {"?": value}, lambda item: not same(of(item), value)
        case "<":
            return f"{name} < ?", {"?": scalar}, lambda item: ordered(of(item), scalar, lambda x, y: x < y)
        case ">=":
            return f"? <= {name}", {"?": scalar}, lambda item: ordered(of(item), scalar, lambda x, y: x >= y)
        case "exists":
            return f"attribute_exists({name})", {}, lambda item: of(item) is not MISSING
        case "missing":
            return f"attribute_not_exists({name})", {}, lambda item: of(item) is MISSING
        case "begins":
            return (
                f"begins_with({name}, ?)",
                {"?": text},
                lambda item: isinstance(of(item), str) and of(item).startswith(text),
            )
        case "contains":
            return f"contains({name}, ?)", {"?": value}, lambda item: holds_part(of(item), value)
        case "size":
            return (
                f"size({name}) > ?",
                {"?": Decimal(1)},
                lambda item: isinstance(of(item), str | list | frozenset) and len(of(item)) > 1,
            )
        case _:
            return f"{name} IN (?)", {"?": value}, lambda item: same(of(item), value)


def holds_part(whole: Any, part: Any) -> bool:
    if isinstance(whole, str):
        return isinstance(part, str) and part in whole
    if isinstance(whole, frozenset):
        return isinstance(part, str) and part in whole
    return isinstance(whole, list) and any(same(element, part) for element in whole)


@st.composite
def conditions(draw: st.DrawFn) -> tuple[str, dict[str, Any], Meaning]:
    """Tests joined at random, with all parentheses or with none that precedence makes needless."""
    parts = draw(st.lists(comparisons(), min_size=1, max_size=4))
    values: dict[str, Any] = {}
    texts: list[str] = []
    for number, (text, given_values, _) in enumerate(parts):
        texts.append(text.replace("?", f":v{number}"))
        values |= {f":v{number}": value for value in given_values.values()}
    meanings = [meaning for _, _, meaning in parts]
    negated = draw(st.lists(st.booleans(), min_size=len(parts), max_size=len(parts)))
    joints = draw(st.lists(st.sampled_from(["AND", "OR"]), min_size=len(parts) - 1, max_size=len(parts) - 1))
    texts = [f"NOT {text}" if no else text for text, no in zip(texts, negated, strict=True)]
    text = " ".join(piece for pair in zip(texts, [*joints, ""], strict=True) for piece in pair).strip()

    def meaning(item: dict[str, Any]) -> bool:
        truths = [holds(item) != no for holds, no in zip(meanings, negated, strict=True)]
        groups = [[truths[0]]]
        for joint, truth in zip(joints, truths[1:], strict=True):
            if joint == "AND":
                groups[-1].append(truth)
            else:
                groups.append([truth])
        return any(all(group) for group in groups)

    return text, values, meaning


@RELAXED
@given(items, conditions())
def test_random_conditions_mean_what_the_model_says(
    shared: Engine, item: dict[str, Any], condition: tuple[str, dict[str, Any], Meaning]
) -> None:
    text, values, meaning = condition
    stored = {**tables.key("model"), **{name: typed(value) for name, value in item.items()}}
    tables.put(shared, stored)
    request: dict[str, Any] = {"TableName": tables.NAME, "Key": tables.key("model"), "ConditionExpression": text}
    if values:
        request["ExpressionAttributeValues"] = {name: typed(value) for name, value in values.items()}
    try:
        shared.execute("DeleteItem", request)
        held = True
    except EngineError as error:
        assert error.code == "ConditionalCheckFailedException", error  # noqa: PT017 - both ways are right for some item
        held = False
    assert held == meaning(item), text


@RELAXED
@given(
    st.lists(st.integers(0, 9), max_size=6),
    st.dictionaries(st.integers(0, 9), st.integers(100, 120), max_size=4),
    st.sets(st.integers(0, 9), max_size=4),
)
def test_random_list_edits_mean_what_the_model_says(
    shared: Engine, before: list[int], written: dict[int, int], removed: set[int]
) -> None:
    removed -= set(written)
    tables.put(shared, {**tables.key("list"), "l": {"L": [{"N": str(number)} for number in before]}})
    parts = []
    if written:
        parts.append("SET " + ", ".join(f"l[{index}] = :v{index}" for index in written))
    if removed:
        parts.append("REMOVE " + ", ".join(f"l[{index}]" for index in sorted(removed)))
    request: dict[str, Any] = {"TableName": tables.NAME, "Key": tables.key("list")}
    if parts:
        request["UpdateExpression"] = " ".join(parts)
    if written:
        request["ExpressionAttributeValues"] = {f":v{index}": {"N": str(number)} for index, number in written.items()}
    shared.execute("UpdateItem", request)
    expected = copy.copy(before)
    for index in sorted(written):
        expected[index : index + 1] = [written[index]]  # beyond the end, a slice assignment appends
    length = len(expected)
    expected = [number for position, number in enumerate(expected) if position not in removed or position >= length]
    item = tables.get(shared, "list")
    assert item is not None
    assert [int(element["N"]) for element in item["l"]["L"]] == expected
