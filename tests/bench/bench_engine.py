"""The embedded engine: operations and task-like cycles a second, durable, and whether a query slows with the table."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from callboard_control.embedded.engine import Engine, client
from tests.bench.harness import Row, percentile, run

TABLE = "bench"
CLIENTS = 4
SECONDS = 3.0


def s(text: str) -> dict[str, str]:
    return {"S": text}


def n(number: int) -> dict[str, str]:
    return {"N": str(number)}


def create(dynamodb: Any) -> None:
    """The store's shape: one table, a sparse KEYS_ONLY index of what is ready."""
    names = ("pk", "sk", "rpk", "rsk")
    dynamodb.create_table(
        TableName=TABLE,
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in names],
        KeySchema=schema("pk", "sk"),
        BillingMode="PAY_PER_REQUEST",
        GlobalSecondaryIndexes=[
            {"IndexName": "ready", "KeySchema": schema("rpk", "rsk"), "Projection": {"ProjectionType": "KEYS_ONLY"}}
        ],
    )


def schema(hash_name: str, range_name: str) -> list[dict[str, str]]:
    return [{"AttributeName": hash_name, "KeyType": "HASH"}, {"AttributeName": range_name, "KeyType": "RANGE"}]


def task(name: str, runtime: str) -> dict[str, Any]:
    pad = s("x" * 500)
    return {"pk": s(name), "sk": s("T"), "st": s("READY"), "fence": n(0), "pad": pad, "rpk": s(runtime), "rsk": s(name)}


def update(pk: str, sk: str, expression: str, condition: str, values: dict[str, Any]) -> dict[str, Any]:
    return {
        "TableName": TABLE,
        "Key": {"pk": s(pk), "sk": s(sk)},
        "UpdateExpression": expression,
        "ConditionExpression": condition,
        "ExpressionAttributeValues": values,
    }


def cycle(dynamodb: Any, thread: int, number: int) -> None:
    """Enqueue, look for work, claim, start, finish: one write, one query, a transaction, a write, a transaction."""
    runtime, name, agent = f"RT#{thread}", f"TK#{thread}#{number}", f"AG#{thread}"
    dynamodb.put_item(TableName=TABLE, Item=task(name, runtime), ConditionExpression="attribute_not_exists(pk)")
    found = dynamodb.query(
        TableName=TABLE,
        IndexName="ready",
        KeyConditionExpression="rpk = :r",
        ExpressionAttributeValues={":r": s(runtime)},
        Limit=5,
    )["Items"][0]["pk"]["S"]
    fence = {":f": n(1)}
    claim = update(
        found,
        "T",
        "SET st = :p, fence = fence + :f REMOVE rpk, rsk",
        "st = :q",
        {":p": s("RUN"), ":q": s("READY"), **fence},
    )
    slot = update(
        agent, "A", "ADD run :t", "attribute_not_exists(run) OR size(run) < :c", {":t": {"SS": [found]}, ":c": n(8)}
    )
    dynamodb.transact_write_items(TransactItems=[{"Update": claim}, {"Update": slot}])
    dynamodb.update_item(**update(found, "T", "SET started = :f", "fence = :f", fence))
    finish = update(found, "T", "SET st = :d", "fence = :f", {":d": s("DONE"), **fence})
    release = update(agent, "A", "DELETE run :t", "attribute_exists(pk)", {":t": {"SS": [found]}})
    dynamodb.transact_write_items(TransactItems=[{"Update": finish}, {"Update": release}])


def together(clients: int, act: Callable[[int, int], None]) -> tuple[float, list[float]]:
    """Run `act(thread, number)` from `clients` threads for SECONDS; how many a second, and how long each took."""
    times: list[list[float]] = [[] for _ in range(clients)]
    until = time.perf_counter() + SECONDS

    def work(thread: int) -> None:
        number = 0
        while (begun := time.perf_counter()) < until:
            act(thread, number)
            times[thread].append(time.perf_counter() - begun)
            number += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = [each for one in times for each in one]
    return len(taken) / (time.perf_counter() - begun), taken


def cycles(folder: Path) -> list[Row]:
    rows = []
    for synchronous in ("FULL", "NORMAL"):
        with Engine(folder / f"cycles-{synchronous}.db", synchronous=synchronous) as engine:
            dynamodb = client(engine)
            create(dynamodb)
            rate, taken = together(CLIENTS, lambda thread, number, made=dynamodb: cycle(made, thread, number))  # type: ignore[misc]
        note = f"p50 {percentile(taken, 50) * 1000:.1f} ms, p99 {percentile(taken, 99) * 1000:.1f} ms"
        reach = "≥ 100 /s" if synchronous == "FULL" else ""
        rows.append(
            Row("engine", f"enqueue+claim+start+finish, {CLIENTS} clients, {synchronous}", rate, "/s", reach, note)
        )
    return rows


def operations(folder: Path) -> list[Row]:
    rows = []
    with Engine(folder / "operations.db") as engine:
        dynamodb = client(engine)
        create(dynamodb)
        for number in range(200):
            dynamodb.put_item(TableName=TABLE, Item=task(f"TK#{number}", "RT#0"))
        acts: dict[str, Callable[[int, int], Any]] = {
            "GetItem": lambda thread, number: dynamodb.get_item(
                TableName=TABLE, Key={"pk": s(f"TK#{number % 200}"), "sk": s("T")}, ConsistentRead=True
            ),
            "Query, 10 items": lambda thread, number: dynamodb.query(
                TableName=TABLE,
                IndexName="ready",
                KeyConditionExpression="rpk = :r",
                ExpressionAttributeValues={":r": s("RT#0")},
                Limit=10,
            ),
            "PutItem": lambda thread, number: dynamodb.put_item(
                TableName=TABLE, Item=task(f"P#{thread}#{number}", "R")
            ),
            "TransactWriteItems of 2": lambda thread, number: dynamodb.transact_write_items(
                TransactItems=[
                    {"Put": {"TableName": TABLE, "Item": task(f"{side}#{thread}#{number}", "R")}} for side in "AB"
                ]
            ),
        }
        for name, act in acts.items():
            for clients in (1, CLIENTS):
                rate, taken = together(clients, act)
                note = f"p50 {percentile(taken, 50) * 1000:.2f} ms, p99 {percentile(taken, 99) * 1000:.2f} ms"
                rows.append(
                    Row("engine", f"{name}, {clients} client{'s' if clients > 1 else ''}", rate, "/s", "", note)
                )
    return rows


def growth(folder: Path) -> list[Row]:
    """The same query on a small table and on one a hundred times as large, in the middle of its pages."""
    medians = []
    for size in (1_000, 100_000):
        with Engine(folder / f"growth-{size}.db", synchronous="OFF") as engine:
            create(client(engine))
            for begin in range(0, size, 25):
                puts = [
                    {"PutRequest": {"Item": task(f"TK#{number:08}", f"RT#{number % 10}")}}
                    for number in range(begin, begin + 25)
                ]
                engine.execute("BatchWriteItem", {"RequestItems": {TABLE: puts}})
            middle = f"TK#{size // 2:08}"
            request = {
                "TableName": TABLE,
                "IndexName": "ready",
                "KeyConditionExpression": "rpk = :r",
                "ExpressionAttributeValues": {":r": s("RT#0")},
                "ExclusiveStartKey": {"pk": s(middle), "sk": s("T"), "rpk": s("RT#0"), "rsk": s(middle)},
                "Limit": 10,
            }
            taken = []
            for _ in range(500):
                begun = time.perf_counter()
                assert len(engine.execute("Query", request)["Items"]) == 10
                taken.append(time.perf_counter() - begun)
            medians.append(percentile(taken, 50))
    note = f"{medians[0] * 1e6:.0f} µs → {medians[1] * 1e6:.0f} µs, without botocore"
    return [Row("engine", "index query, 100,000 rows against 1,000", medians[1] / medians[0], "x", "", note)]


def main() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="callboard-bench-") as name:
        folder = Path(name)
        return [*cycles(folder), *operations(folder), *growth(folder)]


if __name__ == "__main__":
    run(main)
