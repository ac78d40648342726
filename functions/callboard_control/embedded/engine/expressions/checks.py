"""What DynamoDB refuses in an expression before it looks at any item: operand types, operand counts, equal operands,
overlapping paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from callboard_control.embedded.engine import values
from callboard_control.embedded.engine.errors import EngineError
from callboard_control.embedded.engine.expressions import condition_parser, syntax
from callboard_control.embedded.engine.expressions.lexer import invalid
from callboard_control.embedded.engine.expressions.syntax import Arithmetic, Condition, Literal, Operand, Path

_UPDATE_OPERANDS = {"if_not_exists": 2, "list_append": 2}
_ORDERED = ("S", "N", "B")
_TYPE_WORDS = {
    "S": "STRING",
    "N": "NUMBER",
    "B": "BINARY",
    "NULL": "NULL",
    "BOOL": "BOOLEAN",
    "L": "LIST",
    "M": "MAP",
}


def check_condition(kind: str, condition: Condition) -> None:
    """Raise ValidationException if the bound condition is wrong whatever the item."""
    for step in condition:
        match step:
            case syntax.Compare(operator, left, right):
                _check_operands(kind, (left, right))
                _check_distinct(kind, operator, left, right)
                if operator not in ("=", "<>"):
                    _check_ordered(kind, operator, (left, right))
            case syntax.Between(operand, low, high):
                _check_operands(kind, (operand, low, high))
                _check_ordered(kind, "BETWEEN", (operand, low, high))
                _check_bounds(kind, low, high)
            case syntax.In(operand, options):
                _check_operands(kind, (operand, *options))
            case syntax.Call():
                _check_condition_call(kind, step)
            case syntax.Connective():
                pass


def _check_operands(kind: str, operands: Iterable[Operand]) -> None:
    for operand in operands:
        if isinstance(operand, syntax.Call):
            _check_condition_call(kind, operand)


def _check_condition_call(kind: str, call: syntax.Call) -> None:
    if call.name in _UPDATE_OPERANDS:
        raise invalid(kind, f"The function is not allowed in a condition expression; function: {call.name}")
    _check_count(kind, call, condition_parser.FUNCTIONS)
    for argument in call.arguments:
        if isinstance(argument, syntax.Call):
            raise _misused(kind, argument.name)
    first, second = call.arguments[0], call.arguments[-1]
    if call.name.endswith("_exists"):
        _check_path(kind, call.name, first)
        return
    if call.name == "size":
        _check_literal_type(kind, call.name, first, allowed=("S", "B", "SS", "NS", "BS", "L", "M"))
        return
    _check_distinct(kind, call.name, first, second)
    if call.name == "begins_with":
        _check_literal_type(kind, call.name, first, allowed=("S", "B"))
        _check_literal_type(kind, call.name, second, allowed=("S", "B"))
    if call.name == "attribute_type":
        _check_type_name(kind, second)


def _check_count(kind: str, call: syntax.Call, known: dict[str, int]) -> None:
    expected = known.get(call.name)
    if expected is None:
        raise invalid(kind, f"Invalid function name; function: {call.name}")
    if len(call.arguments) != expected:
        raise invalid(
            kind,
            "Incorrect number of operands for operator or function; "
            f"operator or function: {call.name}, number of operands: {len(call.arguments)}",
        )


def _check_path(kind: str, name: str, argument: Operand) -> None:
    if not isinstance(argument, Path):
        raise invalid(kind, f"Operator or function requires a document path; operator or function: {name}")


def _check_literal_type(kind: str, name: str, operand: Operand, *, allowed: Sequence[str]) -> None:
    letter = _literal_type(operand)
    if letter is not None and letter not in allowed:
        raise _wrong_type(kind, name, letter)


def _literal_type(operand: Operand | Arithmetic) -> str | None:
    if isinstance(operand, Literal) and operand.value is not None:
        return values.kind(operand.value)
    return None


def _wrong_type(kind: str, name: str, letter: str) -> EngineError:
    return invalid(
        kind,
        f"Incorrect operand type for operator or function; operator or function: {name}, operand type: {letter}",
    )


def _misused(kind: str, name: str) -> EngineError:
    if name not in condition_parser.FUNCTIONS and name not in _UPDATE_OPERANDS:
        return invalid(kind, f"Invalid function name; function: {name}")
    return invalid(kind, f"The function is not allowed to be used this way in an expression; function: {name}")


def _check_type_name(kind: str, operand: Operand) -> None:
    letter = _literal_type(operand)
    if letter != "S" or not isinstance(operand, Literal) or operand.value is None:
        raise _wrong_type(kind, "attribute_type", letter or "{NS,SS,L,BS,N,M,B,BOOL,NULL,S}")
    name = operand.value["S"]
    if name not in values.TYPES:
        raise invalid(
            kind, f"Invalid attribute type name found; type: {name}, valid types: {{B,NULL,SS,BOOL,L,BS,N,NS,S,M}}"
        )


def _check_ordered(kind: str, operator: str, operands: Iterable[Operand]) -> None:
    for operand in operands:
        _check_literal_type(kind, operator, operand, allowed=_ORDERED)


def _check_distinct(kind: str, operator: str, left: Operand, right: Operand) -> None:
    if isinstance(left, Path) and left == right:
        raise invalid(
            kind,
            "The first operand must be distinct from the remaining operands for this operator or function; "
            f"operator: {operator}, first operand: {left}",
        )


def _check_bounds(kind: str, low: Operand, high: Operand) -> None:
    if not isinstance(low, Literal) or not isinstance(high, Literal) or low.value is None or high.value is None:
        return
    bounds = f"lower bound operand: {_shown(low.value)}, upper bound operand: {_shown(high.value)}"
    order = values.compare(low.value, high.value)
    if order is None:
        raise invalid(kind, f"The BETWEEN operator requires same data type for lower and upper bounds; {bounds}")
    if order > 0:
        problem = "The BETWEEN operator requires upper bound to be greater than or equal to lower bound; "
        raise invalid(kind, problem + bounds)


def _shown(value: values.Value) -> str:
    letter, content = next(iter(value.items()))
    return f"AttributeValue: {{{letter}:{content}}}"


def check_update(kind: str, actions: Sequence[syntax.Action]) -> None:
    """Raise ValidationException if the bound update is wrong whatever the item."""
    for action in actions:
        if action.verb == "SET" and action.value is not None:
            _check_assigned(kind, action.value)
        elif action.value is not None:
            letter = _literal_type(action.value)
            allowed = values.SET_TYPES if action.verb == "DELETE" else ("N", *values.SET_TYPES)
            if letter is not None and letter not in allowed:
                raise invalid(
                    kind,
                    f"Incorrect operand type for operator or function; operator: {action.verb}, "
                    f"operand type: {_TYPE_WORDS[letter]}, typeSet: ALLOWED_FOR_{action.verb}_OPERAND",
                )
    check_overlap(kind, [action.path for action in actions])


def _check_assigned(kind: str, value: Operand | Arithmetic) -> None:
    if isinstance(value, Arithmetic):
        for operand in (value.left, value.right):
            _check_literal_type(kind, value.operator, operand, allowed=("N",))
            _check_assigned(kind, operand)
    elif isinstance(value, syntax.Call):
        _check_update_call(kind, value)


def _check_update_call(kind: str, call: syntax.Call) -> None:
    if call.name in condition_parser.FUNCTIONS:
        raise invalid(kind, f"The function is not allowed in an update expression; function: {call.name}")
    _check_count(kind, call, _UPDATE_OPERANDS)
    if call.name == "if_not_exists":
        _check_path(kind, call.name, call.arguments[0])
    for argument in call.arguments:
        if isinstance(argument, syntax.Call) and argument.name == "list_append":
            # Seen on DynamoDB: if_not_exists nests, list_append does not.
            raise _misused(kind, argument.name)
        if call.name == "list_append":
            _check_literal_type(kind, call.name, argument, allowed=("L",))
        _check_assigned(kind, argument)


def check_overlap(kind: str, paths: Sequence[Path]) -> None:
    """Refuse two paths of which one is, or is inside, the other, or which take the same value for map and for list."""
    by_head: dict[str | int, list[Path]] = {}
    for path in paths:
        for other in by_head.setdefault(path.elements[0], []):
            _check_pair(kind, other, path)
        by_head[path.elements[0]].append(path)


def _check_pair(kind: str, one: Path, two: Path) -> None:
    advice = f"must remove or rewrite one of these paths; path one: {one}, path two: {two}"
    for left, right in zip(one.elements, two.elements, strict=False):
        if isinstance(left, int) != isinstance(right, int):
            raise invalid(kind, f"Two document paths conflict with each other; {advice}")
        if left != right:
            return
    raise invalid(kind, f"Two document paths overlap with each other; {advice}")
