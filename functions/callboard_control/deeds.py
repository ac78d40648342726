"""The audit log as it is written: who did what to which thing when, with which token. Rows are only ever added.

Where the deed is a write, its row is part of the same transaction; where it is a look at a secret, the row comes first,
and without it there is no answer. Below every subject, because every subject does things.
"""

from __future__ import annotations

from typing import Any, Final

from callboard_control import ports
from callboard_control.actor import Actor, Person
from callboard_control.store import keys, table
from callboard_control.store.models import AuditItem, new

KEPT_MS: Final = 400 * 24 * 3600 * 1000


def log_of(workspace_id: str) -> str:
    """The partition of a workspace's rows."""
    return f"{keys.workspace(workspace_id)}#AUDIT"


def entry(actor: Actor, action: str, thing: str, **details: Any) -> AuditItem:
    """The row for `action` (such as ``agent_env_revealed``) on `thing` (such as ``agent:<id>``), not yet written.

    `details` must hold no secret: keys of a changed map, never its values.
    """
    now = ports.now_ms()
    item: AuditItem = new(
        AuditItem,
        pk=log_of(actor.workspace_id),
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
