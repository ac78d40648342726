"""Many threads at one item: one winner, no lost update, no torn read."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.dynamodb.backends import SINGLE, Dynamo, both, outcome
from tests.contract.dynamodb.values import n, s

LOST = {"ConditionalCheckFailedException", "TransactionCanceledException"}


@pytest.fixture
def race(clients: list[Any]) -> Callable[[int, Callable[[Any, int], Any]], list[Any]]:
    """`race(count, act)` runs `act(client, number)` in that many threads that start together; their results in
    order.
    """

    def run(count: int, act: Callable[[Any, int], Any]) -> list[Any]:
        start = threading.Barrier(count)

        def one(number: int) -> Any:
            start.wait(30)
            return act(clients[number % len(clients)], number)

        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(one, range(count)))

    return run


def number_of(dynamo: Dynamo, pk: str, name: str = "n") -> int:
    item = dynamo.get({"pk": s(pk)}, SINGLE)
    assert item is not None
    return int(item[name]["N"])


@both()
def test_of_a_hundred_threads_that_claim_one_task_one_wins(dynamo: Dynamo, race: Any) -> None:
    pk = dynamo.fresh()
    dynamo.put({"pk": s(pk), "st": s("READY")}, SINGLE)

    def claim(client: Any, number: int) -> str:
        request = {
            "TableName": SINGLE,
            "Key": {"pk": s(pk)},
            "UpdateExpression": "SET st = :p, winner = :w ADD fence :one",
            "ConditionExpression": "st = :r",
            "ExpressionAttributeValues": {":p": s("PREPARING"), ":r": s("READY"), ":w": n(number), ":one": n(1)},
        }
        return outcome(lambda: client.update_item(**request))

    results = race(100, claim)
    assert results.count("ok") == 1
    assert set(results) <= {"ok", "ConditionalCheckFailedException"}
    assert number_of(dynamo, pk, "winner") == results.index("ok")
    assert number_of(dynamo, pk, "fence") == 1


@both()
def test_of_a_hundred_threads_that_claim_in_a_transaction_one_wins(dynamo: Dynamo, race: Any) -> None:
    task, agent = dynamo.fresh(), dynamo.fresh()
    dynamo.put({"pk": s(task), "st": s("READY")}, SINGLE)

    def claim(client: Any, number: int) -> str:
        actions = [
            {
                "Update": {
                    "TableName": SINGLE,
                    "Key": {"pk": s(task)},
                    "UpdateExpression": "SET st = :p",
                    "ConditionExpression": "st = :r",
                    "ExpressionAttributeValues": {":p": s("PREPARING"), ":r": s("READY")},
                }
            },
            {
                "Update": {
                    "TableName": SINGLE,
                    "Key": {"pk": s(agent)},
                    "UpdateExpression": "ADD n :one",
                    "ExpressionAttributeValues": {":one": n(1)},
                }
            },
        ]
        return outcome(lambda: client.transact_write_items(TransactItems=actions))

    results = race(100, claim)
    assert results.count("ok") == 1
    assert set(results) <= {"ok", "TransactionCanceledException"}
    assert number_of(dynamo, agent) == 1


@both()
def test_no_increment_is_lost(dynamo: Dynamo, race: Any) -> None:
    pk = dynamo.fresh()

    def add(client: Any, number: int) -> None:
        for _ in range(20):
            client.update_item(
                TableName=SINGLE,
                Key={"pk": s(pk)},
                UpdateExpression="ADD n :one",
                ExpressionAttributeValues={":one": n(1)},
            )

    race(8, add)
    assert number_of(dynamo, pk) == 160


@both()
def test_an_agent_takes_no_more_tasks_than_its_cap(dynamo: Dynamo, race: Any) -> None:
    agent = dynamo.fresh()
    tasks = [f"{agent}-{i}" for i in range(20)]
    for task in tasks:
        dynamo.put({"pk": s(task), "st": s("READY")}, SINGLE)

    def claim(client: Any, number: int) -> str:
        actions = [
            {
                "Update": {
                    "TableName": SINGLE,
                    "Key": {"pk": s(tasks[number])},
                    "UpdateExpression": "SET st = :p",
                    "ConditionExpression": "st = :r",
                    "ExpressionAttributeValues": {":p": s("PREPARING"), ":r": s("READY")},
                }
            },
            {
                "Update": {
                    "TableName": SINGLE,
                    "Key": {"pk": s(agent)},
                    "UpdateExpression": "ADD running :task",
                    "ConditionExpression": "attribute_not_exists(running) OR size(running) < :cap",
                    "ExpressionAttributeValues": {":task": {"SS": [tasks[number]]}, ":cap": n(3)},
                }
            },
        ]
        return outcome(lambda: client.transact_write_items(TransactItems=actions))

    results = race(len(tasks), claim)
    won = {task for task, result in zip(tasks, results, strict=True) if result == "ok"}
    item = dynamo.get({"pk": s(agent)}, SINGLE)
    assert item is not None
    assert len(won) == 3
    assert set(item["running"]["SS"]) == won
    taken = {task for task in tasks if dynamo.get({"pk": s(task)}, SINGLE) == {"pk": s(task), "st": s("PREPARING")}}
    assert taken == won


@both()
def test_transfers_keep_the_sum_and_no_read_is_torn(dynamo: Dynamo, race: Any) -> None:
    mark = dynamo.fresh()
    accounts = [f"{mark}-{i}" for i in range(4)]
    for account in accounts:
        dynamo.put({"pk": s(account), "n": n(100)}, SINGLE)

    def move(account: str, amount: int) -> dict[str, Any]:
        return {
            "Update": {
                "TableName": SINGLE,
                "Key": {"pk": s(account)},
                "UpdateExpression": "SET n = n + :a",
                "ConditionExpression": "n >= :least",
                "ExpressionAttributeValues": {":a": n(amount), ":least": n(max(0, -amount))},
            }
        }

    def act(client: Any, number: int) -> set[int]:
        if number % 4 == 0:
            gets = [{"Get": {"TableName": SINGLE, "Key": {"pk": s(account)}}} for account in accounts]
            sums = set()
            for _ in range(25):
                responses = client.transact_get_items(TransactItems=gets)["Responses"]
                sums.add(sum(int(response["Item"]["n"]["N"]) for response in responses))
            return sums
        for step in range(10):
            source, target = accounts[(number + step) % 4], accounts[(number + 2 * step + 1) % 4]
            if source != target:
                amount = number * 7 + step
                try:
                    client.transact_write_items(TransactItems=[move(source, -amount), move(target, amount)])
                except ClientError as error:
                    assert error.response["Error"]["Code"] in LOST  # noqa: PT017 - in a thread, among many tries
        return set()

    results = race(8, act)
    assert set().union(*results) == {400}
    assert sum(number_of(dynamo, account) for account in accounts) == 400


@both()
def test_one_token_under_race_applies_once(dynamo: Dynamo, race: Any) -> None:
    pk = dynamo.fresh()
    action = {
        "Update": {
            "TableName": SINGLE,
            "Key": {"pk": s(pk)},
            "UpdateExpression": "ADD n :one",
            "ExpressionAttributeValues": {":one": n(1)},
        }
    }
    results = race(
        20,
        lambda client, _: outcome(
            lambda: client.transact_write_items(TransactItems=[action], ClientRequestToken=pk[:36])
        ),
    )
    assert set(results) <= {"ok", "TransactionInProgressException", "TransactionCanceledException"}
    assert number_of(dynamo, pk) == 1
