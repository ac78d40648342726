"""How much fits into an answer. A function's answer ends at 6 MiB, and it is JSON in a string of JSON with every
character beyond ASCII escaped: a line break takes three bytes there, a quote four, a Cyrillic letter seven of its two.
So what goes into an answer is measured by what it takes there. An answer that is too large is none at all: the caller
gets an error, and again each time it asks.
"""

from __future__ import annotations

import json
from typing import Any, Final

ANSWER_BYTES: Final = 5_900_000
"""6 MiB less what is around a body."""
PROMPT_BYTES: Final = 3_400_000
"""What there is always room for of a prompt with the wishes that joined it: what else a claim tells (an agent and a
workspace, of which each is one item, and the agent's environment) takes 2.4 MB at most."""
_PIECE: Final = 4096
_MOST: Final = 14
"""Bytes a character takes at most: one beyond the first 65 536 is two escapes of seven."""


def cost(value: Any) -> int:
    """Bytes of `value` (a text, or what JSON can say) in an answer."""
    return len(json.dumps(json.dumps(value)))


def fitted(text: str, room: int) -> str:
    """`text`, or as much of its beginning as takes no more than `room` bytes of an answer, and a note of the cut."""
    if _MOST * len(text) <= room or cost(text) <= room:
        return text
    kept, taken = 0, 100  # for the note
    while taken < room:
        taken += cost(text[kept : kept + _PIECE])
        kept += _PIECE
    return f"{text[: kept - _PIECE]}\n… [cut: {len(text)} characters in all]"
