"""What a handler is given is what API Gateway would give it (HTTP API, payload format 2.0)."""

from __future__ import annotations

import base64
import http.client
import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from callboard_control.embedded.events import Request, event_of
from callboard_control.embedded.routes import Function, Match

ECHO = Function("echo", lambda event, context: None, frozenset())


def echo(client: httpx.Client, method: str, path: str, **options: Any) -> dict[str, Any]:
    answer = client.request(method, path, **options)
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["event"])


def test_event_has_every_field_of_format_2_and_no_field_without_a_value() -> None:
    request = Request(
        method="POST",
        raw_path=b"/api/echo/x",
        query=b"a=1",
        headers=((b"Host", b"box.example:8722"), (b"User-Agent", b"u"), (b"Content-Type", b"application/json")),
        body=b"{}",
        client="10.0.0.9",
        port=8722,
        request_id="r-1",
    )
    event = event_of(
        request, Match(ECHO, "POST /api/echo/{name}", {"name": "x"}), datetime(2026, 11, 30, 9, 5, 7, tzinfo=UTC)
    )
    assert event == {
        "version": "2.0",
        "routeKey": "POST /api/echo/{name}",
        "rawPath": "/api/echo/x",
        "rawQueryString": "a=1",
        "headers": {
            "host": "box.example:8722",
            "user-agent": "u",
            "content-type": "application/json",
            "x-forwarded-for": "10.0.0.9",
            "x-forwarded-port": "8722",
            "x-forwarded-proto": "http",
        },
        "queryStringParameters": {"a": "1"},
        "requestContext": {
            "accountId": "000000000000",
            "apiId": "callboard",
            "domainName": "box.example",
            "domainPrefix": "box",
            "http": {
                "method": "POST",
                "path": "/api/echo/x",
                "protocol": "HTTP/1.1",
                "sourceIp": "10.0.0.9",
                "userAgent": "u",
            },
            "requestId": "r-1",
            "routeKey": "POST /api/echo/{name}",
            "stage": "$default",
            "time": "30/Nov/2026:09:05:07 +0000",
            "timeEpoch": 1796029507000,
        },
        "body": "{}",
        "pathParameters": {"name": "x"},
        "isBase64Encoded": False,
    }
    bare = event_of(Request("GET", b"/health"), Match(ECHO, "GET /health", {}))
    assert not {"cookies", "queryStringParameters", "pathParameters", "body", "stageVariables"} & bare.keys()


@pytest.mark.parametrize(
    ("sent", "raw_path", "name"),
    [
        ("/api/echo/plain", "/api/echo/plain", "plain"),
        ("/api/echo/two%20words", "/api/echo/two words", "two words"),
        ("/api/echo/caf%C3%A9", "/api/echo/café", "café"),
        ("/api/echo/a%3Fb", "/api/echo/a", "a"),
        ("/api/echo/50%25", "/api/echo/50%", "50%"),
    ],
)
def test_path_arrives_decoded_and_cut_at_a_decoded_question_mark(
    client: httpx.Client, sent: str, raw_path: str, name: str
) -> None:
    event = echo(client, "GET", sent)
    assert (event["rawPath"], event["pathParameters"]) == (raw_path, {"name": name})


def test_an_encoded_slash_is_a_slash_to_the_router(client: httpx.Client) -> None:
    assert client.get("/api/echo/a%2Fb").status_code == 404


def test_query_keeps_its_raw_form_and_joins_repeated_names(client: httpx.Client) -> None:
    event = echo(client, "GET", "/api/echo/x?tag=a&tag=b%20c&empty=&plus=1+2")
    assert event["rawQueryString"] == "tag=a&tag=b%20c&empty=&plus=1+2"
    assert event["queryStringParameters"] == {"tag": "a,b c", "empty": "", "plus": "1 2"}


def test_headers_are_lower_case_repeated_ones_joined_and_cookies_apart(client: httpx.Client) -> None:
    event = echo(
        client,
        "GET",
        "/api/echo/x",
        headers=[
            ("X-Thing", "1"),
            ("x-thing", "2"),
            ("Cookie", "a=1; b=2"),
            ("Cookie", "c=3"),
            ("X-Forwarded-For", "9.9.9.9"),
        ],
    )
    assert event["headers"]["x-thing"] == "1,2"
    assert event["headers"]["x-forwarded-for"] == "9.9.9.9, 127.0.0.1"
    assert event["cookies"] == ["a=1", "b=2", "c=3"]
    assert "cookie" not in event["headers"]


@pytest.mark.parametrize(
    ("content_type", "is_base64"),
    [
        ("application/json", False),
        ("application/json; charset=utf-8", False),
        ("text/plain", False),
        ("application/xml", False),
        ("application/octet-stream", True),
        ("application/x-www-form-urlencoded", True),
        ("application/vnd.api+json", True),
        (None, True),
    ],
)
def test_body_is_text_for_the_types_api_gateway_calls_text(
    client: httpx.Client, content_type: str | None, is_base64: bool
) -> None:
    body = '{"a":"é","n":1.0}'.encode()
    event = echo(
        client, "POST", "/api/echo/x", content=body, headers={"content-type": content_type} if content_type else {}
    )
    assert event["isBase64Encoded"] is is_base64
    assert (base64.b64decode(event["body"]) if is_base64 else event["body"].encode()) == body


def test_bytes_that_are_no_utf8_arrive_whole_whatever_their_type_says(client: httpx.Client) -> None:
    body = b'{"a":"\xff\xfe"}'
    event = echo(client, "POST", "/api/echo/x", content=body, headers={"content-type": "application/json"})
    assert event["isBase64Encoded"] is True
    assert base64.b64decode(event["body"]) == body


def test_a_request_without_a_user_agent_or_host_port_is_served(client: httpx.Client) -> None:
    where = urlsplit(str(client.base_url))
    assert where.hostname
    bare = http.client.HTTPConnection(where.hostname, where.port, timeout=10)
    bare.putrequest("GET", "/api/echo/x", skip_host=True, skip_accept_encoding=True)
    bare.putheader("Host", "callboard")
    bare.endheaders()
    answer = bare.getresponse()
    body = answer.read().decode()
    bare.close()
    assert answer.status == 200
    assert re.search(r'"userAgent":"","?', body) or '"userAgent":""' in body
    assert '"domainName":"callboard"' in body


def test_context_is_lambdas(client: httpx.Client) -> None:
    answer = client.get("/api/echo/x")
    context = answer.json()["context"]
    assert context["function_name"] == "callboard-echo"
    assert context["invoked_function_arn"].endswith(":function:callboard-echo")
    assert context["aws_request_id"] == answer.headers["apigw-requestid"]
    assert 20_000 < context["remaining_ms"] <= 29_000


def test_a_powertools_resolver_reads_these_events(client: httpx.Client) -> None:
    assert client.get("/api/things/t%201?tag=a&tag=b").json() == {"id": "t 1", "tags": "a,b"}
    created = client.post("/api/things", params={"name": "n"})
    assert (created.status_code, created.json()) == (201, {"name": "n"})
    assert client.post("/api/things").status_code == 422
