"""Changes to lines of JSON that leave them JSON: bytes flipped at random are noise to a parser, over and over."""

from __future__ import annotations

import json
import random
from typing import Any

_WILD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**53, 1e308, float("nan"), float("inf"), "", "x", "\ud800", "\x00", "s-1", "0"),
    *([], {}, [None], [[]], {"type": "text", "text": "x"}, {"type": None}, "completed", "failed", "error", "cancelled"),
)
_DEEP = 60


def mutate(data: bytes, seed: int, longest: int) -> bytes:
    """One to four changes to `data`, the same for the same `seed`."""
    dice = random.Random(seed)
    lines = data.split(b"\n")
    for _ in range(dice.randrange(1, 5)):
        _change(lines, dice)
    return b"\n".join(lines)[:longest]


def _change(lines: list[bytes], dice: random.Random) -> None:
    at = dice.randrange(len(lines))
    kind = dice.randrange(10)
    if kind == 0:
        lines.insert(dice.randrange(len(lines) + 1), lines[at])
    elif kind == 1 and len(lines) > 1:
        del lines[at]
    elif kind == 2:
        other = dice.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == 3:
        lines[at] = lines[at][: dice.randrange(len(lines[at]) + 1)]
    else:
        lines[at] = _inside(lines[at], lines[dice.randrange(len(lines))], dice)


def _inside(line: bytes, other: bytes, dice: random.Random) -> bytes:
    """`line` with one value changed, renamed, removed, or taken from `other`."""
    try:
        value, donor = json.loads(line), json.loads(other)
    except (ValueError, RecursionError):
        return line
    places = list(_places(value))
    if not places:
        return line
    parent, key = dice.choice(places)
    kind = dice.randrange(5)
    if kind == 0:
        parent[key] = dice.choice(_WILD)
    elif kind == 1:
        theirs = list(_places(donor))
        parent[key] = (lambda place: place[0][place[1]])(dice.choice(theirs)) if theirs else None
    elif kind == 2:
        parent[key] = [parent[key]] if dice.random() < 0.5 else {"x": parent[key]}
    elif kind == 3 and isinstance(parent, dict):
        parent[f"{key}2"] = parent.pop(key)
    else:
        del parent[key]
    return json.dumps(value, separators=(",", ":")).encode()


def _places(value: Any, depth: int = 0) -> Any:
    if depth > _DEEP:
        return
    inside = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    for key, one in inside:
        yield value, key
        yield from _places(one, depth + 1)
