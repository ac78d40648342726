"""What a daemon keeps between its lives: its id, its token, and the lock that makes it the only one of its profile."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeVar

from callboard_daemon.errors import AlreadyRunning, StateError
from callboard_daemon.files import PRIVATE_FILE, private_dir, write_atomic
from callboard_daemon.paths import Paths

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Record:
    """What the running daemon says about itself. `created` is the process's start time by the system's clock: a pid
    alone may belong to somebody else by now. `flags` are the options it was started with: a restart keeps them."""

    pid: int
    created: float
    port: int
    secret: str = field(repr=False)
    version: str
    server_url: str
    flags: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DaemonToken:
    """The daemon's own credential (`mdt_…`), good for one server and one daemon id."""

    server_url: str
    daemon_id: str
    token: str = field(repr=False)


def daemon_id(paths: Paths) -> str:
    """This profile's daemon id, made on first use. A file with something else in it is replaced: an id is cheap, a
    daemon that never starts again is not. Raises `StateError` when the folder cannot be read or written.

    Why one a profile and not one a machine: two profiles may well talk to the same server, and one id would let both
    claim for the same runtimes.
    """
    with _state_errors(paths):
        private_dir(paths.state_dir)
        try:
            return str(uuid.UUID(paths.daemon_id_file.read_text().strip()))
        except (FileNotFoundError, ValueError):
            made = str(uuid.uuid4())
            write_atomic(paths.daemon_id_file, f"{made}\n".encode(), durable=True)
            return made


@contextmanager
def hold_profile(paths: Paths, *, patience: float = 1.0) -> Iterator[None]:
    """Be this profile's only daemon while the context lasts. The system frees the lock however the process ends.

    `patience` (seconds) outlasts somebody who only looks (`is_running` takes the lock for an instant). Raises
    `AlreadyRunning` or `StateError`.
    """
    from filelock import FileLock, Timeout

    with _state_errors(paths):
        private_dir(paths.state_dir)
        lock = FileLock(paths.lock_file, mode=PRIVATE_FILE)
        try:
            lock.acquire(timeout=patience, poll_interval=0.02)
        except Timeout:
            record = read_record(paths)
            raise AlreadyRunning(paths.profile, record.pid if record else 0) from None
    try:
        yield
    finally:
        lock.release()


def is_running(paths: Paths) -> bool:
    """Whether a daemon of this profile lives. Asks the lock, never a pid: pids are reused."""
    if not paths.lock_file.exists():
        return False
    try:
        with hold_profile(paths, patience=0.1):
            return False
    except AlreadyRunning:
        return True


def write_record(paths: Paths, record: Record) -> None:
    with _state_errors(paths):
        write_atomic(paths.record_file, json.dumps(asdict(record)).encode())


def read_record(paths: Paths) -> Record | None:
    """The record as it is on disk; None when there is none or it is not readable. It may be of a daemon long gone."""
    return _read(paths.record_file, Record)


def read_daemon_token(paths: Paths, server_url: str, daemon: str) -> str | None:
    """The token to use with `server_url`, None when this daemon has none for it."""
    kept = _read(paths.daemon_token_file, DaemonToken)
    return kept.token if kept and (kept.server_url, kept.daemon_id) == (server_url, daemon) else None


def write_daemon_token(paths: Paths, token: DaemonToken) -> None:
    with _state_errors(paths):
        write_atomic(paths.daemon_token_file, json.dumps(asdict(token)).encode(), durable=True)


def forget(path: Path) -> None:
    path.unlink(missing_ok=True)


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return kind(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


@contextmanager
def _state_errors(paths: Paths) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StateError(
            f"cannot use the state folder {paths.state_dir}: {os.strerror(error.errno or 0)}",
            hint="It must belong to you, be writable, and have free space; CALLBOARD_HOME moves it.",
        ) from error
