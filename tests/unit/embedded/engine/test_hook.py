"""Under botocore, boto3 and PynamoDB: every request is answered by the engine, none needs the machine or the
network.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import boto3
import botocore.session
import pytest
from botocore.config import Config
from pynamodb.attributes import NumberAttribute, UnicodeAttribute, UnicodeSetAttribute
from pynamodb.connection import Connection
from pynamodb.exceptions import PutError, TransactWriteError, UpdateError
from pynamodb.indexes import GlobalSecondaryIndex, KeysOnlyProjection
from pynamodb.models import Model
from pynamodb.transactions import TransactGet, TransactWrite

from callboard_control.embedded.engine import (
    Engine,
    Fault,
    Script,
    attach,
    attach_connection,
    attach_pynamodb,
    client,
)
from tests.unit.embedded.engine import tables


@pytest.fixture(autouse=True)
def _bare_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No credentials, no region, no config; a socket or a look-up of an address is an error."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return iter(())


def _first(made: Any) -> Any:
    return made.get_item(TableName=tables.NAME, Key=tables.key("x"))["Item"]


def test_our_own_client_needs_nothing_of_the_machine(engine: Engine) -> None:
    tables.put(engine, tables.key("x"))
    assert _first(client(engine)) == tables.key("x")


def test_a_boto3_client_is_answered_by_the_engine(engine: Engine) -> None:
    made = boto3.session.Session(aws_access_key_id="a", aws_secret_access_key="b", region_name="eu-west-1").client(
        "dynamodb"
    )
    attach(made, engine)
    tables.put(engine, tables.key("x"))
    assert _first(made) == tables.key("x")


@pytest.mark.parametrize("kind", ["boto3", "botocore"])
def test_a_session_hands_the_engine_on_to_its_clients_and_resources(engine: Engine, kind: str) -> None:
    tables.put(engine, tables.key("x"))
    if kind == "boto3":
        session = boto3.session.Session(aws_access_key_id="a", aws_secret_access_key="b", region_name="eu-west-1")
        attach(session, engine)
        assert _first(session.client("dynamodb")) == tables.key("x")
        found = session.resource("dynamodb").Table(tables.NAME).get_item(Key={"pk": "x", "sk": "s"})
        assert found["Item"] == {"pk": "x", "sk": "s"}
    else:
        bare = botocore.session.Session()
        bare.set_credentials("a", "b")
        attach(bare, engine)
        assert _first(bare.create_client("dynamodb", region_name="eu-west-1")) == tables.key("x")


def test_attaching_again_replaces_the_engine(engine: Engine) -> None:
    made = client(engine)
    tables.put(engine, tables.key("x"))
    with Engine(":memory:") as other:
        tables.create(other)
        attach(made, other)
        assert "Item" not in made.get_item(TableName=tables.NAME, Key=tables.key("x"))


def test_binary_and_utf8_survive_the_way(engine: Engine) -> None:
    item = {
        **tables.key("ключ"),
        "b": {"B": bytes(range(256))},
        "bs": {"BS": [b"\x00", b"\xff"]},
        "s": {"S": '𝄞\x00"\\'},
    }
    made = client(engine)
    made.put_item(TableName=tables.NAME, Item=item)
    assert made.get_item(TableName=tables.NAME, Key=tables.key("ключ"))["Item"] == item


def test_errors_are_botocores_own_classes_with_status_and_message(engine: Engine) -> None:
    made = client(engine)
    with pytest.raises(made.exceptions.ResourceNotFoundException) as missing:
        made.get_item(TableName="nothing", Key=tables.key("x"))
    assert missing.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    with pytest.raises(made.exceptions.ConditionalCheckFailedException, match="The conditional request failed"):
        made.put_item(TableName=tables.NAME, Item=tables.key("x"), ConditionExpression="attribute_exists(pk)")


@pytest.mark.parametrize("operation", ["list_backups", "list_exports", "describe_limits", "list_global_tables"])
def test_an_operation_the_engine_does_not_have_is_named(engine: Engine, operation: str) -> None:
    made = client(engine, retries=0)
    with pytest.raises(made.exceptions.ClientError, match=r"UnknownOperationException.*embedded engine"):
        getattr(made, operation)()


@pytest.mark.parametrize(
    ("operation", "request_part", "named"),
    [
        ("get_item", {"Key": tables.key("x"), "AttributesToGet": ["a"]}, "AttributesToGet"),
        ("put_item", {"Item": tables.key("x"), "Expected": {"a": {"Exists": False}}}, "Expected"),
        ("update_item", {"Key": tables.key("x"), "AttributeUpdates": {"a": {"Action": "DELETE"}}}, "AttributeUpdates"),
        (
            "query",
            {"KeyConditions": {"pk": {"ComparisonOperator": "EQ", "AttributeValueList": [{"S": "x"}]}}},
            "KeyConditions",
        ),
        ("scan", {"ScanFilter": {}}, "ScanFilter"),
        ("scan", {"Segment": 0, "TotalSegments": 2}, "Segment"),
    ],
)
def test_a_parameter_the_engine_does_not_have_is_named(
    engine: Engine, operation: str, request_part: dict[str, Any], named: str
) -> None:
    made = client(engine)
    with pytest.raises(made.exceptions.ClientError, match=rf"ValidationException.*{named} is not supported"):
        getattr(made, operation)(TableName=tables.NAME, **request_part)


@pytest.mark.parametrize(
    ("part", "named"),
    [
        (
            {
                "LocalSecondaryIndexes": [
                    {
                        "IndexName": "local",
                        "KeySchema": tables.schema("pk", "sk"),
                        "Projection": {"ProjectionType": "ALL"},
                    }
                ]
            },
            "LocalSecondaryIndexes",
        ),
        ({"StreamSpecification": {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}}, "StreamSpecification"),
        ({"SSESpecification": {"Enabled": True}}, "SSESpecification"),
        ({"DeletionProtectionEnabled": True}, "DeletionProtectionEnabled"),
        ({"Tags": [{"Key": "a", "Value": "b"}]}, "Tags"),
    ],
)
def test_a_kind_of_table_the_engine_does_not_have_is_named(engine: Engine, part: dict[str, Any], named: str) -> None:
    made = client(engine)
    request = {
        "TableName": "another",
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
        "KeySchema": tables.schema("pk", "sk"),
        "BillingMode": "PAY_PER_REQUEST",
    }
    with pytest.raises(made.exceptions.ClientError, match=rf"ValidationException.*{named} is not supported"):
        made.create_table(**request, **part)


# The short way and the long way. An injector that does nothing makes botocore send, retry and parse as on the network.

ITEM = {
    **tables.key("x"),
    "all": {
        "M": {
            "n": {"N": "1.50"},
            "b": {"B": b"\x00\xff"},
            "bs": {"BS": [b"", b"\x01"]},
            "ss": {"SS": ["é"]},
            "ns": {"NS": ["1"]},
            "l": {"L": [{"BOOL": False}, {"NULL": True}, {"M": {"B": {"B": b"b"}}}, {"M": {"S": {"B": b"b"}}}]},
            "B": {"S": "an attribute of that name"},
        }
    },
    "g": {"S": "g"},
    "h": {"N": "1"},
}
KEY = {"TableName": tables.NAME, "Key": tables.key("x")}
FALSE = {"ConditionExpression": "attribute_not_exists(pk)", "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("put_item", {"TableName": tables.NAME, "Item": ITEM, "ReturnConsumedCapacity": "INDEXES"}),
    ("put_item", {"TableName": tables.NAME, "Item": ITEM, "ReturnValues": "ALL_OLD"}),
    ("put_item", {"TableName": tables.NAME, "Item": ITEM, **FALSE}),
    ("put_item", {"TableName": "nothing", "Item": ITEM}),
    ("get_item", KEY),
    ("get_item", {"TableName": tables.NAME, "Key": tables.key("none")}),
    ("get_item", {**KEY, "ProjectionExpression": "nothing"}),
    ("get_item", {**KEY, "ProjectionExpression": "a a"}),
    (
        "query",
        {
            "TableName": tables.NAME,
            "IndexName": "by-g",
            "KeyConditionExpression": "g = :g",
            "ExpressionAttributeValues": {":g": {"S": "g"}},
            "Limit": 1,
            "ReturnConsumedCapacity": "INDEXES",
        },
    ),
    ("scan", {"TableName": tables.NAME, "Select": "COUNT"}),
    ("update_item", {**KEY, "UpdateExpression": "REMOVE g", "ReturnValues": "UPDATED_OLD"}),
    ("update_item", {**KEY, "UpdateExpression": "REMOVE h", **FALSE}),
    ("batch_get_item", {"RequestItems": {tables.NAME: {"Keys": [tables.key("x"), tables.key("y")]}}}),
    ("batch_write_item", {"RequestItems": {tables.NAME: [{"DeleteRequest": {"Key": tables.key("y")}}]}}),
    ("transact_get_items", {"TransactItems": [{"Get": KEY}, {"Get": {**KEY, "Key": tables.key("none")}}]}),
    (
        "transact_write_items",
        {"TransactItems": [{"ConditionCheck": {**KEY, **FALSE}}, {"Delete": {**KEY, "Key": tables.key("z")}}]},
    ),
    (
        "transact_write_items",
        {"TransactItems": [{"Delete": KEY}], "ClientRequestToken": "t", "ReturnConsumedCapacity": "TOTAL"},
    ),
    ("delete_item", {**KEY, "ReturnValues": "ALL_OLD"}),
    ("describe_table", {"TableName": "nothing"}),
    ("describe_time_to_live", {"TableName": tables.NAME}),
]


def test_the_short_way_through_botocore_answers_what_the_long_way_does(engine: Engine) -> None:
    with Engine(":memory:", faults=Script()) as other:
        tables.create(other)
        short, long = client(engine), client(other)
        for operation, request in CALLS:
            assert told(short, operation, request) == told(long, operation, request), operation


def told(made: Any, operation: str, request: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """What the caller sees: the class of the outcome and all of the response."""
    try:
        return "", getattr(made, operation)(**request)
    except made.exceptions.ClientError as error:
        return f"{type(error).__name__}: {error}", error.response


def test_other_handlers_of_a_call_still_see_and_change_it(engine: Engine) -> None:
    made = client(engine)
    tables.put(engine, tables.key("x"))
    seen: list[str] = []

    def ask(params: dict[str, Any], **_: Any) -> None:
        params["body"] = json.dumps({**json.loads(params["body"]), "ReturnConsumedCapacity": "TOTAL"}).encode()

    made.meta.events.register("before-call.dynamodb", ask)
    made.meta.events.register("after-call.dynamodb", lambda parsed, **_: seen.append(parsed["ConsumedCapacity"]))
    made.get_item(**KEY)
    assert seen == [{"TableName": tables.NAME, "CapacityUnits": 0.5}]


# PynamoDB


class ByState(GlobalSecondaryIndex["Task"]):
    class Meta:
        index_name = "by-state"
        projection = KeysOnlyProjection()

    state = UnicodeAttribute(hash_key=True)
    sk = UnicodeAttribute(range_key=True)


class Task(Model):
    class Meta:
        table_name = "tasks"
        billing_mode = "PAY_PER_REQUEST"

    pk = UnicodeAttribute(hash_key=True)
    sk = UnicodeAttribute(range_key=True)
    state = UnicodeAttribute(null=True)
    fence = NumberAttribute(default=0)
    running = UnicodeSetAttribute(null=True)
    by_state = ByState()


@pytest.fixture
def attached(engine: Engine) -> Engine:
    attach_pynamodb(engine, Task)
    Task.create_table()
    return engine


@pytest.mark.usefixtures("attached")
def test_pynamodb_saves_reads_updates_queries_and_deletes() -> None:
    for number in range(3):
        Task("p", f"s{number}", state="READY", running={"a"}).save(Task.pk.does_not_exist())
    with pytest.raises(PutError) as refused:
        Task("p", "s0").save(Task.pk.does_not_exist())
    assert refused.value.cause_response_code == "ConditionalCheckFailedException"
    task = Task.get("p", "s1", consistent_read=True)
    task.update(
        actions=[Task.fence.add(1), Task.state.remove(), Task.running.delete({"a"})], condition=Task.state == "READY"
    )
    assert (task.fence, task.state, task.running) == (1, None, None)
    with pytest.raises(UpdateError) as stale:
        task.update(actions=[Task.fence.add(1)], condition=Task.state == "READY")
    assert stale.value.cause_response_code == "ConditionalCheckFailedException"
    assert [found.sk for found in Task.by_state.query("READY", Task.sk.startswith("s"))] == ["s0", "s2"]
    assert [found.sk for found in Task.query("p", scan_index_forward=False, limit=2)] == ["s2", "s1"]
    with Task.batch_write() as batch:
        batch.delete(Task("p", "s0"))
        batch.save(Task("p", "s9"))
    assert [found.sk for found in Task.batch_get([("p", "s0"), ("p", "s9")])] == ["s9"]


def claim_and_save(connection: Connection, sk: str, token: str | None = None) -> None:
    with TransactWrite(connection=connection, client_request_token=token) as transaction:
        transaction.update(Task("p", "a"), actions=[Task.fence.add(1)], condition=Task.fence == 1)
        transaction.save(Task("p", sk))


def test_pynamodb_transactions_give_reasons_and_apply_once(attached: Engine) -> None:
    connection = Connection()
    attach_connection(attached, connection)
    Task("p", "a", fence=1).save()
    for _ in range(2):
        claim_and_save(connection, "b", token="token")
    assert Task.get("p", "a").fence == 2
    with pytest.raises(TransactWriteError) as cancelled:
        claim_and_save(connection, "c")
    reasons = cancelled.value.cancellation_reasons
    # PynamoDB sends puts before updates.
    assert [reason.code if reason else None for reason in reasons] == [None, "ConditionalCheckFailed"]
    with TransactGet(connection=connection) as reading:
        futures = [reading.get(Task, "p", sk) for sk in ("a", "b")]
    assert [future.get().sk for future in futures] == ["a", "b"]


def test_pynamodb_models_attached_in_one_thread_work_in_others(attached: Engine) -> None:
    def work(number: int) -> None:
        Task("p", f"t{number}").save()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(Task.query("p"))) == 8


def test_a_model_attached_again_moves_to_the_new_engine(attached: Engine) -> None:
    Task("p", "old").save()
    with Engine(":memory:") as other:
        attach_pynamodb(other, Task)
        Task.create_table()
        assert list(Task.query("p")) == []
    attach_pynamodb(attached, Task)
    assert [found.sk for found in Task.query("p")] == ["old"]


def test_pynamodb_retries_what_was_throttled() -> None:
    script = Script(operations=["PutItem"])
    with Engine(":memory:", faults=script) as engine:
        attach_pynamodb(engine, Task)
        Task.create_table()
        script.add(Fault.THROTTLING)
        Task("p", "s").save()
        assert Task.get("p", "s").sk == "s"


def test_a_client_of_ours_points_at_a_host_that_cannot_exist(engine: Engine) -> None:
    """So that a request could not leave the machine even if the hook were missing."""
    assert client(engine).meta.endpoint_url.endswith(".invalid")


def test_config_of_the_client_is_kept(engine: Engine) -> None:
    session = botocore.session.Session()
    session.set_credentials("a", "b")
    made = session.create_client("dynamodb", region_name="eu-west-1", config=Config(user_agent_extra="x"))
    attach(made, engine)
    assert made.meta.region_name == "eu-west-1"
    assert made.list_tables()["TableNames"] == [tables.NAME]
