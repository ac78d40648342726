"""An item + the bound actions of an update → the new item. All values are read before anything is changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from callboard_control.embedded.engine import number, values
from callboard_control.embedded.engine.errors import validation
from callboard_control.embedded.engine.expressions import syntax
from callboard_control.embedded.engine.expressions.conditions import lookup
from callboard_control.embedded.engine.expressions.syntax import Action, Arithmetic, Operand, Path
from callboard_control.embedded.engine.values import SET_TYPES, Item, Value

WRONG_TYPE = "An operand in the update expression has an incorrect data type"
NO_ATTRIBUTE = "The provided expression refers to an attribute that does not exist in the item"
BAD_PATH = "The document path provided in the update expression is invalid for update"


def creates(actions: Sequence[Action]) -> bool:
    """Whether the update makes an item where there is none: SET, ADD and an empty update do, REMOVE and DELETE alone
    do not.
    """
    return not actions or any(action.verb in ("SET", "ADD") for action in actions)


def apply(actions: Iterable[Action], item: Item, *, exists: bool) -> Item:
    """Return the updated copy of `item`, which is left alone; raises ValidationException as DynamoDB does.

    `exists` is false when there is no such item yet and `item` holds only its key: DynamoDB then overlooks a REMOVE
    of a path whose parent is missing.
    """
    assigned: list[tuple[Path, Value]] = []
    removed: list[Path] = []
    for action in actions:
        value = _outcome(action, item)
        if value is not None:
            assigned.append((action.path, value))
        else:
            removed.append(action.path)
    touched = {str(path.elements[0]) for path, _ in assigned} | {str(path.elements[0]) for path in removed}
    changed = {name: _copy(value) if name in touched else value for name, value in item.items()}
    # A list index beyond the end appends, lower indexes first. Removals come last and from the back, because indexes
    # mean positions in the old item.
    if any(len(path.elements) - 1 + values.depth_of(value) > values.MAX_DEPTH for path, value in assigned):
        raise values.too_deep()
    for path, value in sorted(assigned, key=lambda pair: _order(pair[0])):
        _put(changed, path, value)
    for path in sorted(removed, key=_order, reverse=True):
        _remove(changed, path, lenient=not exists)
    return changed


def _order(path: Path) -> tuple[tuple[int, str], ...]:
    return tuple((element, "") if isinstance(element, int) else (-1, element) for element in path.elements)


def _outcome(action: Action, item: Item) -> Value | None:
    """What the action leaves at its path; None when it leaves nothing."""
    if action.value is None:
        return None
    if action.verb == "SET":
        return _assigned(action.value, item)
    operand = _assigned(action.value, item)
    old = lookup(item, action.path.elements)
    return _added(old, operand) if action.verb == "ADD" else _deleted(old, operand)


def _assigned(node: Operand | Arithmetic, item: Item) -> Value:
    match node:
        case syntax.Literal(_, value) if value is not None:
            return value
        case syntax.Path(elements):
            found = lookup(item, elements)
            if found is None:
                raise validation(NO_ATTRIBUTE)
            return _copy(found)
        case syntax.Call("if_not_exists", (syntax.Path(elements), default)):
            existing = lookup(item, elements)
            return _assigned(default, item) if existing is None else _copy(existing)
        case syntax.Call("list_append", (left, right)):
            first, second = _assigned(left, item), _assigned(right, item)
            if "L" not in first or "L" not in second:
                raise validation(WRONG_TYPE)
            return {"L": [*first["L"], *second["L"]]}
        case syntax.Arithmetic(sign, left, right):
            first, second = _assigned(left, item), _assigned(right, item)
            if "N" not in first or "N" not in second:
                raise validation(WRONG_TYPE)
            combine = number.add if sign == "+" else number.subtract
            return {"N": combine(first["N"], second["N"])}
        case _:
            raise AssertionError(f"{node} cannot be assigned")


def _added(old: Value | None, operand: Value) -> Value:
    if old is None:
        return operand
    letter = values.kind(operand)
    if letter not in old:
        raise validation(WRONG_TYPE)
    if letter == "N":
        return {"N": number.add(old["N"], operand["N"])}
    return {letter: sorted({*old[letter], *operand[letter]}, key=values.set_order(letter))}


def _deleted(old: Value | None, operand: Value) -> Value | None:
    if old is None:
        return None
    letter = values.kind(operand)
    if letter not in old or letter not in SET_TYPES:
        raise validation(WRONG_TYPE)
    gone = set(operand[letter])
    left = [member for member in old[letter] if member not in gone]
    return {letter: left} if left else None


def _copy(value: Value) -> Value:
    """A copy whose maps and lists may be changed."""
    if "M" in value:
        return {"M": {name: _copy(element) for name, element in value["M"].items()}}
    if "L" in value:
        return {"L": [_copy(element) for element in value["L"]]}
    return value


def _parent(item: Item, path: Path) -> dict[str, Any] | list[Any] | None:
    """The map's dict or the list that holds the last element of `path`; None when there is no such thing."""
    if len(path.elements) == 1:
        return item
    holder = lookup(item, path.elements[:-1])
    if holder is None:
        return None
    return holder.get("L" if isinstance(path.elements[-1], int) else "M")


def _put(item: Item, path: Path, value: Value) -> None:
    parent = _parent(item, path)
    last = path.elements[-1]
    if isinstance(parent, list) and isinstance(last, int):
        if last < len(parent):
            parent[last] = value
        else:
            parent.append(value)
    elif isinstance(parent, dict) and isinstance(last, str):
        parent[last] = value
    else:
        raise validation(BAD_PATH)


def _remove(item: Item, path: Path, *, lenient: bool) -> None:
    parent = _parent(item, path)
    last = path.elements[-1]
    if isinstance(parent, list) and isinstance(last, int):
        if last < len(parent):
            del parent[last]
    elif isinstance(parent, dict) and isinstance(last, str):
        parent.pop(last, None)
    elif not lenient:
        raise validation(BAD_PATH)
