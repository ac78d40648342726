"""HTTP request → HTTP-API-v2 event, as API Gateway makes it (payload format 2.0).

Where AWS's documents are silent the shape follows captures of live APIs: the path arrives percent-decoded and cut at a
decoded ``?``; a body is text only for ``text/*`` and JSON, XML and JavaScript, and base64 for everything else, a form
and a missing content type among them; cookies leave the headers for a list of their own.
"""

from __future__ import annotations

import base64
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, unquote

from callboard_control.embedded.routes import Match

ACCOUNT_ID = "000000000000"
STAGE = "$default"
TEXT_TYPES = frozenset({"application/json", "application/xml", "application/javascript"})


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request as it came off the wire. Header names and values are Latin-1 bytes, in order of arrival."""

    method: str
    raw_path: bytes
    query: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""
    client: str = "127.0.0.1"
    http_version: str = "1.1"
    port: int = 80
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def path(self) -> str:
        return unquote(self.raw_path.decode("latin-1")).partition("?")[0]


def event_of(request: Request, match: Match, now: datetime | None = None) -> dict[str, Any]:
    """The event for `request`, routed to `match`. Fields without a value are absent, as in API Gateway's."""
    headers, cookies = _headers(request)
    host = headers.get("host", "").rpartition(":")[0] or headers.get("host", "")
    query = request.query.decode("latin-1")
    text, is_base64 = _body(request.body, headers.get("content-type", ""))
    now = now or datetime.now(UTC)
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": match.route_key,
        "rawPath": request.path,
        "rawQueryString": query,
        "cookies": cookies or None,
        "headers": headers,
        "queryStringParameters": _joined(parse_qsl(query, keep_blank_values=True)) or None,
        "requestContext": {
            "accountId": ACCOUNT_ID,
            "apiId": "callboard",
            "domainName": host,
            "domainPrefix": host.partition(".")[0],
            "http": {
                "method": request.method,
                "path": request.path,
                "protocol": f"HTTP/{request.http_version}",
                "sourceIp": request.client,
                "userAgent": headers.get("user-agent", ""),
            },
            "requestId": request.request_id,
            "routeKey": match.route_key,
            "stage": STAGE,
            "time": now.strftime("%d/%b/%Y:%H:%M:%S +0000"),
            "timeEpoch": int(now.timestamp() * 1000),
        },
        "body": text,
        "pathParameters": dict(match.parameters) or None,
        "isBase64Encoded": is_base64,
    }
    return {name: value for name, value in event.items() if value is not None}


def _headers(request: Request) -> tuple[dict[str, str], list[str]]:
    """Lower-case names, repeated ones joined by a comma; cookies apart; what the front door itself adds."""
    pairs = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in request.headers]
    cookies = [part for name, value in pairs if name == "cookie" for part in value.split("; ") if part]
    headers = _joined([pair for pair in pairs if pair[0] != "cookie"])
    forwarded = headers.get("x-forwarded-for")
    headers["x-forwarded-for"] = f"{forwarded}, {request.client}" if forwarded else request.client
    headers.setdefault("x-forwarded-port", str(request.port))
    headers.setdefault("x-forwarded-proto", "http")
    return headers, cookies


def _joined(pairs: list[tuple[str, str]]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in pairs:
        joined[name] = f"{joined[name]},{value}" if name in joined else value
    return joined


def _body(body: bytes, content_type: str) -> tuple[str | None, bool]:
    """The body and whether it is base64. Bytes that are no UTF-8 travel as base64 whatever their type says: nothing is
    replaced on the way, so a signature over the bytes still verifies."""
    if not body:
        return None, False
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type.startswith("text/") or media_type in TEXT_TYPES:
        try:
            return body.decode(), False
        except UnicodeDecodeError:
            pass
    return base64.b64encode(body).decode("ascii"), True
