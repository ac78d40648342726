"""Rows: how items and index entries are kept, and what a change of one item does to all of them.

A table's rows are (h, r, item, size, expires): key bytes, compact JSON, stored size in bytes, TTL in seconds or NULL.
An index's rows are (ih, ir, h, r, item, size), ordered by index key and then table key; `item` holds what is projected.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from callboard_control.embedded.engine import keys, values
from callboard_control.embedded.engine.errors import validation
from callboard_control.embedded.engine.keys import RowKey
from callboard_control.embedded.engine.schema import Index, Table
from callboard_control.embedded.engine.storage import Statement
from callboard_control.embedded.engine.values import Item

_ENCODE = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class Stored(NamedTuple):
    """An item as found: its attributes and its size in bytes."""

    item: Item
    size: int


class Entry(NamedTuple):
    """One index row without the table key: index key bytes, projected attributes, size."""

    hash: bytes
    range: bytes
    item: Item
    size: int


@dataclass(frozen=True, slots=True)
class IndexChange:
    """What happens to one item's entry in one index."""

    index: Index
    before: Entry | None
    after: Entry | None


@dataclass(frozen=True, slots=True)
class Change:
    """What happens to one item; `before` and `after` are None where there is no item."""

    table: Table
    key: RowKey
    before: Stored | None
    after: Stored | None
    indexes: tuple[IndexChange, ...]


def create_statements(table: Table) -> list[Statement]:
    """The DDL of a new table and its indexes."""
    statements: list[Statement] = [
        (
            f"CREATE TABLE {table.rows} (h BLOB NOT NULL, r BLOB NOT NULL, item TEXT NOT NULL, size INTEGER NOT NULL, "
            "expires INTEGER, PRIMARY KEY (h, r)) WITHOUT ROWID",
            (),
        )
    ]
    statements += [
        (
            f"CREATE TABLE {index.rows} (ih BLOB NOT NULL, ir BLOB NOT NULL, h BLOB NOT NULL, r BLOB NOT NULL, "
            "item TEXT NOT NULL, size INTEGER NOT NULL, PRIMARY KEY (ih, ir, h, r)) WITHOUT ROWID",
            (),
        )
        for index in table.indexes
    ]
    return statements


def drop_statements(table: Table) -> list[Statement]:
    """The DDL that removes a table and its indexes."""
    return [(f"DROP TABLE {rows}", ()) for rows in (table.rows, *(index.rows for index in table.indexes))]


def find(connection: sqlite3.Connection, table: Table, key: RowKey) -> Stored | None:
    """The item under `key`."""
    row = connection.execute(f"SELECT item, size FROM {table.rows} WHERE h = ? AND r = ?", key).fetchone()
    return None if row is None else Stored(load(row[0]), row[1])


def load(text: str) -> Item:
    """An item out of its row's JSON."""
    item: Item = json.loads(text)
    return item


def dump(item: Item) -> str:
    """An item as its row's JSON."""
    return _ENCODE(item)


def change(table: Table, key: RowKey, before: Stored | None, after: Item | None, *, too_large: str) -> Change:
    """Work out what replacing `before` by `after` does; raises for an item too large or a bad index key."""
    stored = None
    if after is not None:
        stored = Stored(after, values.item_size(after))
        if stored.size > values.MAX_ITEM_BYTES:
            raise validation(too_large)
    indexes = []
    for index in table.indexes:
        old = None if before is None else _entry(table, index, before)
        new = None if stored is None else _entry(table, index, stored)
        if old != new:
            indexes.append(IndexChange(index, old, new))
    return Change(table, key, before, stored, tuple(indexes))


def _entry(table: Table, index: Index, stored: Stored) -> Entry | None:
    place = keys.index_key(index, stored.item)
    if place is None:
        return None
    names = table.projected(index)
    if names is None:
        return Entry(*place, stored.item, stored.size)
    item = {name: value for name, value in stored.item.items() if name in names}
    return Entry(*place, item, values.item_size(item))


def statements(changed: Change) -> Iterator[Statement]:
    """The SQL that makes `changed` so."""
    table, key = changed.table, changed.key
    if changed.after is not None:
        yield (
            f"INSERT OR REPLACE INTO {table.rows} (h, r, item, size, expires) VALUES (?, ?, ?, ?, ?)",
            (*key, dump(changed.after.item), changed.after.size, expires(table, changed.after.item)),
        )
    elif changed.before is not None:
        yield f"DELETE FROM {table.rows} WHERE h = ? AND r = ?", key
    for delta in changed.indexes:
        yield from move_entry(delta.index, key, delta.before, delta.after)


def move_entry(index: Index, key: RowKey, before: Entry | None, after: Entry | None) -> Iterator[Statement]:
    """The SQL that replaces one index entry by another."""
    if before is not None and (after is None or before[:2] != after[:2]):
        yield f"DELETE FROM {index.rows} WHERE ih = ? AND ir = ? AND h = ? AND r = ?", (*before[:2], *key)
    if after is not None:
        yield (
            f"INSERT OR REPLACE INTO {index.rows} (ih, ir, h, r, item, size) VALUES (?, ?, ?, ?, ?, ?)",
            (*after[:2], *key, dump(after.item), after.size),
        )


def expires(table: Table, item: Item) -> int | None:
    """When an item may be swept: the whole seconds of its TTL attribute, if that is a Number (any other type is no
    TTL).
    """
    value = item.get(table.ttl) if table.ttl is not None else None
    if value is None or "N" not in value:
        return None
    seconds = int(value["N"].partition(".")[0] or 0)
    # SQLite integers have 64 bits; later than that is never.
    return seconds if abs(seconds) < 2**62 else None
