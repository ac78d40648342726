"""What a handler returned → HTTP answer, as API Gateway reads payload format 2.0."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from callboard_wire.bodies import ErrorBody

# Set by the server for the connection it holds; a handler's own would break the framing.
CONNECTION_HEADERS = frozenset({"connection", "content-length", "keep-alive", "transfer-encoding", "upgrade"})


class MalformedAnswer(ValueError):
    """A handler returned what API Gateway would refuse with 500."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


def answer_of(returned: Any) -> Answer:
    """Any JSON value without a `statusCode` is the body of a 200, as documented for format 2.0; `multiValueHeaders` is
    ignored there and so here.

    Raises:
        MalformedAnswer: no number as status, headers that are no mapping, a body that cannot be decoded or written.
    """
    if not isinstance(returned, Mapping) or "statusCode" not in returned:
        return Answer(200, (("content-type", "application/json"),), _json(returned))
    return Answer(_status(returned["statusCode"]), tuple(_headers(returned)), _body(returned))


def error(status: int, code: str, message: str, request_id: str, details: Mapping[str, Any] | None = None) -> Answer:
    """The front door's own refusals have the shape of all others."""
    body = ErrorBody(error=code, message=message, request_id=request_id, details=dict(details or {}))
    return Answer(status, (("content-type", "application/json"),), body.model_dump_json().encode())


def _json(value: Any) -> bytes:
    try:
        return json.dumps(value, separators=(",", ":")).encode()
    except (TypeError, ValueError) as wrong:
        raise MalformedAnswer(f"the answer is not JSON: {wrong}") from wrong


def _status(value: Any) -> int:
    try:
        status = int(value)
    except (TypeError, ValueError):
        status = 0
    if not 200 <= status <= 599:
        raise MalformedAnswer(f"statusCode {value!r} is no final HTTP status")
    return status


def _headers(returned: Mapping[str, Any]) -> list[tuple[str, str]]:
    headers = returned.get("headers") or {}
    if not isinstance(headers, Mapping):
        raise MalformedAnswer("headers is not a mapping")
    plain = {str(name).lower(): _text(value) for name, value in headers.items()}
    plain.setdefault("content-type", "text/plain; charset=utf-8")
    pairs = [(name, value) for name, value in plain.items() if name not in CONNECTION_HEADERS]
    return pairs + [("set-cookie", str(cookie)) for cookie in returned.get("cookies") or []]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _body(returned: Mapping[str, Any]) -> bytes:
    body = returned.get("body")
    if body is None:
        return b""
    if not isinstance(body, str):
        raise MalformedAnswer("body is not a string")
    if not returned.get("isBase64Encoded"):
        return body.encode()
    try:
        return base64.b64decode(body, validate=True)
    except binascii.Error as wrong:
        raise MalformedAnswer("body is not base64") from wrong
