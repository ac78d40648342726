"""TransactWriteItems and TransactGetItems: all or nothing, reasons, request tokens, limits."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.dynamodb.backends import MAIN, NUMBERS, SINGLE, Dynamo, both, differs, key, on_both, outcome
from tests.contract.dynamodb.values import Value, lst, n, s

INVALID, CANCELED = "ValidationException", "TransactionCanceledException"
NEW = "attribute_not_exists(pk)"
OLD = "attribute_exists(pk)"


def put(pk: str, condition: str | None = None, table: str = SINGLE, **attributes: Value) -> dict[str, Any]:
    action: dict[str, Any] = {"TableName": table, "Item": {"pk": s(pk), **attributes}}
    return {"Put": action | ({"ConditionExpression": condition} if condition else {})}


def delete(pk: str, condition: str | None = None) -> dict[str, Any]:
    action: dict[str, Any] = {"TableName": SINGLE, "Key": {"pk": s(pk)}}
    return {"Delete": action | ({"ConditionExpression": condition} if condition else {})}


def check(pk: str, condition: str = OLD) -> dict[str, Any]:
    return {"ConditionCheck": {"TableName": SINGLE, "Key": {"pk": s(pk)}, "ConditionExpression": condition}}


def update(pk: str, expression: str = "ADD n :v", value: Value | None = None, **more: Any) -> dict[str, Any]:
    values = {":v": value or n(1)}
    action = {
        "TableName": SINGLE,
        "Key": {"pk": s(pk)},
        "UpdateExpression": expression,
        "ExpressionAttributeValues": values,
    }
    return {"Update": action | more}


def get(dynamo: Dynamo, pk: str) -> dict[str, Any] | None:
    return dynamo.get({"pk": s(pk)}, SINGLE)


def canceled(dynamo: Dynamo, *actions: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a transaction that must be cancelled; its reasons."""
    with pytest.raises(ClientError) as raised:
        dynamo.client.transact_write_items(TransactItems=list(actions))
    response = raised.value.response
    assert response["Error"]["Code"] == CANCELED
    reasons: list[dict[str, Any]] = response["CancellationReasons"]
    codes = ", ".join(reason["Code"] for reason in reasons)
    assert f"[{codes}]" in response["Error"]["Message"]
    return reasons


@both()
def test_all_actions_of_a_transaction_happen(dynamo: Dynamo) -> None:
    a, b, c, d, e = (dynamo.fresh() for _ in range(5))
    dynamo.put({"pk": s(b), "n": n(5)}, SINGLE)
    dynamo.put({"pk": s(c)}, SINGLE)
    dynamo.put({"pk": s(d)}, SINGLE)
    dynamo.client.transact_write_items(
        TransactItems=[put(a, NEW, x=n(1)), update(b), delete(c, OLD), check(d), update(e)]
    )
    assert get(dynamo, a) == {"pk": s(a), "x": n(1)}
    assert get(dynamo, b) == {"pk": s(b), "n": n(6)}
    assert get(dynamo, c) is None
    assert get(dynamo, d) == {"pk": s(d)}
    assert get(dynamo, e) == {"pk": s(e), "n": n(1)}


@both()
def test_a_transaction_may_span_tables(dynamo: Dynamo) -> None:
    pk = dynamo.fresh()
    second = {"Put": {"TableName": NUMBERS, "Item": {"pk": s(pk), "sk": n(1)}}}
    dynamo.client.transact_write_items(TransactItems=[put(pk), second])
    assert get(dynamo, pk) is not None
    assert dynamo.get({"pk": s(pk), "sk": n(1)}, NUMBERS) is not None


@both()
def test_one_false_condition_undoes_all_and_every_action_has_its_reason(dynamo: Dynamo) -> None:
    a, b, c, d = (dynamo.fresh() for _ in range(4))
    dynamo.put({"pk": s(d), "n": n(1)}, SINGLE)
    reasons = canceled(dynamo, put(a), put(b, NEW), check(c), update(d, ConditionExpression="n > :v"))
    assert [reason["Code"] for reason in reasons] == [
        "None",
        "None",
        "ConditionalCheckFailed",
        "ConditionalCheckFailed",
    ]
    assert "Message" not in reasons[0]
    assert reasons[2]["Message"] == "The conditional request failed"
    assert [get(dynamo, pk) for pk in (a, b, c)] == [None, None, None]
    assert get(dynamo, d) == {"pk": s(d), "n": n(1)}


@both()
def test_a_reason_gives_the_item_back_when_its_action_asked(dynamo: Dynamo) -> None:
    a, b = dynamo.fresh(), dynamo.fresh()
    for pk in (a, b):
        dynamo.put({"pk": s(pk), "n": n(1), "l": lst(n(1))}, SINGLE)
    asked = update(a, ConditionExpression="n > :v", ReturnValuesOnConditionCheckFailure="ALL_OLD")
    reasons = canceled(dynamo, asked, update(b, ConditionExpression="n > :v"))
    assert reasons[0]["Item"] == {"pk": s(a), "n": n(1), "l": lst(n(1))}
    assert "Item" not in reasons[1]


@both(ministack_differs="accepts arithmetic on a string in a transaction")
def test_a_type_error_of_an_update_is_a_reason(dynamo: Dynamo) -> None:
    pk, other = dynamo.fresh(), dynamo.fresh()
    dynamo.put({"pk": s(pk), "n": s("text")}, SINGLE)
    reasons = canceled(dynamo, put(other), update(pk, "SET n = n + :v"))
    assert [reason["Code"] for reason in reasons] == ["None", "ValidationError"]
    assert get(dynamo, other) is None


@both(ministack_differs="refuses the request as a whole")
def test_a_key_of_the_wrong_type_is_the_only_reason(dynamo: Dynamo) -> None:
    wrong = {"Put": {"TableName": SINGLE, "Item": {"pk": n(7)}}}
    reasons = canceled(dynamo, wrong, put(dynamo.fresh(), OLD), wrong)
    assert [reason["Code"] for reason in reasons] == ["ValidationError", "None", "None"]
    assert reasons[0]["Message"]


@both()
@pytest.mark.parametrize("verb", ["Update", "Delete", "ConditionCheck"])
def test_a_key_that_does_not_match_is_a_reason(dynamo: Dynamo, verb: str) -> None:
    action = {"Update": update, "Delete": delete, "ConditionCheck": check}[verb]("x")  # type: ignore[operator]  # all take a key
    action[verb]["Key"] = {"pk": n(5)}
    [reason] = canceled(dynamo, action)
    assert reason == {"Code": "ValidationError", "Message": "The provided key element does not match the schema"}


@both()
def test_an_update_to_over_400_kilobytes_is_a_reason(dynamo: Dynamo) -> None:
    pk = dynamo.fresh()
    dynamo.put({"pk": s(pk), "a": s("x" * 300_000)}, SINGLE)
    [reason] = canceled(dynamo, update(pk, "SET b = :v", s("x" * 200_000)))
    assert reason["Code"] == "ValidationError"


@dataclass(frozen=True)
class Refused:
    claim: str
    actions: list[dict[str, Any]]
    expected: str = INVALID


REFUSED = [
    Refused("no action is refused", []),
    Refused("101 actions are refused", [put(f"hundred-{i}") for i in range(101)]),
    Refused("two puts of one item are refused", [put("x"), put("x")]),
    Refused("a put and a check of one item are refused", [put("x"), check("x", NEW)]),
    Refused("two checks of one item are refused", [check("x", NEW), check("x", NEW)]),
    Refused("an action of two kinds is refused", [{**put("x"), **delete("y")}]),
    Refused("an empty action is refused", [{}]),
    Refused(
        "a check without a condition is refused", [{"ConditionCheck": {"TableName": SINGLE, "Key": {"pk": s("x")}}}]
    ),
    Refused("an update without an expression is refused", [{"Update": {"TableName": SINGLE, "Key": {"pk": s("x")}}}]),
    Refused("a syntax error is refused as a whole", [put("x", "hello!")]),
    Refused("an undefined name is refused as a whole", [put("x", "attribute_exists(#n)")]),
    Refused("an undefined value is refused as a whole", [put("x", "pk = :v")]),
    Refused("an unused value is refused as a whole", [update("x", "REMOVE n")]),
    Refused("an unknown table is not found", [put("x", table="no-such-table")], "ResourceNotFoundException"),
    Refused("over 4 MB is refused", [put(f"large-{i}", v=s("x" * 399_000)) for i in range(11)]),
]
REFUSED += [
    Refused("an empty key is refused as a whole", [put(""), put("x", OLD)]),
    Refused("an empty key of an update is refused as a whole", [update("")]),
    Refused("a put of over 400 KB is refused as a whole", [put("x", v=s("x" * 410_000))]),
    Refused("a bad number is refused as a whole", [put("x", v=n("abc"))]),
    Refused("an empty set is refused as a whole", [put("x", v={"SS": []})]),
]
REFUSED_DIFFER = {
    **differs(
        "accepts it",
        "an action of two kinds is refused",
        "a check without a condition is refused",
        "an update without an expression is refused",
    ),
    **differs(
        "makes it the reason of a cancellation",
        "a syntax error is refused as a whole",
    ),
}


@on_both(REFUSED, REFUSED_DIFFER)
def test_transaction(dynamo: Dynamo, check: Refused) -> None:
    assert outcome(lambda: dynamo.client.transact_write_items(TransactItems=check.actions)) == check.expected


@both()
def test_a_hundred_actions_are_accepted(dynamo: Dynamo) -> None:
    pk = dynamo.fresh()
    dynamo.client.transact_write_items(TransactItems=[put(f"{pk}-{i}") for i in range(100)])
    assert get(dynamo, f"{pk}-99") is not None


# Request tokens


def token() -> str:
    return uuid.uuid4().hex


@both()
def test_the_same_token_and_request_apply_once_and_answer_again(dynamo: Dynamo) -> None:
    pk, mark = dynamo.fresh(), token()
    for _ in range(3):
        dynamo.client.transact_write_items(TransactItems=[update(pk)], ClientRequestToken=mark)
    assert get(dynamo, pk) == {"pk": s(pk), "n": n(1)}
    dynamo.client.transact_write_items(TransactItems=[update(pk)], ClientRequestToken=token())
    assert get(dynamo, pk) == {"pk": s(pk), "n": n(2)}


@both()
def test_a_repeat_answers_again_although_its_condition_is_false_by_now(dynamo: Dynamo) -> None:
    pk, mark = dynamo.fresh(), token()
    for _ in range(2):
        dynamo.client.transact_write_items(TransactItems=[put(pk, NEW)], ClientRequestToken=mark)


@both()
def test_the_same_token_with_another_request_is_refused(dynamo: Dynamo) -> None:
    pk, mark = dynamo.fresh(), token()
    dynamo.client.transact_write_items(TransactItems=[update(pk)], ClientRequestToken=mark)
    again = {"TransactItems": [update(pk, value=n(2))], "ClientRequestToken": mark}
    assert outcome(lambda: dynamo.client.transact_write_items(**again)) == "IdempotentParameterMismatchException"
    assert get(dynamo, pk) == {"pk": s(pk), "n": n(1)}


@both()
def test_a_cancelled_transaction_may_be_tried_again_under_its_token(dynamo: Dynamo) -> None:
    pk, mark = dynamo.fresh(), token()
    request = {"TransactItems": [update(pk, ConditionExpression=OLD)], "ClientRequestToken": mark}
    assert outcome(lambda: dynamo.client.transact_write_items(**request)) == CANCELED
    dynamo.put({"pk": s(pk)}, SINGLE)
    dynamo.client.transact_write_items(**request)
    assert get(dynamo, pk) == {"pk": s(pk), "n": n(1)}


@both()
def test_a_token_of_37_characters_is_refused(dynamo: Dynamo) -> None:
    request = {"TransactItems": [put(dynamo.fresh())], "ClientRequestToken": "t" * 37}
    assert outcome(lambda: dynamo.client.transact_write_items(**request)) == INVALID


# Reading


def read(pk: str, **more: Any) -> dict[str, Any]:
    return {"Get": {"TableName": SINGLE, "Key": {"pk": s(pk)}, **more}}


@both()
def test_a_reading_transaction_answers_in_order_with_gaps_where_nothing_is(dynamo: Dynamo) -> None:
    a, b = dynamo.fresh(), dynamo.fresh()
    dynamo.put({"pk": s(a), "x": n(1), "y": n(2)}, SINGLE)
    answer = dynamo.client.transact_get_items(TransactItems=[read(b), read(a, ProjectionExpression="y")])
    assert answer["Responses"] == [{}, {"Item": {"y": n(2)}}]


READ_REFUSED = [
    Refused("no read is refused", []),
    Refused("101 reads are refused", [read(f"r{i}") for i in range(101)]),
    Refused("reading one item twice is refused", [read("x"), read("x")]),
    Refused(
        "reading an unknown table is not found",
        [{"Get": {"TableName": "no-such-table", "Key": {"pk": s("x")}}}],
        "ResourceNotFoundException",
    ),
]
READ_DIFFERS: dict[str, str] = {}


@on_both(READ_REFUSED, READ_DIFFERS)
def test_reading_transaction(dynamo: Dynamo, check: Refused) -> None:
    assert outcome(lambda: dynamo.client.transact_get_items(TransactItems=check.actions)) == check.expected


# Batches


@both()
def test_a_batch_puts_and_deletes_in_several_tables(dynamo: Dynamo) -> None:
    a, b = dynamo.fresh(), dynamo.fresh()
    dynamo.put({"pk": s(b)}, SINGLE)
    answer = dynamo.client.batch_write_item(
        RequestItems={
            SINGLE: [{"PutRequest": {"Item": {"pk": s(a)}}}, {"DeleteRequest": {"Key": {"pk": s(b)}}}],
            MAIN: [{"PutRequest": {"Item": key(a)}}],
        }
    )
    assert answer["UnprocessedItems"] == {}
    assert (get(dynamo, a), get(dynamo, b), dynamo.get(key(a))) == ({"pk": s(a)}, None, key(a))


@both()
def test_a_batch_reads_what_is_there(dynamo: Dynamo) -> None:
    a, b = dynamo.fresh(), dynamo.fresh()
    dynamo.put({"pk": s(a), "x": n(1), "y": n(2)}, SINGLE)
    answer = dynamo.client.batch_get_item(
        RequestItems={
            SINGLE: {"Keys": [{"pk": s(a)}, {"pk": s(b)}], "ProjectionExpression": "x", "ConsistentRead": True}
        }
    )
    assert answer["Responses"] == {SINGLE: [{"x": n(1)}]}
    assert answer["UnprocessedKeys"] == {}


@both(ministack_differs="answers any amount, without UnprocessedKeys")
def test_a_batch_read_over_16_megabytes_gives_the_rest_back(dynamo: Dynamo) -> None:
    mark = dynamo.fresh()
    names = [f"{mark}-{i}" for i in range(50)]
    for name in names:
        dynamo.put({"pk": s(name), "v": s("x" * 390_000)}, SINGLE)
    asked = {SINGLE: {"Keys": [{"pk": s(name)} for name in names], "ConsistentRead": True}}
    answer = dynamo.client.batch_get_item(RequestItems=asked)
    got = {item["pk"]["S"] for item in answer["Responses"][SINGLE]}
    left = {given["pk"]["S"] for given in answer["UnprocessedKeys"][SINGLE]["Keys"]}
    assert got | left == set(names)
    assert not got & left
    assert answer["UnprocessedKeys"][SINGLE]["ConsistentRead"] is True
    assert 40 <= len(got) <= 43


@dataclass(frozen=True)
class Batch:
    claim: str
    operation: str
    items: dict[str, Any]
    expected: str = INVALID


def puts(count: int) -> list[dict[str, Any]]:
    return [{"PutRequest": {"Item": {"pk": s(f"batch-{i}")}}} for i in range(count)]


BATCHES = [
    Batch("25 writes are accepted", "batch_write_item", {SINGLE: puts(25)}, "ok"),
    Batch("26 writes are refused", "batch_write_item", {SINGLE: puts(26)}),
    Batch("no write is refused", "batch_write_item", {SINGLE: []}),
    Batch("no table is refused", "batch_write_item", {}),
    Batch("two writes of one item are refused", "batch_write_item", {SINGLE: puts(1) + puts(1)}),
    Batch(
        "a put and a delete of one item are refused",
        "batch_write_item",
        {SINGLE: [*puts(1), {"DeleteRequest": {"Key": {"pk": s("batch-0")}}}]},
    ),
    Batch("a wrong key is refused", "batch_write_item", {SINGLE: [{"PutRequest": {"Item": {"pk": n(1)}}}]}),
    Batch(
        "an unknown table is not found when written",
        "batch_write_item",
        {"no-such-table": puts(1)},
        "ResourceNotFoundException",
    ),
    Batch(
        "100 reads are accepted", "batch_get_item", {SINGLE: {"Keys": [{"pk": s(f"b{i}")} for i in range(100)]}}, "ok"
    ),
    Batch(
        "101 batch reads are refused", "batch_get_item", {SINGLE: {"Keys": [{"pk": s(f"b{i}")} for i in range(101)]}}
    ),
    Batch("reading one key twice is refused", "batch_get_item", {SINGLE: {"Keys": [{"pk": s("x")}, {"pk": s("x")}]}}),
    Batch("no key is refused", "batch_get_item", {SINGLE: {"Keys": []}}),
    Batch("a wrong key is refused when read", "batch_get_item", {SINGLE: {"Keys": [{"pk": n(1)}]}}),
    Batch(
        "an unknown table is not found when read",
        "batch_get_item",
        {"no-such-table": {"Keys": [{"pk": s("x")}]}},
        "ResourceNotFoundException",
    ),
]
BATCHES_DIFFER: dict[str, str] = {}


@on_both(BATCHES, BATCHES_DIFFER)
def test_batch(dynamo: Dynamo, check: Batch) -> None:
    operation = getattr(dynamo.client, check.operation)
    assert outcome(lambda: operation(RequestItems=check.items)) == check.expected
