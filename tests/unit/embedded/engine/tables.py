"""A table for engine tests, and short requests on it."""

from __future__ import annotations

from typing import Any

from callboard_control.embedded.engine import Engine

NAME = "things"


def create(engine: Engine, name: str = NAME) -> None:
    """pk S, sk S, and one index of all attributes by g S, h N."""
    parts = {"pk": "S", "sk": "S", "g": "S", "h": "N"}
    engine.execute(
        "CreateTable",
        {
            "TableName": name,
            "AttributeDefinitions": [{"AttributeName": n, "AttributeType": t} for n, t in parts.items()],
            "KeySchema": schema("pk", "sk"),
            "BillingMode": "PAY_PER_REQUEST",
            "GlobalSecondaryIndexes": [
                {"IndexName": "by-g", "KeySchema": schema("g", "h"), "Projection": {"ProjectionType": "ALL"}},
                {
                    "IndexName": "keys-only",
                    "KeySchema": schema("g", "sk"),
                    "Projection": {"ProjectionType": "KEYS_ONLY"},
                },
            ],
        },
    )


def schema(hash_name: str, range_name: str) -> list[dict[str, str]]:
    return [{"AttributeName": hash_name, "KeyType": "HASH"}, {"AttributeName": range_name, "KeyType": "RANGE"}]


def key(pk: str, sk: str = "s") -> dict[str, Any]:
    return {"pk": {"S": pk}, "sk": {"S": sk}}


def put(engine: Engine, item: dict[str, Any], **more: Any) -> dict[str, Any]:
    return engine.execute("PutItem", {"TableName": NAME, "Item": item, **more})


def get(engine: Engine, pk: str, sk: str = "s") -> dict[str, Any] | None:
    return engine.execute("GetItem", {"TableName": NAME, "Key": key(pk, sk), "ConsistentRead": True}).get("Item")


def query(engine: Engine, condition: str, values: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    request = {"KeyConditionExpression": condition, "ExpressionAttributeValues": values, **more}
    items: list[dict[str, Any]] = engine.execute("Query", {"TableName": NAME, **request})["Items"]
    return items


def add(engine: Engine, pk: str, **more: Any) -> None:
    """Add one to the number `n`."""
    request = {"UpdateExpression": "ADD n :one", "ExpressionAttributeValues": {":one": {"N": "1"}}, **more}
    engine.execute("UpdateItem", {"TableName": NAME, "Key": key(pk), **request})
