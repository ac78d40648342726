"""Short spellings of attribute values."""

from __future__ import annotations

from typing import Any

Value = dict[str, Any]


def n(number: int | str) -> Value:
    """A number."""
    return {"N": str(number)}


def s(text: str) -> Value:
    """A string."""
    return {"S": text}


def b(data: bytes) -> Value:
    """Binary."""
    return {"B": data}


def lst(*elements: Value) -> Value:
    """A list."""
    return {"L": list(elements)}


def m(**elements: Value) -> Value:
    """A map."""
    return {"M": elements}
