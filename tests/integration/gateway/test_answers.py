"""What a handler returns becomes the answer API Gateway would give; what goes wrong has the one error shape."""

from __future__ import annotations

import base64
import logging
import socket
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from callboard_wire.bodies import ErrorBody
from tests.integration.gateway.toys import Toys


def answer(client: httpx.Client, toys: Toys, returned: Any) -> httpx.Response:
    toys.answers["x"] = returned
    return client.get("/api/answers/x")


def test_status_headers_and_cookies_come_back(client: httpx.Client, toys: Toys) -> None:
    got = answer(
        client,
        toys,
        {
            "statusCode": 201,
            "headers": {"X-Number": 7, "X-Flag": True, "Content-Type": "application/json", "Content-Length": "999"},
            "cookies": ["a=1; HttpOnly", "b=2"],
            "body": '{"ok":true}',
        },
    )
    assert got.status_code == 201
    assert (got.headers["x-number"], got.headers["x-flag"]) == ("7", "true")
    assert got.headers.get_list("set-cookie") == ["a=1; HttpOnly", "b=2"]
    assert got.json() == {"ok": True}


@pytest.mark.parametrize("value", [{"plain": 1}, [1, 2], "text", None, 5])
def test_a_value_without_a_status_code_is_the_json_body_of_a_200(client: httpx.Client, toys: Toys, value: Any) -> None:
    got = answer(client, toys, value)
    assert (got.status_code, got.headers["content-type"], got.json()) == (200, "application/json", value)


def test_a_binary_body_comes_back_as_its_bytes(client: httpx.Client, toys: Toys) -> None:
    raw = bytes(range(256))
    got = answer(
        client,
        toys,
        {"statusCode": 200, "isBase64Encoded": True, "body": base64.b64encode(raw).decode(), "headers": {}},
    )
    assert got.content == raw


def test_204_has_neither_body_nor_length(client: httpx.Client, toys: Toys) -> None:
    got = answer(client, toys, {"statusCode": 204})
    assert (got.status_code, got.content) == (204, b"")
    assert "content-length" not in got.headers


@pytest.mark.parametrize(
    "returned",
    [
        RuntimeError("the password is hunter2"),
        {"statusCode": "no number"},
        {"statusCode": 99},
        {"statusCode": 200, "headers": ["not", "a", "mapping"]},
        {"statusCode": 200, "body": {"not": "a string"}},
        {"statusCode": 200, "isBase64Encoded": True, "body": "***"},
        {"not": {1, 2}},
    ],
)
def test_a_failing_handler_is_a_500_that_says_nothing_and_logs_everything(
    client: httpx.Client, toys: Toys, returned: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, logger="callboard.gateway"):
        got = answer(client, toys, returned)
    assert got.status_code == 500
    body = ErrorBody.model_validate(got.json())
    assert (body.error, body.message, body.details) == ("internal_error", "Internal Server Error", {})
    assert body.request_id == got.headers["apigw-requestid"]
    assert "hunter2" not in got.text
    assert body.request_id in caplog.text
    if isinstance(returned, Exception):
        assert "hunter2" in caplog.text


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/api/none"),
        ("DELETE", "/api/things"),
        ("POST", "/api/things/"),
        ("OPTIONS", "/api/things"),
        ("GET", "/api//things/x"),
    ],
)
def test_unknown_routes_and_methods_are_404_in_our_shape(client: httpx.Client, method: str, path: str) -> None:
    got = client.request(method, path)
    assert got.status_code == 404
    assert ErrorBody.model_validate(got.json()).error == "not_found"
    assert "access-control-allow-origin" not in got.headers


def test_wrong_method_says_which_ones_there_are(client: httpx.Client) -> None:
    body = client.delete("/api/things/t1").json()
    assert body["details"] == {"methods": ["GET"]}


def test_a_body_of_10_mb_is_taken_and_one_byte_more_is_413(client: httpx.Client) -> None:
    limit = 10 * 1024 * 1024
    headers = {"content-type": "text/plain"}
    assert client.post("/api/slow-not", content=b"x" * limit, headers=headers).status_code == 404
    got = client.post("/api/echo/x", content=b"x" * (limit + 1), headers=headers)
    assert got.status_code == 413
    assert ErrorBody.model_validate(got.json()).details == {"limit_bytes": limit}


def test_an_11_mb_body_in_chunks_is_413_and_the_next_request_is_served(client: httpx.Client) -> None:
    def chunks() -> Any:
        for _ in range(11):
            yield b"x" * (1024 * 1024)

    assert client.post("/api/echo/x", content=chunks()).status_code == 413
    assert client.get("/api/echo/x").status_code == 200


def test_a_client_that_vanishes_in_the_middle_of_its_body_harms_nobody(client: httpx.Client) -> None:
    where = urlsplit(str(client.base_url))
    with socket.create_connection((where.hostname, where.port or 80), timeout=10) as half:
        half.sendall(b"POST /api/echo/x HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf")
    assert client.get("/api/echo/x").status_code == 200


def test_bytes_that_are_no_http_are_400(client: httpx.Client) -> None:
    where = urlsplit(str(client.base_url))
    with socket.create_connection((where.hostname, where.port or 80), timeout=10) as raw:
        raw.sendall(b"\x16\x03\x01 this is a TLS hello or worse\r\n\r\n")
        assert raw.recv(100).startswith(b"HTTP/1.1 400")


def test_health_readiness_and_metrics_answer_without_a_token(client: httpx.Client) -> None:
    client.get("/api/things/t1")
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ready"}
    text = client.get("/metrics").text
    assert 'callboard_http_requests_total{route="GET /api/things/{id}",status="200"} 1' in text
    assert 'callboard_http_request_seconds_count{route="GET /api/things/{id}"} 1' in text
    assert 'callboard_calls_running{lane="held"} 0' in text
