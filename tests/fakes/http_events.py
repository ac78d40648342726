"""HTTP-API-v2 events for tests that call a handler without the gateway."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote


def http_event(
    method: str, path: str, *, headers: Mapping[str, str] | None = None, body: str | None = None, query: str = ""
) -> dict[str, Any]:
    """An event as API Gateway sends it for `method` `path`; `body` is text, `query` as it stands in the URL."""
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": f"{method} {path}",
        "rawPath": unquote(path),
        "rawQueryString": query,
        "headers": {name.lower(): value for name, value in (headers or {}).items()},
        "requestContext": {
            "accountId": "000000000000",
            "apiId": "local",
            "domainName": "127.0.0.1",
            "domainPrefix": "127",
            "http": {
                "method": method,
                "path": unquote(path),
                "protocol": "HTTP/1.1",
                "sourceIp": "127.0.0.1",
                "userAgent": "tests",
            },
            "requestId": "test-request",
            "routeKey": f"{method} {path}",
            "stage": "$default",
            "time": "30/Nov/2026:12:00:00 +0000",
            "timeEpoch": 1796040000000,
        },
        "isBase64Encoded": False,
    }
    if query:
        pairs = [part.partition("=") for part in query.split("&")]
        event["queryStringParameters"] = {unquote(key): unquote(value) for key, _, value in pairs}
    if body is not None:
        event["body"] = body
        event["headers"].setdefault("content-type", "application/json")
    return event
