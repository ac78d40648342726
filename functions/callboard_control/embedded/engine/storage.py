"""The SQLite file: opening it, reading beside writers, and one writer that shares an fsync among those who wait.

Durability: WAL with synchronous=FULL means that COMMIT returns after the log is on disk, and a caller gets its answer
after COMMIT. A process killed at any instant loses nothing it was answered for and leaves no half of a transaction
behind.

Group commit: a writer joins a queue. Whoever finds no leader leads: it takes the queue, runs every waiting piece of
work in one SQLite transaction and commits once; while it waits for the disk (without the GIL) the next batch gathers.
Before it answers its batch it hands the lead to the first of those.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from callboard_control.embedded.engine.errors import EngineError, StorageError

MEMORY = ":memory:"
FORMAT = 1
_MAX_BATCH = 64
_BUSY_SECONDS = 30.0
_IDLE_READERS = 8

Statement = tuple[str, Sequence[Any]]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS catalogue (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, created REAL NOT NULL, spec TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS request_tokens (
    token TEXT PRIMARY KEY, digest BLOB NOT NULL, created REAL NOT NULL, repeat_units TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS request_tokens_by_age ON request_tokens (created);
"""


@dataclass(slots=True)
class Plan:
    """What a piece of work decided: its `answer`, and the statements that make it so.

    Work raises before it returns a plan or not at all, so a refused request has changed nothing. `note` is passed to
    the storage's `committed` after the commit, in commit order.
    """

    answer: dict[str, Any]
    statements: list[Statement] = field(default_factory=list)
    note: Any = None


Work = Callable[[sqlite3.Connection], Plan]


class _Waiting:
    """One writer in the queue. `turn` is a lock used as a signal: a plain lock wakes faster than an Event."""

    __slots__ = ("answer", "error", "finished", "leads", "turn", "work")

    def __init__(self, work: Work) -> None:
        self.work = work
        self.answer: dict[str, Any] = {}
        self.error: BaseException | None = None
        self.finished = False
        self.leads = False
        self.turn = threading.Lock()
        self.turn.acquire()


class Storage:
    """An open data file.

    `committed` is called with each plan's note, in commit order, before its caller is answered; `unsure` when what is
    remembered of the schema may be wrong: a commit failed, or a table is gone.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: str,
        committed: Callable[[Any], None] | None = None,
        unsure: Callable[[], None] = lambda: None,
    ) -> None:
        self._path = os.fspath(path)
        self._memory = self._path == MEMORY
        self._committed = committed
        self._unsure = unsure
        self._closed = False
        self._readers: deque[sqlite3.Connection] = deque()
        self._queue: deque[_Waiting] = deque()
        self._queue_lock = threading.Lock()
        self._led = False
        self._writing = threading.RLock()  # held while the writer connection is in a transaction
        if synchronous not in ("FULL", "NORMAL", "OFF"):
            raise ValueError(f"synchronous must be FULL, NORMAL or OFF, not {synchronous!r}")
        self._writer = self._open_file(synchronous)

    def close(self) -> None:
        """Close all connections; the last one to a file folds the log back into it."""
        with self._writing:
            self._closed = True
            while self._readers:
                self._readers.pop().close()
            self._writer.close()

    @contextlib.contextmanager
    def read(self, *, snapshot: bool = False) -> Iterator[sqlite3.Connection]:
        """A connection that sees what is committed; with `snapshot` all its statements see the same state."""
        if self._memory:
            with self._noticed(), self._writing, _translated(self._path):
                self._check_open()
                yield self._writer
            return
        with self._noticed(), _translated(self._path):
            connection = self._reader()
            try:
                if snapshot:
                    connection.execute("BEGIN")
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                self._give_back(connection)

    def write(self, work: Work) -> dict[str, Any]:
        """Run `work` in a transaction and return its answer once that is on disk."""
        waiting = _Waiting(work)
        with self._queue_lock:
            self._queue.append(waiting)
            leads = not self._led
            self._led = True
        if not leads:
            try:
                waiting.turn.acquire()
            except BaseException:  # an interrupt while waiting: nobody may wait for this thread to lead
                self._leave(waiting)
                raise
        if not waiting.finished:
            self._lead()
        if waiting.error is not None:
            raise waiting.error
        return waiting.answer

    @contextlib.contextmanager
    def rewound(self, undo: Callable[[], Sequence[Statement]]) -> Iterator[sqlite3.Connection]:
        """The state with `undo` applied, forgotten afterwards: how index lag is played. No write happens meanwhile."""
        with self._writing, _translated(self._path):
            self._check_open()
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                for sql, arguments in undo():
                    self._writer.execute(sql, arguments)
                yield self._writer
            finally:
                self._writer.execute("ROLLBACK")

    # Writing

    def _lead(self) -> None:
        with self._queue_lock:
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), _MAX_BATCH))]
        try:
            self._commit(batch)
        except BaseException as error:  # an interrupt in the leader's thread: those who follow must not wait for ever
            for waiting in batch:
                waiting.error = waiting.error or EngineError(
                    "InternalServerError", f"interrupted: {error!r}", status=500
                )
            raise
        finally:
            with self._queue_lock:
                self._hand_on()
            for waiting in batch:
                waiting.finished = True
                waiting.turn.release()

    def _hand_on(self) -> None:
        """Give the lead to the first who waits. Called with the queue locked."""
        heir = self._queue[0] if self._queue else None
        self._led = heir is not None
        if heir is not None:
            heir.leads = True
            heir.turn.release()

    def _leave(self, waiting: _Waiting) -> None:
        with self._queue_lock:
            if waiting in self._queue:
                self._queue.remove(waiting)
                if waiting.leads:
                    self._hand_on()

    def _commit(self, batch: list[_Waiting]) -> None:
        with self._writing:
            notes: list[Any] = []
            try:
                with _translated(self._path):
                    self._check_open()
                    self._writer.execute("BEGIN IMMEDIATE")
                    for waiting in batch:
                        self._run(waiting, notes)
                    self._writer.execute("COMMIT")
            except EngineError as error:
                for waiting in batch:
                    waiting.error = waiting.error or error
            else:
                if self._committed is not None:
                    for note in notes:
                        self._committed(note)
            finally:
                if not self._closed and self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                    self._unsure()

    def _run(self, waiting: _Waiting, notes: list[Any]) -> None:
        try:
            with _translated(self._path):
                plan = waiting.work(self._writer)
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to that caller and not to the batch
            waiting.error = error
            return
        for sql, arguments in plan.statements:
            self._writer.execute(sql, arguments)
        waiting.answer = plan.answer
        if plan.note is not None:
            notes.append(plan.note)

    @contextlib.contextmanager
    def _noticed(self) -> Iterator[None]:
        """A table that is gone means that the schema has changed."""
        try:
            yield
        except EngineError as error:
            if error.code == "ResourceNotFoundException":
                self._unsure()
            raise

    # Connections

    def _open_file(self, synchronous: str) -> sqlite3.Connection:
        if not self._memory:
            _create_private(Path(self._path))
        try:
            connection = self._connect()
        except sqlite3.Error as error:
            raise StorageError(f"cannot open the data file {self._path}: {error}") from None
        try:
            if not self._memory:
                connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {synchronous}")
            connection.execute("PRAGMA cache_size = -16000")
            connection.execute("PRAGMA journal_size_limit = 67108864")
            self._check_format(connection)
        except sqlite3.Error as error:
            connection.close()
            raise StorageError(f"cannot use the data file {self._path}: {error}") from None
        except StorageError:
            connection.close()
            raise
        return connection

    def _check_format(self, connection: sqlite3.Connection) -> None:
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found > FORMAT:
            raise StorageError(
                f"the data file {self._path} was written by a newer version (format {found}, this one reads {FORMAT}): "
                "use that version"
            )
        connection.execute("BEGIN IMMEDIATE")
        for statement in _SCHEMA.split(";"):
            if statement.strip():
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.execute("COMMIT")

    def _connect(self) -> sqlite3.Connection:
        # isolation_level None: transactions are begun and ended here and nowhere else.
        return sqlite3.connect(
            self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=512
        )

    def _reader(self) -> sqlite3.Connection:
        self._check_open()
        try:
            return self._readers.pop()
        except IndexError:
            connection = self._connect()
            connection.execute("PRAGMA query_only = ON")
            return connection

    def _give_back(self, connection: sqlite3.Connection) -> None:
        if self._closed or len(self._readers) >= _IDLE_READERS:
            connection.close()
        else:
            self._readers.append(connection)

    def _check_open(self) -> None:
        if self._closed:
            raise EngineError("InternalServerError", f"the data file {self._path} is closed", status=500)


def _create_private(path: Path) -> None:
    """Make sure the file exists and only its owner can read it; SQLite gives its side files the same rights."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise StorageError(
            f"cannot write the data file {path}: {error.strerror}; check the folder and its rights"
        ) from None


@contextlib.contextmanager
def _translated(path: str) -> Iterator[None]:
    """Turn SQLite's errors into answers: a caller sees DynamoDB's codes, with what happened to which file."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            # Another process deleted the table between our look at the catalogue and now.
            raise EngineError("ResourceNotFoundException", "Requested resource not found") from None
        raise EngineError("InternalServerError", f"the data file {path} failed: {error}", status=500) from error
    except sqlite3.Error as error:
        raise EngineError("InternalServerError", f"the data file {path} failed: {error}", status=500) from error
