"""Reading request parameters: known names only, right JSON types, DynamoDB's constraint messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

from callboard_control.embedded.engine.errors import serialization, unsupported, validation

# Parameters of the years before expressions. Refused by name; the expression that replaces each is in DynamoDB's guide.
LEGACY = frozenset(
    {
        "AttributesToGet",
        "AttributeUpdates",
        "ConditionalOperator",
        "Expected",
        "KeyConditions",
        "QueryFilter",
        "ScanFilter",
    }
)


def only(request: Mapping[str, Any], allowed: Set[str]) -> None:
    """Refuse parameters this engine does not know, by name: none is silently ignored."""
    for name, value in request.items():
        if name in allowed or value is None:
            continue
        if name in LEGACY:
            raise unsupported(f"The legacy parameter {name}")
        raise unsupported(f"The parameter {name}")


def constraint(value: str, path: str, rule: str) -> str:
    """DynamoDB's message for a parameter out of its bounds."""
    return f"1 validation error detected: Value {value} at '{path}' failed to satisfy constraint: {rule}"


def length(most: int) -> str:
    """The rule of a list or string of 1 to `most` elements."""
    return f"Member must have length less than or equal to {most}, Member must have length greater than or equal to 1"


def choice(request: Mapping[str, Any], name: str, allowed: Iterable[str], default: str) -> str:
    """An enumerated parameter."""
    value = request.get(name)
    if value is None:
        return default
    known = list(allowed)
    if value not in known:
        path = name[0].lower() + name[1:]
        raise validation(constraint(f"'{value}'", path, f"Member must satisfy enum value set: [{', '.join(known)}]"))
    return str(value)


def flag(request: Mapping[str, Any], name: str, *, default: bool) -> bool:
    """A boolean parameter."""
    value = request.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise serialization(f"Unexpected value type in payload: {name} takes true or false")
    return value


def count(request: Mapping[str, Any], name: str, *, least: int = 1, most: int | None = None) -> int | None:
    """A whole number of at least `least`, or None."""
    value = request.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise serialization(f"Unexpected value type in payload: {name} takes a whole number")
    path = name[0].lower() + name[1:]
    if value < least:
        rule = f"Member must have value greater than or equal to {least}"
        raise validation(constraint(f"'{value}'", path, rule))
    if most is not None and value > most:
        raise validation(constraint(f"'{value}'", path, f"Member must have value less than or equal to {most}"))
    return value


def objects(request: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """A list of objects; empty when absent."""
    value = request.get(name)
    if value is None:
        return []
    if not isinstance(value, list | tuple) or not all(isinstance(element, Mapping) for element in value):
        raise serialization(f"Unexpected value type in payload: {name} takes a list of objects")
    return list(value)


def mapping(request: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An object that must be there."""
    value = request.get(name)
    if value is None:
        raise validation(constraint("null", name[0].lower() + name[1:], "Member must not be null"))
    if not isinstance(value, Mapping):
        raise serialization(f"Unexpected value type in payload: {name} takes an object")
    return value
