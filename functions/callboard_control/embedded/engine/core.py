"""What every operation stands on: the file, the catalogue of tables, the clock and the fault injector."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

from callboard_control.embedded.engine import errors, rows, schema
from callboard_control.embedded.engine.faults import Injector
from callboard_control.embedded.engine.keys import RowKey
from callboard_control.embedded.engine.rows import IndexChange
from callboard_control.embedded.engine.schema import Index, Table
from callboard_control.embedded.engine.storage import Statement, Storage

_MEMORY_OF_WRITES = 1000


@dataclass(frozen=True, slots=True)
class _IndexWrite:
    """One committed change of an index, kept so that it can be hidden again."""

    at: float
    key: RowKey
    change: IndexChange


class Tables(dict[str, Table]):
    """Tables by name; `tables[name]` raises ResourceNotFoundException for an unknown one."""

    def __missing__(self, name: str) -> Table:
        raise errors.table_not_found()


class Catalogue:
    """The tables, cached. SQLite's schema version tells when anybody made or dropped one."""

    def __init__(self) -> None:
        self._cached: tuple[int, Tables] = (-1, Tables())

    def all(self, connection: sqlite3.Connection) -> Tables:
        """All tables by name, as `connection` sees them."""
        version = connection.execute("PRAGMA schema_version").fetchone()[0]
        cached, tables = self._cached
        if version != cached:
            found = connection.execute("SELECT id, name, created, spec FROM catalogue").fetchall()
            tables = Tables({name: schema.load(number, name, created, spec) for number, name, created, spec in found})
            self._cached = (version, tables)
        return tables

    def known(self, connection: sqlite3.Connection) -> Tables:
        """As `all`, but not newer than the last look, for reading: asking for the version took as long as the read. A
        table's number is never used again, so one made anew by another process is not found, and then looked for.
        """
        _, tables = self._cached
        return tables or self.all(connection)

    def forget(self) -> None:
        """Read everything anew at the next look: after a rollback the same version number may come to mean another
        schema.
        """
        self._cached = (-1, Tables())


class Core:
    """Shared by the operations of one engine."""

    def __init__(self, path: str, *, clock: Callable[[], float], faults: Injector | None, synchronous: str) -> None:
        self.clock = clock
        self.faults = faults
        self.catalogue = Catalogue()
        # Touched only while the storage writes or rewinds, which exclude each other.
        self._history: dict[tuple[str, str], deque[_IndexWrite]] = {}
        remember = None if faults is None else partial(self._remember, faults)
        self.storage = Storage(path, synchronous=synchronous, committed=remember, unsure=self.catalogue.forget)

    def table(self, connection: sqlite3.Connection, name: str) -> Table:
        """The table called `name`; raises ResourceNotFoundException."""
        return self.catalogue.all(connection)[name]

    def readable(self, connection: sqlite3.Connection, name: str) -> Table:
        """As `table`, for reading its rows: how they are written (its TTL) may have changed meanwhile."""
        known = self.catalogue.known(connection)
        return known[name] if name in known else self.table(connection, name)

    def reading(self, table: Table, index: Index | None) -> AbstractContextManager[sqlite3.Connection]:
        """A connection to query `table` or `index` with: an index may answer from the past, if the injector says so."""
        faults = self.faults
        if index is None or faults is None:
            return self.storage.read()
        return self.storage.rewound(lambda: self._hidden(faults, table, index))

    def _hidden(self, faults: Injector, table: Table, index: Index) -> list[Statement]:
        """What undoes the writes that must not be seen yet."""
        writes = list(self._history.get((table.name, index.name), ()))
        now = self.clock()
        hidden = faults.index_lag(table.name, index.name, [now - write.at for write in writes])
        undo: list[Statement] = []
        for write in reversed(writes[-hidden:] if hidden > 0 else []):
            undo.extend(rows.move_entry(index, write.key, write.change.after, write.change.before))
        return undo

    def _remember(self, faults: Injector, changes: list[rows.Change]) -> None:
        now = self.clock()
        for changed in changes:
            for delta in changed.indexes:
                place = (changed.table.name, delta.index.name)
                history = self._history.setdefault(place, deque(maxlen=_MEMORY_OF_WRITES))
                history.append(_IndexWrite(now, changed.key, delta))
                faults.wrote(*place)
