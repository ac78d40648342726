"""The audit log: who did what to which thing when, with which token. Rows are only ever added.

Where the deed is a write, its row is part of the same transaction; where it is a look at a secret, the row comes first,
and without it there is no answer.
"""

from __future__ import annotations

from typing import Any

from callboard_control import ports
from callboard_control.actor import Actor, Person
from callboard_control.store import keys, table
from callboard_control.store.models import AuditItem, new
from callboard_wire.api import AuditEntry, Page

KEPT_MS = 400 * 24 * 3600 * 1000


def entry(actor: Actor, action: str, thing: str, **details: Any) -> AuditItem:
    """The row for `action` (such as ``agent_env_revealed``) on `thing` (such as ``agent:<id>``), not yet written.

    `details` must hold no secret: keys of a changed map, never its values.
    """
    now = ports.now_ms()
    item: AuditItem = new(
        AuditItem,
        pk=f"{keys.workspace(actor.workspace_id)}#AUDIT",
        sk=f"{keys.stamp(now)}#{keys.new_id()}",
        actor=actor.label,
        token_id=actor.token_id if isinstance(actor, Person) else None,
        action=action,
        thing=thing,
        details=details or None,
        created=now,
        ttl=(now + KEPT_MS) // 1000,
    )
    return item


def put(actor: Actor, action: str, thing: str, **details: Any) -> table.Put:
    """The row as a part of the deed's own transaction."""
    return table.Put(entry(actor, action, thing, **details))


def write(actor: Actor, action: str, thing: str, **details: Any) -> None:
    """Write the row by itself. Raises what the store raises: the caller must not go on without it."""
    table.put(entry(actor, action, thing, **details))


def entries(workspace_id: str, cursor: str | None, limit: int) -> Page[AuditEntry]:
    """Newest first."""
    page = table.rows(
        AuditItem, f"{keys.workspace(workspace_id)}#AUDIT", limit=limit, cursor=cursor, forward=False, consistent=True
    )
    views = [
        AuditEntry(
            at_ms=int(row.created),
            actor=row.actor,
            token_id=row.token_id or "",
            action=row.action,
            thing=row.thing,
            details=row.details or {},
        )
        for row in page.items
    ]
    return Page[AuditEntry](items=views, next_cursor=page.cursor)
