"""The two backends a check runs against, and the tables it finds there."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pytest
from botocore.exceptions import ClientError

EMBEDDED, MINISTACK = "embedded", "ministack"

MAIN = "contract-main"  # pk S, sk S; indexes by-g (ALL), keys-only (KEYS_ONLY), some (INCLUDE a, b)
NUMBERS = "contract-numbers"  # pk S, sk N
BINARY = "contract-binary"  # pk B, sk B
SINGLE = "contract-single"  # pk S


def _index(name: str, hash_name: str, range_name: str, projection: Mapping[str, Any]) -> dict[str, Any]:
    keys = [{"AttributeName": hash_name, "KeyType": "HASH"}, {"AttributeName": range_name, "KeyType": "RANGE"}]
    return {"IndexName": name, "KeySchema": keys, "Projection": dict(projection)}


def _table(name: str, attributes: Mapping[str, str], *keys: str, **more: Any) -> dict[str, Any]:
    kinds = ("HASH", "RANGE")
    return {
        "TableName": name,
        "AttributeDefinitions": [{"AttributeName": n, "AttributeType": t} for n, t in attributes.items()],
        "KeySchema": [{"AttributeName": n, "KeyType": kind} for n, kind in zip(keys, kinds, strict=False)],
        "BillingMode": "PAY_PER_REQUEST",
        **more,
    }


TABLES = [
    _table(
        MAIN,
        {"pk": "S", "sk": "S", "g": "S", "h": "N", "k": "S", "kr": "S"},
        "pk",
        "sk",
        GlobalSecondaryIndexes=[
            _index("by-g", "g", "h", {"ProjectionType": "ALL"}),
            _index("keys-only", "k", "kr", {"ProjectionType": "KEYS_ONLY"}),
            _index("some", "g", "kr", {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["a", "b"]}),
        ],
    ),
    _table(NUMBERS, {"pk": "S", "sk": "N"}, "pk", "sk"),
    _table(BINARY, {"pk": "B", "sk": "B"}, "pk", "sk"),
    _table(SINGLE, {"pk": "S"}, "pk"),
]


class Named(Protocol):
    """A check with the claim it proves."""

    @property
    def claim(self) -> str: ...


@dataclass
class Dynamo:
    """A backend under test: its `name`, a botocore `client`, and fresh keys."""

    name: str
    client: Any
    _count: itertools.count[int] = field(default_factory=itertools.count)

    def fresh(self) -> str:
        """A partition key no other check uses."""
        return f"p{next(self._count)}-{uuid.uuid4().hex[:8]}"

    def put(self, item: Mapping[str, Any], table: str = MAIN) -> None:
        """Put an item as it is."""
        self.client.put_item(TableName=table, Item=dict(item))

    def get(self, key: Mapping[str, Any], table: str = MAIN) -> dict[str, Any] | None:
        """The stored item, strongly read."""
        item: dict[str, Any] | None = self.client.get_item(TableName=table, Key=dict(key), ConsistentRead=True).get(
            "Item"
        )
        return item


def key(pk: str, sk: str = "s") -> dict[str, Any]:
    """A key of the main table."""
    return {"pk": {"S": pk}, "sk": {"S": sk}}


def canonical(value: Any) -> Any:
    """A value or item with set members in one order: their order in an answer means nothing."""
    if isinstance(value, dict):
        return {
            k: sorted(v) if k in ("SS", "NS", "BS") and isinstance(v, list) else canonical(v) for k, v in value.items()
        }
    return [canonical(element) for element in value] if isinstance(value, list) else value


def outcome(call: Any) -> str:
    """Run `call`; "ok", or the error code it got."""
    try:
        call()
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return "ok"


def on_both(checks: Iterable[Named], ministack_differs: Mapping[str, str]) -> Any:
    """Parametrize a test `(dynamo, check)` over both backends. `ministack_differs` maps a claim to why it fails
    there.
    """
    listed = list(checks)
    claims = [check.claim for check in listed]
    unknown = set(ministack_differs) - set(claims)
    repeated = {claim for claim in claims if claims.count(claim) > 1}
    if unknown or repeated:
        raise AssertionError(f"deviations without a check: {unknown}; claims used twice: {repeated}")
    cases = []
    for check in listed:
        cases.append(pytest.param(EMBEDDED, check, id=f"embedded-{check.claim}"))
        marks = _marks(ministack_differs.get(check.claim))
        cases.append(pytest.param(MINISTACK, check, id=f"ministack-{check.claim}", marks=marks))
    return pytest.mark.parametrize(("dynamo", "check"), cases, indirect=["dynamo"])


def both(*, ministack_differs: str = "") -> Any:
    """Parametrize a test over both backends; `ministack_differs` says why it fails there."""
    marks = _marks(ministack_differs)
    return pytest.mark.parametrize("dynamo", [EMBEDDED, pytest.param(MINISTACK, marks=marks)], indirect=True)


def differs(reason: str, *claims: str) -> dict[str, str]:
    """Deviations of ministack with one reason."""
    return dict.fromkeys(claims, reason)


def _marks(reason: str | None) -> list[pytest.MarkDecorator]:
    return [pytest.mark.xfail(strict=True, reason=f"ministack: {reason}")] if reason else []


def pages(dynamo: Dynamo, **request: Any) -> list[list[dict[str, Any]]]:
    """All pages of a query, following LastEvaluatedKey."""
    found = []
    start: dict[str, Any] = {}
    while True:
        answer = dynamo.client.query(**request, **start)
        found.append(answer["Items"])
        if "LastEvaluatedKey" not in answer:
            return found
        start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}
