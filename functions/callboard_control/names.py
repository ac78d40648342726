"""Names that people give: shown in lists, typed on command lines."""

from __future__ import annotations

import unicodedata
from typing import Final

from callboard_control.errors import InvalidRequest

_ODD: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def refuse_odd(name: str) -> None:
    """Nothing invisible and nothing that turns the line around. Raises `InvalidRequest` ``invalid_name``."""
    if any(unicodedata.category(c) in _ODD for c in name):
        raise InvalidRequest("A name has no control or direction characters.", code="invalid_name")


def plain(text: str) -> str:
    """What a machine calls itself, without what a person's name must not have: its host name is no reason to refuse
    it."""
    return "".join(" " if unicodedata.category(c) in _ODD else c for c in text).strip()
