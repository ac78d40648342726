"""How request bodies are read: JSON as RFC 8259 has it, within bounds that everything behind the door can hold.

Python's reader takes more than JSON (NaN, Infinity, 1e400) and fails in its own ways on what it cannot hold: a hundred
thousand brackets are a RecursionError, a number of five thousand digits is a ValueError. Both became a 500 on every
route, before the caller was even asked for a token. Half of a surrogate pair, which JSON spells and UTF-8 cannot, is
a text no answer can hold: an agent whose `mcp_config` had one made every claim of its runtime a 500.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NoReturn

MAX_DEPTH: Final = 200
"""Levels of lists and objects in a body. pydantic refuses to write more than 255, and an answer wraps what it shows."""


_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")
"""Whether a body may hold half of a surrogate pair at all: whole pairs are spelled so too."""


def read_json(text: str) -> Any:
    """The value of a body. Raises `json.JSONDecodeError`, and nothing else, for what is not JSON or goes too far."""
    value = _read(text)
    if _HALF.search(text) and _whole(value) is not value:
        raise _refused("a text holds half of a surrogate pair, which is no character")
    return value


def read_report(text: str) -> Any:
    """As `read_json`, of what a daemon says a run has said: CLIs that cut strings print half pairs, and a run must not
    lose its ending to one. A `?` stands for each."""
    value = _read(text)
    return _whole(value) if _HALF.search(text) else value


def _whole(value: Any) -> Any:
    """`value` itself when all of its texts are; else a copy with `?` for what is none."""
    written = json.dumps(value, ensure_ascii=False)
    try:
        written.encode()
    except UnicodeEncodeError:
        return json.loads(written.encode("utf-8", "replace"))
    return value


def _read(text: str) -> Any:
    try:
        value = json.loads(text, parse_constant=_no_json, parse_float=_number)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise _refused(f"lists and objects are nested more than {MAX_DEPTH} deep") from None
    except ValueError:  # int() of more than 4300 digits
        raise _refused("a number has too many digits") from None
    if text.count("[") + text.count("{") > MAX_DEPTH and _deeper(value, MAX_DEPTH):
        raise _refused(f"lists and objects are nested more than {MAX_DEPTH} deep")
    return value


def _no_json(constant: str) -> NoReturn:
    raise _refused(f"{constant} is not JSON")


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise _refused("a number is too large")
    return number


def _deeper(value: Any, limit: int) -> bool:
    """Whether `value` has more than `limit` levels; level by level, because a recursion is what it protects from."""
    level = [value]
    for _ in range(limit):
        level = [inner for one in level for inner in _inside(one)]
        if not level:
            return False
    return any(isinstance(one, dict | list) for one in level)


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [inner for inner in value.values() if isinstance(inner, dict | list)]
    return [inner for inner in value if isinstance(inner, dict | list)] if isinstance(value, list) else []


def _refused(why: str) -> json.JSONDecodeError:
    return json.JSONDecodeError(why, "", 0)
