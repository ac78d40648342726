"""The engine's error texts are DynamoDB's own, where these are known word for word (people search for them)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from callboard_control.embedded.engine import Engine, EngineError
from tests.unit.embedded.engine import tables

ONE = {":v": {"N": "1"}}
INVALID = "One or more parameter values were invalid: "
NOT_VALID = "One or more parameter values are not valid. "


@dataclass(frozen=True)
class Case:
    """A request on the table of `tables`, and the message it must get."""

    name: str
    operation: str
    request: dict[str, Any]
    message: str


def condition(text: str, values: dict[str, Any] | None = None, names: dict[str, str] | None = None) -> dict[str, Any]:
    request: dict[str, Any] = {"Item": tables.key("x"), "ConditionExpression": text}
    if values:
        request["ExpressionAttributeValues"] = values
    if names:
        request["ExpressionAttributeNames"] = names
    return request


def update(text: str, values: dict[str, Any] | None = None) -> dict[str, Any]:
    request: dict[str, Any] = {"Key": tables.key("x"), "UpdateExpression": text}
    return request | ({"ExpressionAttributeValues": values} if values else {})


def query(text: str, values: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"KeyConditionExpression": text, "ExpressionAttributeValues": values, **more}


P = {":p": {"S": "p"}}
CASES = [
    Case(
        "syntax",
        "UpdateItem",
        update("INVALID SYNTAX HERE"),
        'Invalid UpdateExpression: Syntax error; token: "INVALID", near: "INVALID SYNTAX"',
    ),
    Case("empty", "UpdateItem", update(""), "Invalid UpdateExpression: The expression can not be empty;"),
    Case(
        "redundant parentheses",
        "PutItem",
        condition("((attribute_exists(a)))"),
        "Invalid ConditionExpression: The expression has redundant parentheses;",
    ),
    Case(
        "undefined name",
        "PutItem",
        condition("attribute_exists(#a)"),
        "Invalid ConditionExpression: An expression attribute name used in the document path is not defined; "
        "attribute name: #a",
    ),
    Case(
        "undefined value",
        "UpdateItem",
        update("SET a = :v"),
        "Invalid UpdateExpression: An expression attribute value used in expression is not defined; "
        "attribute value: :v",
    ),
    Case(
        "unused value",
        "UpdateItem",
        update("SET a = :v", {**ONE, ":unused": {"N": "1"}}),
        "Value provided in ExpressionAttributeValues unused in expressions: keys: {:unused}",
    ),
    Case(
        "unused name",
        "PutItem",
        condition("attribute_exists(a)", names={"#unused": "b"}),
        "Value provided in ExpressionAttributeNames unused in expressions: keys: {#unused}",
    ),
    Case(
        "reserved word",
        "PutItem",
        condition("attribute_exists(status)"),
        "Invalid ConditionExpression: Attribute name is a reserved keyword; reserved keyword: status",
    ),
    Case(
        "distinct operands",
        "PutItem",
        condition("contains(#a, #a)", names={"#a": "data"}),
        "Invalid ConditionExpression: The first operand must be distinct from the remaining operands for this operator "
        "or function; operator: contains, first operand: [data]",
    ),
    Case(
        "unknown function",
        "PutItem",
        condition("foo(a)"),
        "Invalid ConditionExpression: Invalid function name; function: foo",
    ),
    Case(
        "number of operands",
        "PutItem",
        condition("begins_with(a)"),
        "Invalid ConditionExpression: Incorrect number of operands for operator or function; "
        "operator or function: begins_with, number of operands: 1",
    ),
    Case(
        "overlap",
        "UpdateItem",
        update("SET a = :v, a.b = :v", ONE),
        "Invalid UpdateExpression: Two document paths overlap with each other; must remove or rewrite one of these "
        "paths; path one: [a], path two: [a, b]",
    ),
    Case(
        "conflict",
        "UpdateItem",
        update("SET a.b = :v, a[1] = :v", ONE),
        "Invalid UpdateExpression: Two document paths conflict with each other; must remove or rewrite one of these "
        "paths; path one: [a, b], path two: [a, [1]]",
    ),
    Case(
        "section twice",
        "UpdateItem",
        update("SET a = :v SET b = :v", ONE),
        'Invalid UpdateExpression: The "SET" section can only be used once in an update expression;',
    ),
    Case(
        "key attribute",
        "UpdateItem",
        update("SET pk = :v", ONE),
        INVALID + "Cannot update attribute pk. This attribute is part of the key",
    ),
    Case(
        "missing attribute",
        "UpdateItem",
        update("SET a = b"),
        "The provided expression refers to an attribute that does not exist in the item",
    ),
    Case(
        "bad path",
        "UpdateItem",
        update("SET a.b = :v", ONE),
        "The document path provided in the update expression is invalid for update",
    ),
    Case("missing key", "PutItem", {"Item": {"pk": {"S": "x"}}}, INVALID + "Missing the key sk in the item"),
    Case(
        "key type",
        "PutItem",
        {"Item": {"pk": {"N": "5"}, "sk": {"S": "x"}}},
        INVALID + "Type mismatch for key pk expected: S actual: N",
    ),
    Case(
        "empty key",
        "GetItem",
        {"Key": tables.key("")},
        NOT_VALID + "The AttributeValue for a key attribute cannot contain an empty string value. Key: pk",
    ),
    Case("key shape", "GetItem", {"Key": {"pk": {"S": "x"}}}, "The provided key element does not match the schema"),
    Case("empty set", "PutItem", {"Item": {"a": {"SS": []}}}, INVALID + "An string set  may not be empty"),
    Case("number", "PutItem", {"Item": {"a": {"N": "x"}}}, "The parameter cannot be converted to a numeric value: x"),
    Case(
        "precision",
        "PutItem",
        {"Item": {"a": {"N": "1" * 39}}},
        "Attempting to store more than 38 significant digits in a Number",
    ),
    Case(
        "operand type",
        "Query",
        query("pk = :p AND begins_with(sk, :v)", {**P, **ONE}),
        "Invalid KeyConditionExpression: Incorrect operand type for operator or function; "
        "operator or function: begins_with, operand type: N",
    ),
    Case(
        "schema type",
        "Query",
        query("pk = :p AND sk = :v", {**P, **ONE}),
        INVALID + "Condition parameter type does not match schema type",
    ),
    Case(
        "one condition per key",
        "Query",
        query("pk = :p AND sk > :p AND sk < :p", P),
        "Invalid KeyConditionExpression: KeyConditionExpressions must only contain one condition per key",
    ),
    Case(
        "number of conditions",
        "Query",
        query("pk = :p AND sk > :p AND extra = :p", P),
        "The number of query conditions (3) exceeds the number of key attributes defined in the schema (2)",
    ),
    Case("hash key", "Query", query("sk = :p", P), "Query condition missed key schema element: pk"),
    Case(
        "consistent index",
        "Query",
        query("g = :p", P, IndexName="by-g", ConsistentRead=True),
        "Consistent reads are not supported on global secondary indexes",
    ),
    Case("no table", "GetItem", {"TableName": "nothing", "Key": tables.key("x")}, "Requested resource not found"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_message(engine: Engine, case: Case) -> None:
    with pytest.raises(EngineError) as raised:
        engine.execute(case.operation, {"TableName": tables.NAME, **case.request})
    assert raised.value.message == case.message
