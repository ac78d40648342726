"""infra/alarms.yaml and infra/deploy-role.yaml against what AWS does and no linter knows: an alarm on a metric that is
never published, or to a topic that CloudWatch may not write to, is silent for ever."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from callboard_control.entrypoints.tick import METRICS
from tests.unit.infra import template

PUBLISHED = {
    ("AWS/ApiGateway", "5xx"): [{"ApiId"}],
    ("AWS/Lambda", "Invocations"): [{"FunctionName"}],
    ("AWS/Lambda", "Errors"): [{"FunctionName"}],
    ("AWS/Lambda", "Throttles"): [{"FunctionName"}],
    ("AWS/DynamoDB", "ReadThrottleEvents"): [{"TableName"}, {"TableName", "GlobalSecondaryIndexName"}],
    ("AWS/DynamoDB", "WriteThrottleEvents"): [{"TableName"}, {"TableName", "GlobalSecondaryIndexName"}],
    **{("Callboard", name): [{"service"}] for name in METRICS},
}
"""Metric → the sets of dimensions it is published under (each service's CloudWatch page, and `tick` for ours)."""

PERMISSIONS = {
    "AWS::ApiGatewayV2": {"apigateway"},
    "AWS::Cognito": {"cognito-idp"},
    "AWS::DynamoDB": {"dynamodb"},
    "AWS::Lambda": {"lambda"},
    "AWS::Logs": {"logs"},
    "AWS::IAM": {"iam"},
    "AWS::Scheduler": {"scheduler"},
    "AWS::Serverless": {"lambda", "iam"},
}
"""Kind of resource → whose actions CloudFormation needs to make and change one."""


def alarms() -> dict[str, dict[str, Any]]:
    found = template.load("infra/alarms.yaml")["Resources"]
    return {name: body["Properties"] for name, body in found.items() if body["Type"] == "AWS::CloudWatch::Alarm"}


def metrics(alarm: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "MetricName" in alarm:
        yield alarm
    yield from (each["MetricStat"]["Metric"] for each in alarm.get("Metrics", ()) if "MetricStat" in each)


@pytest.mark.parametrize("name", sorted(alarms()))
def test_every_alarm_stands_on_metrics_that_are_published_under_its_dimensions(name: str) -> None:
    found = list(metrics(alarms()[name]))
    assert found
    for metric in found:
        dimensions = {dimension["Name"] for dimension in metric["Dimensions"]}
        assert dimensions in PUBLISHED[metric["Namespace"], metric["MetricName"]]


def test_throttling_is_watched_on_the_table_and_on_every_index_of_it() -> None:
    watched = {
        (metric["MetricName"], *(d["Value"] for d in metric["Dimensions"] if d["Name"] != "TableName"))
        for metric in metrics(alarms()["TableThrottled"])
    }
    [table] = template.resources("AWS::DynamoDB::Table").values()
    indexes = [index["IndexName"] for index in table["GlobalSecondaryIndexes"]]
    kinds = ("ReadThrottleEvents", "WriteThrottleEvents")
    assert watched == {(kind, *of) for kind in kinds for of in [(), *((index,) for index in indexes)]}


def test_an_alarm_on_our_own_metrics_is_its_stages() -> None:
    named = template.load()["Globals"]["Function"]["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"]
    assert "${Stage}" in named["Fn::Sub"]
    own = [metric for alarm in alarms().values() for metric in metrics(alarm) if metric["Namespace"] == "Callboard"]
    assert [metric["Dimensions"] for metric in own] == [[{"Name": "service", "Value": named}]] * len(own)


def test_alarms_go_to_a_topic_that_cloudwatch_may_write_to() -> None:
    """The policy of the key that AWS manages for SNS does not let CloudWatch in, and cannot be changed."""
    found = template.load("infra/alarms.yaml")["Resources"]
    topics = [body for body in found.values() if body["Type"] == "AWS::SNS::Topic"]
    assert topics
    assert not [topic for topic in topics if "KmsMasterKeyId" in topic.get("Properties", {})]
    assert all(alarm["AlarmActions"] == [{"Ref": "Topic"}] for alarm in alarms().values())


def test_cloudformation_may_make_and_change_every_kind_of_resource_in_the_template() -> None:
    role = template.load("infra/deploy-role.yaml")["Resources"]["ExecutionRole"]["Properties"]
    allowed: set[str] = set()
    for policy in role["Policies"]:
        for statement in policy["PolicyDocument"]["Statement"]:
            allowed |= set(template.as_list(statement["Action"]))
    for logical, resource in template.load()["Resources"].items():
        for service in PERMISSIONS[resource["Type"].rpartition("::")[0]]:
            assert [action for action in allowed if action.startswith(f"{service}:")], logical
    # It reads a role before it deletes one, also when it rolls back.
    assert {"iam:ListAttachedRolePolicies", "iam:ListRolePolicies", "iam:GetRole"} <= allowed
