"""The short ways to the engine for item operations, without an HTTP request in between.

`handler` answers botocore at `before-call`: botocore emits `before-call.<service>.<operation>` with the serialised
request and takes a handler's response instead of sending; its own stubber works so. Building, sending and parsing HTTP
cost more than the engine's work, and a task's life makes some fifteen calls.

`Direct` stands in for the client that PynamoDB calls, and spares what botocore does before that event: a user agent,
the endpoint's rules, JSON there and back. That was a quarter of the CPU of a task's life.

What is lost both times is botocore's retrying, for which there is no reason without a network: an engine that injects
faults does not come this way. Table operations do not either: they are rare, and their answers hold times."""

from __future__ import annotations

import base64
import json
from typing import Any

from botocore.parsers import create_parser

from callboard_control.embedded.engine.engine import Engine
from callboard_control.embedded.engine.errors import EngineError

OPERATIONS = frozenset(
    {
        "BatchGetItem",
        "BatchWriteItem",
        "DeleteItem",
        "GetItem",
        "PutItem",
        "Query",
        "Scan",
        "TransactGetItems",
        "TransactWriteItems",
        "UpdateItem",
    }
)
HEADERS = {"content-type": "application/x-amz-json-1.0", "x-amzn-requestid": "embedded"}


_AS_IS = frozenset({"S", "N", "SS", "NS", "BOOL", "NULL"})


class _Status:
    """What botocore looks at of an HTTP response here."""

    def __init__(self, status_code: int) -> None:
        self.status_code = status_code


_OK = _Status(200)


def handler(engine: Engine) -> Any:
    """A handler for `before-call.dynamodb` that has `engine` answer item operations."""

    def answer(model: Any, params: dict[str, Any], **_: Any) -> tuple[_Status, dict[str, Any]] | None:
        if model.name not in OPERATIONS:
            return None
        try:
            parsed = engine.execute(model.name, json.loads(params["body"]))
        except EngineError as error:
            return _Status(error.status), _parsed_error(model, error)
        return _OK, _parsed(parsed) | {"ResponseMetadata": _metadata(200)}

    return answer


class Direct:
    """A botocore client as PynamoDB needs one, whose item operations go straight to `engine`; all else is `client`'s.

    Its events (`before-call`, …) are emitted for that rest only.
    """

    def __init__(self, client: Any, engine: Engine) -> None:
        self.behind = client
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self.behind, name)

    def _make_api_call(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        # The name is botocore's and the one PynamoDB calls; there is no public one that takes an operation by name.
        if operation not in OPERATIONS:
            answer: dict[str, Any] = self.behind._make_api_call(operation, request)
            return answer
        try:
            parsed: dict[str, Any] = _parsed(self._engine.execute(operation, _sent(request)))
            return parsed
        except EngineError as error:
            model = self.behind.meta.service_model.operation_model(operation)
            refused = self.behind.exceptions.from_code(error.code)
            raise refused(_parsed_error(model, error), operation) from error


def _sent(value: Any) -> Any:
    """The request as botocore would have sent it: bytes as base64, the rest as it is."""
    kind = type(value)
    if kind is dict:
        # Most of a request is text: it is spared the call.
        return {name: element if type(element) is str else _sent(element) for name, element in value.items()}
    if kind is list:
        return [_sent(element) for element in value]
    return base64.b64encode(value).decode() if kind is bytes else value


def _metadata(status: int) -> dict[str, Any]:
    return {"RequestId": "embedded", "HTTPStatusCode": status, "HTTPHeaders": dict(HEADERS), "RetryAttempts": 0}


def _parsed(value: Any) -> Any:
    """The answer as botocore would have parsed it: binary values as bytes, the rest as it is in JSON."""
    kind = type(value)
    if kind is dict:
        if len(value) == 1:
            [(letter, content)] = value.items()
            # A map may have an attribute called S or B: its value is then a dict, unlike a typed value's content.
            if type(content) is not dict and letter in _AS_IS:
                return value
            if letter == "B" and type(content) is str:
                return {"B": base64.b64decode(content)}
            if letter == "BS" and type(content) is list:
                return {"BS": [base64.b64decode(member) for member in content]}
        return {name: _parsed(element) for name, element in value.items()}
    return [_parsed(element) for element in value] if kind is list else value


def _parsed_error(model: Any, error: EngineError) -> dict[str, Any]:
    """The error as botocore's own parser reads it, with the fields its model knows."""
    parser = create_parser("json")
    response = {"headers": HEADERS, "status_code": error.status, "body": json.dumps(error.body()).encode()}
    parsed: dict[str, Any] = parser.parse(response, model.output_shape)
    shape = model.service_model.shape_for_error_code(error.code)
    if shape is not None:
        parsed.update(parser.parse(response, shape))
    parsed["ResponseMetadata"] = _metadata(error.status)
    return parsed
