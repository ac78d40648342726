"""template.yaml and the code say the same: routes, functions, keys, limits; no function may do more than it does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from callboard_control.embedded.compose import HELD
from callboard_control.embedded.engine import Engine, attach_connection
from callboard_control.entrypoints import ENTRYPOINTS, HTTP, SCHEDULED
from callboard_control.entrypoints.claim import MARGIN_S
from callboard_control.store import table
from callboard_control.store.models import Item
from callboard_wire.bodies import MAX_WAIT_S
from tests.unit.infra import template

READ, WRITE = {"secretsmanager:GetSecretValue"}, {"secretsmanager:CreateSecret", "secretsmanager:PutSecretValue"}
SECRETS = {
    "claim": (READ, "agent/*"),
    "agent_env": (READ | WRITE, "agent/*"),
    "agents": (WRITE, "agent/gateway/*"),
}
"""Function → what it may do with which secrets. Gateways' tokens are written by one that cannot read them."""


def routes_in_template() -> dict[str, set[tuple[str, str]]]:
    """Function's name → routes, followed through the integrations."""
    owner = {logical: name for name, (logical, _) in template.functions().items()}
    targets = {
        logical: owner[body["IntegrationUri"]["Fn::GetAtt"].removesuffix(".Arn")]
        for logical, body in template.resources("AWS::ApiGatewayV2::Integration").items()
    }
    routes: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for body in template.resources("AWS::ApiGatewayV2::Route").values():
        integration = body["Target"]["Fn::Sub"].removeprefix("integrations/${").removesuffix("}")
        method, _, path = body["RouteKey"].partition(" ")
        routes[targets[integration]].add((method, path))
    return dict(routes)


def test_the_template_routes_exactly_what_the_resolvers_serve() -> None:
    served = {name: set(import_module(path).app.declared()) for name, path in HTTP.items()}
    assert routes_in_template() == served


def test_every_entry_point_is_a_function_and_every_function_an_entry_point() -> None:
    handlers = {name: body["Handler"] for name, (_, body) in template.functions().items()}
    assert handlers == {name: f"{path}.handler" for name, path in ENTRYPOINTS.items()}
    for path in ENTRYPOINTS.values():
        assert callable(import_module(path).handler)


def test_every_http_function_may_be_called_by_the_api_and_by_nothing_else() -> None:
    permissions = template.resources("AWS::Lambda::Permission").values()
    assert {p["Principal"] for p in permissions} == {"apigateway.amazonaws.com"}
    called = {p["FunctionName"]["Ref"] for p in permissions}
    assert called == {logical for name, (logical, _) in template.functions().items() if name in HTTP}
    assert all("${Api}" in p["SourceArn"]["Fn::Sub"] for p in permissions)


def test_what_is_scheduled_runs_every_minute() -> None:
    schedules = template.resources("AWS::Scheduler::Schedule").values()
    scheduled = {s["Target"]["Arn"]["Fn::GetAtt"].removesuffix(".Arn"): s["ScheduleExpression"] for s in schedules}
    logical = {name: template.functions()[name][0] for name in SCHEDULED}
    assert scheduled == {logical["tick"]: "rate(1 minute)"}


def test_a_failed_sweep_is_repeated_by_the_next_minute_alone() -> None:
    """Two may repeat it otherwise: the schedule that could not hand it over, and Lambda when it failed."""
    [schedule] = template.resources("AWS::Scheduler::Schedule").values()
    for policy in (schedule["Target"]["RetryPolicy"], template.functions()["tick"][1]["EventInvokeConfig"]):
        assert policy == {"MaximumRetryAttempts": 0, "MaximumEventAgeInSeconds": 60}


def test_the_table_has_the_models_keys_and_indexes() -> None:
    """Against the table the store itself makes where there is none."""
    engine = Engine(":memory:")
    attach_connection(engine, table.connection())
    table.ensure()
    made = engine.execute("DescribeTable", {"TableName": Item.Meta.table_name})["Table"]
    engine.close()
    [declared] = template.resources("AWS::DynamoDB::Table").values()
    assert declared["KeySchema"] == made["KeySchema"]
    assert _by_name(declared["AttributeDefinitions"]) == _by_name(made["AttributeDefinitions"])
    for index in (*declared["GlobalSecondaryIndexes"], *made["GlobalSecondaryIndexes"]):
        assert index["Projection"] == {"ProjectionType": "KEYS_ONLY"}
    indexes = {index["IndexName"]: index["KeySchema"] for index in declared["GlobalSecondaryIndexes"]}
    assert indexes == {index["IndexName"]: index["KeySchema"] for index in made["GlobalSecondaryIndexes"]}


def _by_name(rows: list[dict[str, str]]) -> dict[str, str]:
    return {row["AttributeName"]: row["AttributeType"] for row in rows}


def test_the_table_outlives_the_stack_and_can_be_restored() -> None:
    [logical] = template.resources("AWS::DynamoDB::Table")
    whole = template.load()["Resources"][logical]
    assert (whole["DeletionPolicy"], whole["UpdateReplacePolicy"]) == ("Retain", "Retain")
    kept = whole["Properties"]
    assert kept["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert kept["TimeToLiveSpecification"] == {"AttributeName": "ttl", "Enabled": True}
    assert kept["StreamSpecification"] == {"StreamViewType": "NEW_AND_OLD_IMAGES"}
    assert kept["BillingMode"] == "PAY_PER_REQUEST"


def test_a_held_claim_fits_into_its_function_and_that_into_the_api() -> None:
    timeout_s = template.functions()["claim"][1]["Timeout"]
    assert MAX_WAIT_S + MARGIN_S <= timeout_s < 30
    assert {"claim": timeout_s} == HELD, "the gateway gives a claim the time Lambda gives it"


@pytest.mark.parametrize("name", sorted(ENTRYPOINTS))
def test_a_function_is_granted_single_actions_on_single_things(name: str) -> None:
    for statement in template.statements(template.functions()[name][1]):
        actions = template.as_list(statement["Action"])
        assert not [action for action in actions if "*" in action or action == "dynamodb:Scan"]
        assert statement["Resource"] != "*"
        if any(action.startswith("secretsmanager:") for action in actions):
            allowed, which = SECRETS[name]
            assert set(actions) == allowed
            assert statement["Resource"]["Fn::Sub"].endswith(":secret:callboard/${Stage}/" + which)


def test_nothing_in_the_template_is_granted_everything_and_only_two_functions_read_secrets() -> None:
    """Over the whole document: whatever resource a statement stands in, roles and policies of later kinds too."""
    readers, users = set(), set()
    for logical, resource in template.load()["Resources"].items():
        for statement in _statements_in(resource):
            if statement.get("Effect") == "Deny":
                continue
            assert "NotAction" not in statement, logical
            for action in template.as_list(statement["Action"]):
                assert "*" not in action, logical
                assert action.lower() not in ("dynamodb:scan", "dynamodb:partiqlselect"), logical
                if action.startswith(("secretsmanager:", "kms:", "ssm:")):
                    users.add(logical)
                    if action not in WRITE:
                        readers.add(logical)
    assert readers == {template.functions()[name][0] for name in ("claim", "agent_env")}
    assert users == {template.functions()[name][0] for name in SECRETS}


def _statements_in(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if "Statement" in value:
            yield from template.as_list(value["Statement"])
        for inner in value.values():
            yield from _statements_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _statements_in(inner)


@pytest.mark.parametrize("name", sorted(ENTRYPOINTS))
def test_a_function_writes_to_a_log_of_its_own_that_is_kept_for_a_while_only(name: str) -> None:
    log = template.functions()[name][1]["LoggingConfig"]["LogGroup"]["Ref"]
    group = template.resources("AWS::Logs::LogGroup")[log]
    assert group["LogGroupName"] == {"Fn::Sub": "/callboard/${Stage}/" + name}
    assert group["RetentionInDays"] == {"Ref": "LogRetentionDays"}


def test_functions_run_on_python_3_13_arm64_with_a_limit_each() -> None:
    shared: dict[str, Any] = template.load()["Globals"]["Function"]
    assert (shared["Runtime"], shared["Architectures"]) == ("python3.13", ["arm64"])
    assert 0 < shared["Timeout"] <= 29
    assert "Environment" in shared


def test_nothing_open_to_browsers_of_other_origins() -> None:
    [api] = template.resources("AWS::ApiGatewayV2::Api").values()
    assert "CorsConfiguration" not in api
    assert "Body" not in api, "local emulators serve no routes of a body"


def test_the_access_log_never_holds_a_credential() -> None:
    [stage] = template.resources("AWS::ApiGatewayV2::Stage").values()
    fields = stage["AccessLogSettings"]["Format"].lower()
    assert not [word for word in ("authorization", "querystring", "header", "$context.path") if word in fields]
