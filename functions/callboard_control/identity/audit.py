"""The audit log as it is read; `deeds` writes it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pynamodb.expressions.condition import Condition

from callboard_control.deeds import log_of, put, write
from callboard_control.store import keys, table
from callboard_control.store.models import AuditItem
from callboard_wire.api import AuditEntry, Page

__all__ = ["Wanted", "entries", "put", "write"]

LATEST_MS: Final = 99_999_999_999_999
"""Fourteen digits, which is what a time has in a key."""
PAGES_AT_MOST: Final = 20
"""A filtered list reads at most this many pages before it answers with what it found and a cursor."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows: of one `action`, one `actor`, things whose name begins with `thing` (``agent:``, or one by its id),
    from `since` on and before `until`."""

    action: str | None = None
    actor: str | None = None
    thing: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def fits(self, row: AuditItem) -> bool:
        return (
            self.action in (None, row.action)
            and self.actor in (None, row.actor)
            and (self.thing is None or row.thing.startswith(self.thing))
        )

    def times(self) -> Condition | None:
        if self.since is None and self.until is None:
            return None
        return AuditItem.sk.between(_stamp(self.since, 0), _stamp(self.until, LATEST_MS))


def _stamp(at: datetime | None, otherwise: int) -> str:
    """The key of the first row at `at`. Times nobody can mean are taken as the nearest the table can hold."""
    ms = otherwise if at is None else int(at.timestamp() * 1000)
    return keys.stamp(min(max(ms, 0), LATEST_MS))


def entries(workspace_id: str, wanted: Wanted, cursor: str | None, limit: int) -> Page[AuditEntry]:
    """Newest first. With a filter a page may be short, and even empty, while there is a cursor to go on with."""
    found: list[AuditEntry] = []
    for _ in range(PAGES_AT_MOST):
        page = table.rows(
            AuditItem,
            log_of(workspace_id),
            wanted.times(),
            limit=max(limit - len(found), 1),
            cursor=cursor,
            forward=False,
            consistent=True,
        )
        found += [_view(row) for row in page.items if wanted.fits(row)]
        cursor = page.cursor
        if cursor is None or len(found) >= limit:
            break
    return Page[AuditEntry](items=found, next_cursor=cursor)


def _view(row: AuditItem) -> AuditEntry:
    return AuditEntry(
        at_ms=int(row.created),
        actor=row.actor,
        token_id=row.token_id or "",
        action=row.action,
        thing=row.thing,
        details=row.details or {},
    )
