"""Writing files that others may not read and that are never half there."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

PRIVATE_DIR = 0o700
PRIVATE_FILE = 0o600


def private_dir(path: Path) -> Path:
    """Make `path` and its missing parents; the folder itself is 0700 from its first instant. Raises `OSError`."""
    if not path.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=PRIVATE_DIR, exist_ok=True)
    return path


def write_atomic(path: Path, data: bytes, *, mode: int = PRIVATE_FILE, durable: bool = False) -> None:
    """Replace `path` by `data` in one step, with `mode` from the start. `durable` also survives a power cut.

    Raises `OSError`; the old content is then still there and no temporary file is left.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    if durable:
        sync_dir(path.parent)


def read_plain(path: Path, limit: int) -> bytes:
    """A file's bytes, where somebody may have put something else in its place.

    Raises `OSError` for a link, for what is no plain file (a pipe would be waited for without end), and for more than
    `limit` bytes.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
            raise OSError(f"{path} is no plain file of at most {limit} bytes")
        return file.read()


def sync_dir(path: Path) -> None:
    """Make the names in `path` survive a power cut, where the system can."""
    with contextlib.suppress(OSError):  # some file systems refuse to sync a folder; the data itself is synced
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
