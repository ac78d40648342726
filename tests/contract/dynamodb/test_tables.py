"""CreateTable, DescribeTable, ListTables, DeleteTable, time to live."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.contract.dynamodb.backends import MAIN, Dynamo, both, differs, key, on_both, outcome
from tests.contract.dynamodb.values import s

INVALID, NOT_FOUND = "ValidationException", "ResourceNotFoundException"


def attribute(name: str, letter: str = "S") -> dict[str, str]:
    return {"AttributeName": name, "AttributeType": letter}


def part(name: str, kind: str = "HASH") -> dict[str, str]:
    return {"AttributeName": name, "KeyType": kind}


def table(name: str, **changes: Any) -> dict[str, Any]:
    request = {
        "TableName": name,
        "AttributeDefinitions": [attribute("pk"), attribute("sk")],
        "KeySchema": [part("pk"), part("sk", "RANGE")],
        "BillingMode": "PAY_PER_REQUEST",
    }
    return {name: value for name, value in {**request, **changes}.items() if value is not None}


def index(name: str = "idx", projection: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    return {
        "IndexName": name,
        "KeySchema": [part("sk")],
        "Projection": projection or {"ProjectionType": "ALL"},
        **changes,
    }


@dataclass(frozen=True)
class Check:
    claim: str
    changes: dict[str, Any]


REFUSED = [
    Check("a name of two letters is refused", {"TableName": "ab"}),
    Check("a name of 256 letters is refused", {"TableName": "a" * 256}),
    Check("a name with a space is refused", {"TableName": "a table"}),
    Check("no key schema is refused", {"KeySchema": []}),
    Check("a key of three parts is refused", {"KeySchema": [part("pk"), part("sk", "RANGE"), part("x", "RANGE")]}),
    Check("a range key first is refused", {"KeySchema": [part("pk", "RANGE"), part("sk", "HASH")]}),
    Check("two hash keys are refused", {"KeySchema": [part("pk"), part("sk")]}),
    Check("one attribute for both keys is refused", {"KeySchema": [part("pk"), part("pk", "RANGE")]}),
    Check("a key without a definition is refused", {"AttributeDefinitions": [attribute("pk")]}),
    Check(
        "a definition without a key is refused",
        {"AttributeDefinitions": [attribute("pk"), attribute("sk"), attribute("x")]},
    ),
    Check("a boolean key is refused", {"AttributeDefinitions": [attribute("pk", "BOOL"), attribute("sk")]}),
    Check("an index on an undefined attribute is refused", {"GlobalSecondaryIndexes": [index(KeySchema=[part("zz")])]}),
    Check("two indexes of one name are refused", {"GlobalSecondaryIndexes": [index(), index()]}),
    Check(
        "an unknown projection is refused", {"GlobalSecondaryIndexes": [index(projection={"ProjectionType": "SOME"})]}
    ),
    Check(
        "INCLUDE without attributes is refused",
        {"GlobalSecondaryIndexes": [index(projection={"ProjectionType": "INCLUDE"})]},
    ),
    Check(
        "attributes without INCLUDE are refused",
        {"GlobalSecondaryIndexes": [index(projection={"ProjectionType": "KEYS_ONLY", "NonKeyAttributes": ["a"]})]},
    ),
]
MINISTACK_DIFFERS = {
    **differs(
        "accepts it",
        "a range key first is refused",
    ),
}


@on_both(REFUSED, MINISTACK_DIFFERS)
def test_create_table(dynamo: Dynamo, check: Check) -> None:
    assert outcome(lambda: dynamo.client.create_table(**table(dynamo.fresh(), **check.changes))) == INVALID


@both()
def test_a_table_lives_from_create_to_delete(dynamo: Dynamo) -> None:
    name = dynamo.fresh()
    dynamo.client.create_table(**table(name, GlobalSecondaryIndexes=[index()]))
    assert outcome(lambda: dynamo.client.create_table(**table(name))) == "ResourceInUseException"
    described = dynamo.client.describe_table(TableName=name)["Table"]
    assert described["TableStatus"] == "ACTIVE"
    assert described["KeySchema"] == [part("pk"), part("sk", "RANGE")]
    assert sorted(described["AttributeDefinitions"], key=lambda d: d["AttributeName"]) == [
        attribute("pk"),
        attribute("sk"),
    ]
    assert described["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    [made] = described["GlobalSecondaryIndexes"]
    assert (made["IndexName"], made["IndexStatus"], made["Projection"]) == ("idx", "ACTIVE", {"ProjectionType": "ALL"})
    dynamo.put(key("x"), name)
    dynamo.client.delete_table(TableName=name)
    assert outcome(lambda: dynamo.client.describe_table(TableName=name)) == NOT_FOUND
    assert outcome(lambda: dynamo.put(key("x"), name)) == NOT_FOUND
    dynamo.client.create_table(**table(name))
    assert dynamo.get(key("x"), name) is None, "a table made anew under an old name is empty"


@both()
def test_tables_are_listed_in_pages_by_name(dynamo: Dynamo) -> None:
    mark = dynamo.fresh()
    names = [f"{mark}-{i}" for i in range(3)]
    for name in names:
        dynamo.client.create_table(**table(name))
    first = dynamo.client.list_tables(ExclusiveStartTableName=f"{mark}-", Limit=2)
    assert first["TableNames"] == names[:2]
    assert first["LastEvaluatedTableName"] == names[1]
    second = dynamo.client.list_tables(ExclusiveStartTableName=names[1], Limit=1)
    assert second["TableNames"] == names[2:]


@both()
def test_describing_or_deleting_an_unknown_table_is_not_found(dynamo: Dynamo) -> None:
    assert outcome(lambda: dynamo.client.describe_table(TableName="no-such-table")) == NOT_FOUND
    assert outcome(lambda: dynamo.client.delete_table(TableName="no-such-table")) == NOT_FOUND


@both()
def test_time_to_live_is_set_and_described(dynamo: Dynamo) -> None:
    name = dynamo.fresh()
    dynamo.client.create_table(**table(name))
    assert (
        dynamo.client.describe_time_to_live(TableName=name)["TimeToLiveDescription"]["TimeToLiveStatus"] == "DISABLED"
    )
    wish = {"AttributeName": "ttl", "Enabled": True}
    answer = dynamo.client.update_time_to_live(TableName=name, TimeToLiveSpecification=wish)
    assert answer["TimeToLiveSpecification"] == wish
    described = dynamo.client.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    assert described == {"TimeToLiveStatus": "ENABLED", "AttributeName": "ttl"}


@both(ministack_differs="accepts it again")
def test_enabling_time_to_live_twice_is_refused(dynamo: Dynamo) -> None:
    name = dynamo.fresh()
    dynamo.client.create_table(**table(name))
    wish = {"TableName": name, "TimeToLiveSpecification": {"AttributeName": "ttl", "Enabled": True}}
    dynamo.client.update_time_to_live(**wish)
    assert outcome(lambda: dynamo.client.update_time_to_live(**wish)) == INVALID


@both()
def test_an_index_is_filled_with_items_of_its_own_table_only(dynamo: Dynamo) -> None:
    name = dynamo.fresh()
    dynamo.client.create_table(**table(name, GlobalSecondaryIndexes=[index()]))
    dynamo.put(key(name, "here"), name)
    dynamo.put(key(name, "here"), MAIN)
    found = dynamo.client.query(
        TableName=name, IndexName="idx", KeyConditionExpression="sk = :s", ExpressionAttributeValues={":s": s("here")}
    )
    assert found["Items"] == [key(name, "here")]
