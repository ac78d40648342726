"""What UpdateItem gives back: ReturnValues, and the item a refused condition stood on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.dynamodb.backends import MAIN, Dynamo, both, differs, key, on_both
from tests.contract.dynamodb.values import Value, b, lst, m, n, s


@dataclass(frozen=True)
class Returned:
    claim: str
    return_values: str
    expression: str
    values: dict[str, Value]
    attributes: dict[str, Value] | None
    missing: bool = False


ALL = {"a": n(1), "doc": m(x=s("dog"), l=lst(n(1), n(2), n(3))), "z": s("rest")}
RETURNED = [
    Returned("NONE gives nothing", "NONE", "SET a = :v", {":v": n(2)}, None),
    Returned("ALL_OLD gives the item before", "ALL_OLD", "SET a = :v", {":v": n(2)}, ALL),
    Returned("ALL_NEW gives the item after", "ALL_NEW", "SET a = :v", {":v": n(2)}, {**ALL, "a": n(2)}),
    Returned("UPDATED_OLD gives what was overwritten", "UPDATED_OLD", "SET a = :v, q = :v", {":v": n(2)}, {"a": n(1)}),
    Returned("UPDATED_OLD of nothing old gives nothing", "UPDATED_OLD", "SET q = :v", {":v": n(2)}, None),
    Returned("UPDATED_OLD gives what was removed", "UPDATED_OLD", "REMOVE a", {}, {"a": n(1)}),
    Returned(
        "UPDATED_NEW gives what was written",
        "UPDATED_NEW",
        "SET a = a + :v, q = :v REMOVE z",
        {":v": n(2)},
        {"a": n(3), "q": n(2)},
    ),
    Returned("UPDATED_NEW of a removal gives nothing", "UPDATED_NEW", "REMOVE a", {}, None),
    Returned(
        "UPDATED_OLD gives only the nested part", "UPDATED_OLD", "SET doc.x = :v", {":v": n(2)}, {"doc": m(x=s("dog"))}
    ),
    Returned(
        "UPDATED_NEW gives only the nested part", "UPDATED_NEW", "SET doc.x = :v", {":v": n(2)}, {"doc": m(x=n(2))}
    ),
    Returned(
        "UPDATED_OLD gives only the list element",
        "UPDATED_OLD",
        "SET doc.l[1] = :v",
        {":v": n(7)},
        {"doc": m(l=lst(n(2)))},
    ),
    Returned(
        "UPDATED_NEW gives only the list element",
        "UPDATED_NEW",
        "SET doc.l[1] = :v",
        {":v": n(7)},
        {"doc": m(l=lst(n(7)))},
    ),
    Returned(
        "UPDATED_NEW of an appended element gives nothing", "UPDATED_NEW", "SET doc.l[9] = :v", {":v": n(7)}, None
    ),
    Returned("ALL_OLD of a new item gives nothing", "ALL_OLD", "SET a = :v", {":v": n(2)}, None, missing=True),
    Returned(
        "ALL_NEW of a new item gives it with its key", "ALL_NEW", "SET a = :v", {":v": n(2)}, {"a": n(2)}, missing=True
    ),
    Returned(
        "UPDATED_NEW of a new item gives no key", "UPDATED_NEW", "SET a = :v", {":v": n(2)}, {"a": n(2)}, missing=True
    ),
    Returned("ALL_NEW of no item gives nothing", "ALL_NEW", "REMOVE a", {}, None, missing=True),
]
RETURNED_DIFFERS = {
    **differs(
        "gives an empty Attributes",
        "UPDATED_OLD of nothing old gives nothing",
    ),
    **differs(
        "gives the whole list",
        "UPDATED_OLD gives only the list element",
        "UPDATED_NEW gives only the list element",
        "UPDATED_NEW of an appended element gives nothing",
    ),
    **differs(
        "makes an item of the key",
        "ALL_NEW of no item gives nothing",
    ),
}


@on_both(RETURNED, RETURNED_DIFFERS)
def test_returned_values(dynamo: Dynamo, check: Returned) -> None:
    pk = dynamo.fresh()
    if not check.missing:
        dynamo.put({**key(pk), **ALL})
    wanted: dict[str, Any] = {
        "TableName": MAIN,
        "Key": key(pk),
        "UpdateExpression": check.expression,
        "ReturnValues": check.return_values,
    }
    if check.values:
        wanted["ExpressionAttributeValues"] = check.values
    attributes = check.attributes
    if attributes is not None and check.return_values.startswith("ALL"):
        attributes = {**key(pk), **attributes}
    assert dynamo.client.update_item(**wanted).get("Attributes") == attributes


@both()
def test_update_without_an_expression_makes_an_item_of_its_key(dynamo: Dynamo) -> None:
    pk = dynamo.fresh()
    dynamo.client.update_item(TableName=MAIN, Key=key(pk))
    assert dynamo.get(key(pk)) == key(pk)


@both()
def test_a_false_condition_gives_the_item_back_when_asked(dynamo: Dynamo) -> None:
    pk = dynamo.fresh()
    item = {**key(pk), "a": n(1), "data": b(b"\x00\xff")}
    dynamo.put(item)
    wanted = {
        "TableName": MAIN,
        "Key": key(pk),
        "UpdateExpression": "SET a = :v",
        "ConditionExpression": "a = :v",
        "ExpressionAttributeValues": {":v": n(2)},
    }
    with pytest.raises(ClientError, match="The conditional request failed") as plain:
        dynamo.client.update_item(**wanted)
    assert "Item" not in plain.value.response
    with pytest.raises(ClientError) as told:
        dynamo.client.update_item(**wanted, ReturnValuesOnConditionCheckFailure="ALL_OLD")
    assert told.value.response["Item"] == item
    assert told.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
