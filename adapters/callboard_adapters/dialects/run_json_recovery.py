"""What an opencode-like CLI wrote and nobody received.

It is a Bun program: what is still in its hands when it exits is lost, with exit code 0. A line of 2 MB was seen to
arrive by a third. Everything it says is in its own database, so the rest is read from there, in pieces that are small
enough not to be lost in the same way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

PIECE = 200_000  # characters; up to four bytes each, and the pipe holds 1 MiB
_ID = re.compile(r"[A-Za-z]+_[A-Za-z0-9]+")
_EVENTS = {
    "step-start": "step_start",
    "text": "text",
    "reasoning": "reasoning",
    "tool": "tool_use",
    "step-finish": "step_finish",
}


def query(session_id: str, last_part: str, offset: int) -> list[str] | None:
    """The arguments that print the parts of the session after `last_part`, from character `offset` on; None when the
    ids are not of the known shape (they become part of an SQL text)."""
    if not _ID.fullmatch(session_id) or not _ID.fullmatch(last_part):
        return None
    parts = f"select data from part where session_id = '{session_id}' and id > '{last_part}' order by id"
    whole = f"select '[' || coalesce(group_concat(data, ','), '') || ']' as data from ({parts})"
    return ["db", f"select substr(data, {offset + 1}, {PIECE}) as piece from ({whole})", "--format", "json"]


def piece(output: str) -> str:
    """The answer to one query, "" when it is none."""
    try:
        rows = json.loads(output)
    except ValueError:
        return ""
    row = rows[0] if isinstance(rows, list) and rows else None
    said = row.get("piece") if isinstance(row, dict) else None
    return said if isinstance(said, str) else ""


def events(pieces: Iterable[str], session_id: str) -> list[bytes]:
    """The parts as the lines they would have been."""
    try:
        parts = json.loads("".join(pieces))
    except (ValueError, RecursionError):
        return []
    lines = []
    for part in parts if isinstance(parts, list) else ():
        kind = _EVENTS.get(str(part.get("type"))) if isinstance(part, dict) else None
        if kind is not None:
            event: dict[str, Any] = {"type": kind, "sessionID": session_id, "part": part}
            lines.append(json.dumps(event).encode())
    return lines
