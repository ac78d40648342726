"""Binding: a parsed expression + the request's names and values → a tree that can be evaluated.

One `Scope` serves all expressions of one request (or one action of a transaction), because a name or value that none
of them uses is an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from callboard_control.embedded.engine import values
from callboard_control.embedded.engine.errors import EngineError, serialization, validation
from callboard_control.embedded.engine.expressions import checks, parser, reader, syntax
from callboard_control.embedded.engine.expressions.lexer import invalid
from callboard_control.embedded.engine.expressions.syntax import Arithmetic, Condition, Connective, Operand, Path, Test
from callboard_control.embedded.engine.values import Value

EXPRESSIONS = (
    "ConditionExpression",
    "FilterExpression",
    "KeyConditionExpression",
    "ProjectionExpression",
    "UpdateExpression",
)
_MAX_SUBSTITUTION_BYTES = 2 * 1024 * 1024
_REFERENCE = re.compile(r"[#:][A-Za-z0-9_]+", re.ASCII)


class Scope:
    """The names and values of one request; `size` is the values' in bytes.

    `finish` must be called after the last expression was bound.
    """

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._params = params
        self._names = _checked_names(params)
        self._values = _checked_values(params)
        self._used: set[str] = set()
        self.size = sum(values.size(value) for value in self._values.values())

    def condition(self, kind: str = "ConditionExpression") -> Condition | None:
        """The bound condition given as parameter `kind`, or None."""
        text = self._text(kind)
        if text is None:
            return None
        condition = tuple(self._bind_step(kind, step) for step in parser.parse_condition(kind, text))
        checks.check_condition(kind, condition)
        return condition

    def update(self) -> tuple[syntax.Action, ...]:
        """The bound actions of the UpdateExpression; none when there is no such parameter."""
        kind = "UpdateExpression"
        text = self._text(kind)
        if text is None:
            return ()
        actions = tuple(
            syntax.Action(
                action.verb,
                self._bind_path(kind, action.path),
                None if action.value is None else self._bind_value(kind, action.value),
            )
            for action in parser.parse_update(kind, text)
        )
        checks.check_update(kind, actions)
        return actions

    def projection(self) -> tuple[Path, ...] | None:
        """The bound paths of the ProjectionExpression, or None."""
        kind = "ProjectionExpression"
        text = self._text(kind)
        if text is None:
            return None
        paths = tuple(self._bind_path(kind, path) for path in parser.parse_projection(kind, text))
        checks.check_overlap(kind, paths)
        return paths

    def finish(self) -> None:
        """Refuse names and values that no expression used."""
        for parameter, given in (
            ("ExpressionAttributeNames", self._names),
            ("ExpressionAttributeValues", self._values),
        ):
            unused = [key for key in given if key not in self._used]
            if unused:
                raise validation(f"Value provided in {parameter} unused in expressions: keys: {{{', '.join(unused)}}}")

    def _text(self, kind: str) -> str | None:
        text = self._params.get(kind)
        if text is None:
            return None
        if not isinstance(text, str):
            raise serialization(f"Unexpected value type in payload: {kind} takes a string")
        values.utf8(text)
        return text

    def _bind_step(self, kind: str, step: Test | Connective) -> Test | Connective:
        match step:
            case syntax.Connective():
                return step
            case syntax.Compare(operator, left, right):
                return syntax.Compare(operator, self._bind(kind, left), self._bind(kind, right))
            case syntax.Between(operand, low, high):
                return syntax.Between(self._bind(kind, operand), self._bind(kind, low), self._bind(kind, high))
            case syntax.In(operand, options):
                return syntax.In(self._bind(kind, operand), tuple(self._bind(kind, option) for option in options))
            case syntax.Call(name, arguments):
                return syntax.Call(name, tuple(self._bind(kind, argument) for argument in arguments))

    def _bind_value(self, kind: str, value: Operand | Arithmetic) -> Operand | Arithmetic:
        if isinstance(value, Arithmetic):
            return Arithmetic(value.operator, self._bind(kind, value.left), self._bind(kind, value.right))
        return self._bind(kind, value)

    def _bind(self, kind: str, operand: Operand) -> Operand:
        match operand:
            case syntax.Path():
                return self._bind_path(kind, operand)
            case syntax.Literal(name):
                return syntax.Literal(name, self._value(kind, name))
            case syntax.Call(name, arguments):
                return syntax.Call(name, tuple(self._bind(kind, argument) for argument in arguments))

    def _bind_path(self, kind: str, path: Path) -> Path:
        return Path(
            tuple(
                self._name(kind, element) if isinstance(element, str) and element[0] == "#" else element
                for element in path.elements
            )
        )

    def _name(self, kind: str, reference: str) -> str:
        try:
            name = self._names[reference]
        except KeyError:
            problem = "An expression attribute name used in the document path is not defined; attribute name: "
            raise invalid(kind, problem + reference) from None
        self._used.add(reference)
        return name

    def _value(self, kind: str, reference: str) -> Value:
        try:
            value = self._values[reference]
        except KeyError:
            problem = "An expression attribute value used in expression is not defined; attribute value: "
            raise invalid(kind, problem + reference) from None
        self._used.add(reference)
        return value


def _substitutions(params: Mapping[str, Any], parameter: str, sigil: str) -> Mapping[str, Any]:
    given = params.get(parameter)
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise serialization(f"Unexpected value type in payload: {parameter} takes an object")
    if not any(params.get(kind) is not None for kind in EXPRESSIONS):
        raise validation(f"{parameter} can only be specified when using expressions")
    if not given:
        raise validation(f"{parameter} must not be empty")
    for key in given:
        if (
            not isinstance(key, str)
            or key[:1] != sigil
            or not _REFERENCE.fullmatch(key)
            or len(key) > reader.MAX_REFERENCE
        ):
            raise validation(f'{parameter} contains invalid key: Syntax error; key: "{key}"')
    return given


def _checked_names(params: Mapping[str, Any]) -> dict[str, str]:
    parameter = "ExpressionAttributeNames"
    names: dict[str, str] = {}
    total = 0
    for key, name in _substitutions(params, parameter, "#").items():
        if not isinstance(name, str):
            raise serialization(f"Unexpected value type in payload: {parameter} takes strings")
        length = len(values.utf8(name))
        if not 0 < length <= values.MAX_NAME_BYTES:
            allowed = f"an attribute name has 1 to {values.MAX_NAME_BYTES} bytes"
            raise validation(f"{parameter} contains invalid value: {allowed}; key: {key}")
        total += length
        names[key] = name
    _check_total(parameter, total)
    return names


def _checked_values(params: Mapping[str, Any]) -> dict[str, Value]:
    parameter = "ExpressionAttributeValues"
    bound: dict[str, Value] = {}
    total = 0
    for key, value in _substitutions(params, parameter, ":").items():
        try:
            bound[key] = values.checked(value)
        except EngineError as error:
            if error.code != "ValidationException":
                raise
            raise validation(f"{parameter} contains invalid value: {error.message} for key {key}") from None
        total += values.size(bound[key])
    _check_total(parameter, total)
    return bound


def _check_total(parameter: str, total: int) -> None:
    if total > _MAX_SUBSTITUTION_BYTES:
        raise validation(f"{parameter} exceeds max size: {total} bytes, the most is {_MAX_SUBSTITUTION_BYTES}")
