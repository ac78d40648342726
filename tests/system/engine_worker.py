"""A process that works an embedded engine hard until it is killed, and says what it was answered for.

    python engine_worker.py DATA_FILE

Each of four threads, for its numbers 1, 2, 3…: a transaction that sets `pair#a` and `pair#b` to the number and adds
one to a common counter, then a put of a log item, which moves in an index. After each answer a line "<thread> <kind>
<number>" goes to standard output, in one write. Threads go on from what they find in the file.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from callboard_control.embedded.engine import Engine

TABLE = "work"
THREADS = 4
COUNTER = "counter"


def create(engine: Engine) -> None:
    """Make the table, with a sparse index that follows the newest number of each thread."""
    engine.execute(
        "CreateTable",
        {
            "TableName": TABLE,
            "AttributeDefinitions": [
                {"AttributeName": name, "AttributeType": t} for name, t in (("pk", "S"), ("g", "S"), ("h", "N"))
            ],
            "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
            "BillingMode": "PAY_PER_REQUEST",
            "GlobalSecondaryIndexes": [
                {
                    "IndexName": "by-g",
                    "KeySchema": [
                        {"AttributeName": "g", "KeyType": "HASH"},
                        {"AttributeName": "h", "KeyType": "RANGE"},
                    ],
                    "Projection": {"ProjectionType": "ALL"},
                }
            ],
        },
    )


def number_of(engine: Engine, pk: str) -> int:
    """The number kept under `pk`, 0 when there is none."""
    item = engine.execute("GetItem", {"TableName": TABLE, "Key": {"pk": {"S": pk}}, "ConsistentRead": True}).get("Item")
    return int(item["h"]["N"]) if item else 0


def step(engine: Engine, thread: int, number: int) -> None:
    """One transaction over three items."""
    sides = [{"Put": {"TableName": TABLE, "Item": _item(f"{thread}#{side}", thread, number)}} for side in ("a", "b")]
    count = {
        "TableName": TABLE,
        "Key": {"pk": {"S": COUNTER}},
        "UpdateExpression": "ADD h :one",
        "ExpressionAttributeValues": {":one": {"N": "1"}},
    }
    engine.execute(
        "TransactWriteItems", {"TransactItems": [*sides, {"Update": count}], "ClientRequestToken": f"{thread}-{number}"}
    )


def log(engine: Engine, thread: int, number: int) -> None:
    """One put of an item that is written once."""
    engine.execute("PutItem", {"TableName": TABLE, "Item": _item(f"{thread}#log#{number}", thread, number)})


def _item(pk: str, thread: int, number: int) -> dict[str, Any]:
    return {"pk": {"S": pk}, "g": {"S": f"{thread}"}, "h": {"N": str(number)}, "pad": {"S": "x" * (number * 37 % 900)}}


def work(engine: Engine, thread: int) -> None:
    """Step and log without end."""
    number = number_of(engine, f"{thread}#a")
    while True:
        number += 1
        step(engine, thread, number)
        os.write(1, f"{thread} step {number}\n".encode())
        log(engine, thread, number)
        os.write(1, f"{thread} log {number}\n".encode())


def main() -> None:
    engine = Engine(sys.argv[1])
    threads = [threading.Thread(target=work, args=(engine, number), daemon=True) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
