"""A bound key condition → the range of keys to read, and that range → SQL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from callboard_control.embedded.engine import keys, values
from callboard_control.embedded.engine.errors import bad_value, empty_key, validation
from callboard_control.embedded.engine.expressions import syntax
from callboard_control.embedded.engine.expressions.lexer import invalid
from callboard_control.embedded.engine.expressions.syntax import Condition, Literal, Operand, Path
from callboard_control.embedded.engine.schema import KeyPart

_KIND = "KeyConditionExpression"
_Term = syntax.Compare | syntax.Between | syntax.Call
_MIRRORED = {"=": "=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range of range keys."""

    key: bytes
    included: bool


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Rows under one hash key whose range key lies between `low` and `high` (None: open)."""

    hash: bytes
    low: Bound | None = None
    high: Bound | None = None

    def holds(self, range_key: bytes) -> bool:
        """Whether a range key is inside."""
        if self.low is not None and (range_key < self.low.key or (range_key == self.low.key and not self.low.included)):
            return False
        if self.high is None:
            return True
        return range_key < self.high.key or (range_key == self.high.key and self.high.included)


def key_range(condition: Condition, hash_part: KeyPart, range_part: KeyPart | None) -> KeyRange:
    """The range a key condition names: an equality on the hash key and at most one condition on the range key."""
    conditions: dict[str, _Term] = {}
    for term in _terms(condition):
        name = _attribute(term)
        if name in conditions:
            raise invalid(_KIND, "KeyConditionExpressions must only contain one condition per key")
        conditions[name] = term
    most = 1 if range_part is None else 2
    if len(conditions) > most:
        raise validation(
            f"The number of query conditions ({len(conditions)}) exceeds the number of key attributes defined in the "
            f"schema ({most})"
        )
    if hash_part.name not in conditions:
        raise validation(f"Query condition missed key schema element: {hash_part.name}")
    hash_condition = conditions.pop(hash_part.name)
    if not isinstance(hash_condition, syntax.Compare) or hash_condition.operator != "=":
        raise validation("Query key condition not supported")
    hash_key = _encoded(hash_part, _literals(hash_condition)[0])
    if not conditions:
        return KeyRange(hash_key)
    if range_part is None or range_part.name not in conditions:
        missed = hash_part.name if range_part is None else range_part.name
        raise validation(f"Query condition missed key schema element: {missed}")
    low, high = _bounds(range_part, conditions[range_part.name])
    return KeyRange(hash_key, low, high)


def _terms(condition: Condition) -> Iterator[_Term]:
    """The tests that are joined by AND; everything else is refused by the name of its operator."""
    for step in condition:
        match step:
            case syntax.Connective("AND"):
                continue
            case syntax.Compare(operator) if operator != "<>":
                yield step
            case syntax.Between() | syntax.Call("begins_with"):
                yield step
            case _:
                raise validation(f"Invalid operator used in {_KIND}: {_operator(step)}")


def _operator(step: syntax.Test | syntax.Connective) -> str:
    match step:
        case syntax.Connective(word):
            return word
        case syntax.Compare(operator):
            return operator
        case syntax.Call(name):
            return name
        case _:
            return "IN"


def _operands(term: _Term) -> tuple[Operand, ...]:
    match term:
        case syntax.Compare(_, left, right):
            return left, right
        case syntax.Between(operand, low, high):
            return operand, low, high
        case syntax.Call(_, arguments):
            return arguments


def _attribute(term: _Term) -> str:
    operands = _operands(term)
    if any(isinstance(operand, syntax.Call) for operand in operands):
        raise validation(f"{_KIND}s cannot contain nested operations")
    paths = [operand for operand in operands if isinstance(operand, Path)]
    if not paths:
        raise validation(f"Invalid condition in {_KIND}: No key attribute specified")
    if len(paths) > 1:
        raise validation(f"Invalid condition in {_KIND}: Multiple attribute names used in one condition")
    if len(paths[0].elements) > 1:
        raise validation(f"{_KIND}s cannot have conditions on nested attributes")
    if not isinstance(operands[0], Path) and not isinstance(term, syntax.Compare):
        raise validation(f"Invalid condition in {_KIND}: the key attribute must be the first operand")
    return str(paths[0].elements[0])


def _literals(term: _Term) -> list[values.Value]:
    found = [operand.value for operand in _operands(term) if isinstance(operand, Literal)]
    return [value for value in found if value is not None]


def _encoded(part: KeyPart, value: values.Value) -> bytes:
    if part.type not in value:
        raise bad_value("Condition parameter type does not match schema type")
    if part.type != "N" and not value[part.type]:
        raise empty_key("string" if part.type == "S" else "binary", f"Key: {part.name}")
    return keys.encode(value)


def _bounds(part: KeyPart, term: _Term) -> tuple[Bound | None, Bound | None]:
    encoded = [_encoded(part, value) for value in _literals(term)]
    if isinstance(term, syntax.Between):
        return Bound(encoded[0], True), Bound(encoded[1], True)
    if isinstance(term, syntax.Call):
        if part.type == "N":
            problem = (
                "Incorrect operand type for operator or function; operator or function: begins_with, operand type: N"
            )
            raise invalid(_KIND, problem)
        return Bound(encoded[0], True), _after_prefix(encoded[0])
    operator = term.operator if isinstance(term.left, Path) else _MIRRORED[term.operator]
    bound = Bound(encoded[0], operator in ("=", "<=", ">="))
    return (bound if operator in ("=", ">", ">=") else None), (bound if operator in ("=", "<", "<=") else None)


def _after_prefix(prefix: bytes) -> Bound | None:
    """The first key after all keys that begin with `prefix`."""
    trimmed = prefix.rstrip(b"\xff")
    return Bound(trimmed[:-1] + bytes((trimmed[-1] + 1,)), False) if trimmed else None


def where(
    wanted: KeyRange,
    hash_column: str,
    range_column: str,
    tie_columns: str,
    start: tuple[bytes, ...] | None,
    *,
    forward: bool,
) -> tuple[str, list[Any]]:
    """The WHERE clause that walks `wanted` in key order, after `start` (the last row of the page before).

    `start` replaces the bound on its side, so that a page costs what it returns and not its distance from the
    beginning. `tie_columns` are the table's key columns in an index, "" in a table.
    """
    clauses, arguments = [f"{hash_column} = ?"], [wanted.hash]
    low, high = wanted.low, wanted.high
    if start is not None:
        columns = f"({range_column}, {tie_columns})" if tie_columns else f"({range_column})"
        marks = ", ".join("?" * len(start))
        clauses.append(f"{columns} {'>' if forward else '<'} ({marks})")
        arguments.extend(start)
        low, high = (None, high) if forward else (low, None)
    if low is not None:
        clauses.append(f"{range_column} {'>=' if low.included else '>'} ?")
        arguments.append(low.key)
    if high is not None:
        clauses.append(f"{range_column} {'<=' if high.included else '<'} ?")
        arguments.append(high.key)
    return " AND ".join(clauses), arguments
