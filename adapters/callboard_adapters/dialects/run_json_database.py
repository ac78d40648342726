"""What an opencode-like CLI keeps in its database and does not print: asked with its own `db` command.

The ids and numbers that go into the SQL text are checked or made by us. A version without the command prints its help,
which is no answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

ID = re.compile(r"[A-Za-z]+_[A-Za-z0-9]+")
_SETTLED = 5  # seconds after which a part that was not printed never will be


def sub_agents(session_id: str, since: float) -> list[str] | None:
    """The arguments that list the steps of a session's sub-agents, and of theirs, since a moment (unix seconds).

    The stream shows a sub-agent as one tool call: what its own calls cost stands here alone. None for an odd id.
    """
    if not ID.fullmatch(session_id):
        return None
    tree = (
        f"with recursive tree(id) as (select id from session where parent_id = '{session_id}' "
        "union select session.id from session join tree on session.parent_id = tree.id)"
    )
    columns = (
        "json_extract(message.data, '$.providerID') || '/' || json_extract(message.data, '$.modelID') as model, "
        "json_extract(part.data, '$.tokens') as tokens, json_extract(part.data, '$.cost') as cost"
    )
    joined = "part join tree on part.session_id = tree.id join message on message.id = part.message_id"
    wanted = f"json_extract(part.data, '$.type') = 'step-finish' and part.time_created >= {int(since * 1000)}"
    return ["db", f"{tree} select {columns} from {joined} where {wanted}", "--format", "json"]


def steps(output: str) -> list[tuple[str, dict[str, Any]]]:
    """(model, the step's own event part) of each line of the answer to `sub_agents`; [] when it is none."""
    return [
        (str(row.get("model") or "unknown"), {"tokens": _object(row.get("tokens")), "cost": row.get("cost")})
        for row in _rows(output)
    ]


def unseen(session_id: str, since: float) -> list[str] | None:
    """The arguments that count the steps a session has begun since a moment (unix seconds), but not just now."""
    if not ID.fullmatch(session_id):
        return None
    settled = f"(strftime('%s', 'now') - {_SETTLED}) * 1000"
    wanted = f"time_created between {int(since * 1000)} and {settled} and json_extract(data, '$.type') = 'step-start'"
    return [
        "db",
        f"select count(*) as begun from part where session_id = '{session_id}' and {wanted}",
        "--format",
        "json",
    ]


def begun(output: str) -> int:
    """The number in the answer to `unseen`, 0 when it is none."""
    rows = _rows(output)
    said = rows[0].get("begun") if rows else None
    return said if type(said) is int else 0


def _rows(output: str) -> list[Mapping[str, Any]]:
    try:
        rows = json.loads(output)
    except (ValueError, RecursionError):
        return []
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _object(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return None
