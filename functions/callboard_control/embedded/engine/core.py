"""What every operation stands on: the file, the catalogue of tables, the clock and the fault injector."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

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


class Catalogue:
    """The tables, cached. SQLite's schema version tells when anybody made or dropped one."""

    def __init__(self) -> None:
        self._cached: tuple[int, dict[str, Table]] = (-1, {})

    def all(self, connection: sqlite3.Connection) -> dict[str, Table]:
        """All tables by name, as `connection` sees them."""
        version = connection.execute("PRAGMA schema_version").fetchone()[0]
        cached, tables = self._cached
        if version != cached:
            found = connection.execute("SELECT id, name, created, spec FROM catalogue").fetchall()
            tables = {name: schema.load(table_id, name, created, spec) for table_id, name, created, spec in found}
            self._cached = (version, tables)
        return tables

    def forget(self) -> None:
        """Read everything anew at the next look: after a rollback the same version number may come to mean another
        schema.
        """
        self._cached = (-1, {})


class Core:
    """Shared by the operations of one engine."""

    def __init__(self, path: str, *, clock: Callable[[], float], faults: Injector | None, synchronous: str) -> None:
        self.clock = clock
        self.faults = faults
        self.catalogue = Catalogue()
        self._history: dict[tuple[str, str], deque[_IndexWrite]] = {}
        self._history_lock = threading.Lock()
        remember = self._remember if faults is not None else None
        self.storage = Storage(path, synchronous=synchronous, committed=remember, rolled_back=self.catalogue.forget)

    def table(self, connection: sqlite3.Connection, name: str) -> Table:
        """The table called `name`; raises ResourceNotFoundException."""
        table = self.catalogue.all(connection).get(name)
        if table is None:
            raise errors.table_not_found()
        return table

    def reading(self, table: Table, index: Index | None) -> AbstractContextManager[sqlite3.Connection]:
        """A connection to query `table` or `index` with: an index may answer from an older state, if the injector
        says so.
        """
        if index is None or self.faults is None:
            return self.storage.read()
        return self._lagging(self.faults, table, index)

    @contextlib.contextmanager
    def _lagging(self, faults: Injector, table: Table, index: Index) -> Iterator[sqlite3.Connection]:
        with self._history_lock:
            writes = list(self._history.get((table.name, index.name), ()))
        now = self.clock()
        hidden = faults.index_lag(table.name, index.name, [now - write.at for write in writes])
        if hidden <= 0:
            with self.storage.read() as connection:
                yield connection
            return
        undo: list[Statement] = []
        for write in reversed(writes[-hidden:]):
            undo.extend(rows.move_entry(index, write.key, write.change.after, write.change.before))
        with self.storage.rewound(undo) as connection:
            yield connection

    def _remember(self, changes: list[rows.Change]) -> None:
        now = self.clock()
        with self._history_lock:
            for changed in changes:
                for delta in changed.indexes:
                    place = (changed.table.name, delta.index.name)
                    history = self._history.setdefault(place, deque(maxlen=_MEMORY_OF_WRITES))
                    history.append(_IndexWrite(now, changed.key, delta))
