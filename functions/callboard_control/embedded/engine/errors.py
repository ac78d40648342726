"""The errors an engine answers with, in DynamoDB's own words.

EngineError                 a coded answer: code, message, HTTP status, extra fields of the body
├── LostMessage             no answer at all: the request or its response was lost (fault injection only)
StorageError                the data file cannot be opened; raised at construction, never as an answer
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SERVICE = "com.amazonaws.dynamodb.v20120810#"
# Validation and routing errors come from the service's front door, under another name space.
_FRONT_DOOR = {
    "ValidationException": "com.amazon.coral.validate#",
    "SerializationException": "com.amazon.coral.service#",
    "UnknownOperationException": "com.amazon.coral.service#",
    "ThrottlingException": "com.amazon.coral.availability#",
}


class EngineError(Exception):
    """An error answer, as DynamoDB would give it.

    `code` is the short error code (``ConditionalCheckFailedException``), `status` the HTTP status and `fields` what the
    body carries besides the message (``Item``, ``CancellationReasons``).
    """

    def __init__(self, code: str, message: str, *, status: int = 400, fields: Mapping[str, Any] | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status
        self.fields = dict(fields or {})

    def body(self) -> dict[str, Any]:
        """The JSON body of the answer."""
        type_name = _FRONT_DOOR.get(self.code, _SERVICE) + self.code
        # The one error whose message key is capitalised in DynamoDB's model.
        key = "Message" if self.code == "TransactionCanceledException" else "message"
        return {"__type": type_name, key: self.message, **self.fields}


class LostMessage(EngineError):
    """The request (before its effect) or the response (after it) was lost on the way; the caller gets no answer."""

    def __init__(self, what: str) -> None:
        super().__init__("LostMessage", f"the {what} was lost")


class StorageError(Exception):
    """The data file cannot be used; the message says which file, what is wrong and what to do."""


def validation(message: str) -> EngineError:
    """A request that is wrong in itself."""
    return EngineError("ValidationException", message)


def bad_value(problem: str) -> EngineError:
    """A parameter whose value cannot be."""
    return validation(f"One or more parameter values were invalid: {problem}")


def empty_key(what: str, where: str, *, detail: str = "") -> EngineError:
    """An empty string or binary where a key attribute is due."""
    return validation(
        f"One or more parameter values are not valid. {detail}"
        f"The AttributeValue for a key attribute cannot contain an empty {what} value. {where}"
    )


def serialization(message: str) -> EngineError:
    """A JSON value of the wrong kind, such as a number where a string is due."""
    return EngineError("SerializationException", message)


def unsupported(what: str) -> EngineError:
    """Something DynamoDB has and this engine does not: refused by name, never approximated."""
    return validation(f"{what} is not supported by the embedded engine")


def table_not_found(name: str | None = None) -> EngineError:
    """No such table; table operations name it, item operations do not."""
    detail = f": Table: {name} not found" if name else ""
    return EngineError("ResourceNotFoundException", f"Requested resource not found{detail}")


def condition_failed(item: Mapping[str, Any] | None = None) -> EngineError:
    """The condition of a single write was false; `item` is given back when the caller asked for it."""
    fields = {"Item": item} if item is not None else None
    return EngineError("ConditionalCheckFailedException", "The conditional request failed", fields=fields)


def transaction_canceled(reasons: list[dict[str, Any]]) -> EngineError:
    """A transaction that did nothing, with one reason an action, in order."""
    codes = ", ".join(reason["Code"] for reason in reasons)
    message = f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]"
    return EngineError("TransactionCanceledException", message, fields={"CancellationReasons": reasons})
