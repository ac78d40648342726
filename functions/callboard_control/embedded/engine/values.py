"""Typed values: checking what came in, comparing, measuring.

A value keeps DynamoDB's JSON form, ``{"S": "text"}``, everywhere: in memory and in the file. `checked` makes it
canonical (numbers normalised, sets sorted, binary re-encoded), so equality of values is equality of dicts.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from callboard_control.embedded.engine import number
from callboard_control.embedded.engine.errors import EngineError, bad_value, serialization, validation

Value = dict[str, Any]
Item = dict[str, Value]

TYPES = ("S", "N", "B", "SS", "NS", "BS", "BOOL", "NULL", "L", "M")
SET_TYPES = {"SS": "S", "NS": "N", "BS": "B"}
MAX_DEPTH = 32  # the attribute itself is the first level
MAX_ITEM_BYTES = 400 * 1024
MAX_NAME_BYTES = 65535
_EMPTY_SET = {
    "SS": "An string set  may not be empty",
    "NS": "An number set  may not be empty",
    "BS": "Binary sets should not be empty",
}


def kind(value: Value) -> str:
    """The type letter(s) of a checked value."""
    return next(iter(value))


def utf8(text: str) -> bytes:
    """The UTF-8 bytes of `text`; a lone surrogate is no text and is refused."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise serialization("Invalid UTF-8 text in payload") from None


def raw(value: Value) -> bytes:
    """The bytes of a checked B value."""
    return base64.b64decode(value["B"])


def checked(value: Any, depth: int = 0) -> Value:
    """Return the canonical form of an attribute value as sent; raises Validation- or SerializationException."""
    if not isinstance(value, Mapping):
        raise serialization("Unexpected value type in payload: an attribute value must be an object")
    if len(value) != 1:
        state = "is empty" if not value else "has more than one datatypes set"
        raise validation(f"Supplied AttributeValue {state}, must contain exactly one of the supported datatypes")
    letter, content = next(iter(value.items()))
    checker = _CHECKERS.get(letter)
    if checker is None:
        raise validation("Supplied AttributeValue is empty, must contain exactly one of the supported datatypes")
    return {letter: checker(content, depth)}


def checked_item(item: Any) -> Item:
    """Return the canonical form of a whole item (attribute names to values)."""
    if not isinstance(item, Mapping):
        raise serialization("Unexpected value type in payload: an item must be an object")
    return {_checked_name(name): checked(value) for name, value in item.items()}


def _checked_name(name: Any) -> str:
    if not isinstance(name, str):
        raise serialization("Unexpected value type in payload: an attribute name must be a string")
    if (not name.isascii() or len(name) > MAX_NAME_BYTES) and len(utf8(name)) > MAX_NAME_BYTES:
        raise validation(f"Attribute name is too large, must be less than {MAX_NAME_BYTES + 1} bytes")
    if not name:
        raise validation("Attribute name must not be empty")
    return name


def _text(content: Any, _depth: int = 0) -> str:
    if not isinstance(content, str):
        raise serialization("Unexpected value type in payload: S takes a string")
    if not content.isascii():
        utf8(content)
    return content


def _number(content: Any, _depth: int = 0) -> str:
    if not isinstance(content, str):
        raise serialization("Unexpected value type in payload: N takes a number written as a string")
    return number.normalise(content)


def _binary(content: Any, _depth: int = 0) -> str:
    if not isinstance(content, str):
        raise serialization("Unexpected value type in payload: B takes a base64 string")
    try:
        return base64.b64encode(base64.b64decode(content, validate=True)).decode()
    except (binascii.Error, ValueError):
        raise serialization("Base64 encoded string is not valid") from None


def _boolean(content: Any, _depth: int) -> bool:
    if not isinstance(content, bool):
        raise serialization("Unexpected value type in payload: BOOL takes true or false")
    return content


def _null(content: Any, _depth: int) -> bool:
    if content is not True:
        raise bad_value("Null attribute value types must have the value of true")
    return True


def _list(content: Any, depth: int) -> list[Value]:
    if not isinstance(content, list | tuple):
        raise serialization("Unexpected value type in payload: L takes a list")
    _check_depth(depth)
    return [checked(element, depth + 1) for element in content]


def _map(content: Any, depth: int) -> Item:
    if not isinstance(content, Mapping):
        raise serialization("Unexpected value type in payload: M takes an object")
    _check_depth(depth)
    return {_checked_name(name): checked(element, depth + 1) for name, element in content.items()}


def _check_depth(depth: int) -> None:
    if depth + 1 >= MAX_DEPTH:
        raise too_deep()


def too_deep() -> EngineError:
    """The 32 levels a document may have."""
    return validation(
        "Nesting Levels have exceeded supported limits: "
        "Attributes in the item have nested levels beyond supported limit"
    )


def depth_of(value: Value) -> int:
    """Levels of a checked value: 1 for a scalar, one more for each map or list around it."""
    if "M" in value:
        return 1 + max(map(depth_of, value["M"].values()), default=1)
    if "L" in value:
        return 1 + max(map(depth_of, value["L"]), default=1)
    return 1


def _set_of(letter: str, element: Callable[[Any], str], order: Callable[[str], Any]) -> Callable[[Any, int], list[str]]:
    def check(content: Any, _depth: int) -> list[str]:
        if not isinstance(content, list | tuple):
            raise serialization(f"Unexpected value type in payload: {letter} takes a list")
        if not content:
            raise bad_value(_EMPTY_SET[letter])
        members = sorted((element(member) for member in content), key=order)
        if any(left == right for left, right in pairwise(members)):
            raise bad_value(_duplicates(letter, content))
        return members

    return check


def _duplicates(letter: str, content: Any) -> str:
    if letter == "NS":
        return "Input collection contains duplicates."
    shown = ", ".join(str(member) for member in content)
    return f"Input collection [{shown}]{'of type BS' if letter == 'BS' else ''} contains duplicates."


def set_order(letter: str) -> Callable[[str], Any]:
    """The sort key of the members of a set of type `letter`."""
    orders: dict[str, Callable[[str], Any]] = {"SS": utf8, "NS": number.sort_key, "BS": base64.b64decode}
    return orders[letter]


_CHECKERS: dict[str, Callable[[Any, int], Any]] = {
    "S": _text,
    "N": _number,
    "B": _binary,
    "BOOL": _boolean,
    "NULL": _null,
    "L": _list,
    "M": _map,
    "SS": _set_of("SS", _text, set_order("SS")),
    "NS": _set_of("NS", _number, set_order("NS")),
    "BS": _set_of("BS", _binary, set_order("BS")),
}


def compare(left: Value, right: Value) -> int | None:
    """-1, 0 or 1 for two values of one ordered type (S by UTF-8 bytes, N by number, B by bytes), otherwise None."""
    letter = kind(left)
    if letter != kind(right) or letter not in ("S", "N", "B"):
        return None
    if left == right:
        return 0
    if letter == "N":
        return -1 if number.less(left["N"], right["N"]) else 1
    if letter == "S":
        # Code point order is UTF-8 byte order, so no encoding is needed.
        return -1 if left["S"] < right["S"] else 1
    return -1 if raw(left) < raw(right) else 1


def text_size(text: str) -> int:
    """Bytes of `text` in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def binary_size(base64_text: str) -> int:
    """How many bytes canonical base64 stands for."""
    return len(base64_text) // 4 * 3 - base64_text[-2:].count("=")


def size(value: Value) -> int:
    """Stored size of a value in bytes, by the developer guide's rules ("DynamoDB item sizes and formats")."""
    letter, content = next(iter(value.items()))
    if letter == "S":
        return text_size(content)
    if letter == "N":
        return number.size(content)
    if letter == "B":
        return binary_size(content)
    if letter in ("BOOL", "NULL"):
        return 1
    if letter == "L":
        return 3 + sum(1 + size(element) for element in content)
    if letter == "M":
        return 3 + sum(1 + text_size(name) + size(element) for name, element in content.items())
    return sum(size({SET_TYPES[letter]: member}) for member in content)


def item_size(item: Mapping[str, Value]) -> int:
    """Stored size of an item in bytes: names and values."""
    return sum(text_size(name) + size(value) for name, value in item.items())
