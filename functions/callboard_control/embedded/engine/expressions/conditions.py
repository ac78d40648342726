"""Does an item satisfy a bound condition?"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from callboard_control.embedded.engine import values
from callboard_control.embedded.engine.expressions import syntax
from callboard_control.embedded.engine.expressions.syntax import Condition, Connective, Operand, PathElements, Test
from callboard_control.embedded.engine.values import SET_TYPES, Value

_ORDER: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def holds(condition: Condition, item: Mapping[str, Value]) -> bool:
    """Whether `item` (empty when there is none) satisfies the condition; no attribute it lacks is an error."""
    truths: list[bool] = []
    for step in condition:
        if not isinstance(step, Connective):
            truths.append(_test(step, item))
            continue
        joined = truths[-step.count :]
        del truths[-step.count :]
        if step.word == "NOT":
            truths.append(not joined[0])
        else:
            truths.append(all(joined) if step.word == "AND" else any(joined))
    return truths[0]


def _test(test: Test, item: Mapping[str, Value]) -> bool:
    match test:
        case syntax.Compare(sign, left, right):
            return _compare(sign, evaluate(left, item), evaluate(right, item))
        case syntax.Between(operand, low, high):
            value = evaluate(operand, item)
            return _compare(">=", value, evaluate(low, item)) and _compare("<=", value, evaluate(high, item))
        case syntax.In(operand, options):
            value = evaluate(operand, item)
            return value is not None and any(evaluate(option, item) == value for option in options)
        case syntax.Call(name, arguments):
            return _FUNCTIONS[name](*(evaluate(argument, item) for argument in arguments))


def evaluate(operand: Operand, item: Mapping[str, Value]) -> Value | None:
    """The value of an operand of a condition, None when the item has no such attribute."""
    match operand:
        case syntax.Path(elements):
            return lookup(item, elements)
        case syntax.Literal(_, value):
            return value
        case syntax.Call(_, arguments):
            return _size(evaluate(arguments[0], item))  # the only function that gives a value: checks.check_condition


def lookup(item: Mapping[str, Value], path: PathElements) -> Value | None:
    """The value at a document path, None when there is none."""
    current = item.get(str(path[0]))
    for element in path[1:]:
        if current is None:
            return None
        if isinstance(element, str):
            current = current.get("M", {}).get(element)
        else:
            elements = current.get("L", ())
            current = elements[element] if element < len(elements) else None
    return current


def _compare(sign: str, left: Value | None, right: Value | None) -> bool:
    if left is None or right is None:
        # Seen on DynamoDB: a missing attribute is not equal to anything, even to another missing one.
        return sign == "<>"
    if sign == "=":
        return left == right
    if sign == "<>":
        return left != right
    order = values.compare(left, right)
    return order is not None and _ORDER[sign](order, 0)


def _size(value: Value | None) -> Value | None:
    if value is None:
        return None
    letter, content = next(iter(value.items()))
    if letter == "S":
        # UTF-16 code units, not bytes and not characters: verified on AWS by others ("é𝄞" has size 3).
        return {"N": str(len(content) if content.isascii() else len(content.encode("utf-16-le")) // 2)}
    if letter == "B":
        return {"N": str(values.binary_size(content))}
    if letter in ("N", "BOOL", "NULL"):
        return None
    return {"N": str(len(content))}


def _exists(value: Value | None) -> bool:
    return value is not None


def _not_exists(value: Value | None) -> bool:
    return value is None


def _has_type(value: Value | None, type_name: Value | None) -> bool:
    return value is not None and type_name is not None and values.kind(value) == type_name["S"]


def _begins_with(value: Value | None, prefix: Value | None) -> bool:
    if value is None or prefix is None or values.kind(value) != values.kind(prefix):
        return False
    if "S" in value:
        return str(value["S"]).startswith(prefix["S"])
    return "B" in value and values.raw(value).startswith(values.raw(prefix))


def _contains(value: Value | None, part: Value | None) -> bool:
    if value is None or part is None:
        return False
    letter, content = next(iter(value.items()))
    if letter == "L":
        return part in content
    if letter in SET_TYPES:
        return part.get(SET_TYPES[letter]) in content
    if letter == "S":
        return "S" in part and part["S"] in content
    return letter == "B" and "B" in part and values.raw(part) in values.raw(value)


_FUNCTIONS: dict[str, Callable[..., bool]] = {
    "attribute_exists": _exists,
    "attribute_not_exists": _not_exists,
    "attribute_type": _has_type,
    "begins_with": _begins_with,
    "contains": _contains,
}
