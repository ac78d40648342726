"""The data folder: one gateway at a time, readable by its owner alone.

<data>/              0700
  callboard.db         the store (SQLite, WAL; its -wal and -shm beside it take its mode)
  gateway.lock         held while a gateway runs
  bootstrap.secret     proves access to this folder at the first login, or to get back in; gone once it has
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

import platformdirs
from filelock import FileLock, Timeout

DATABASE = "callboard.db"
LOCK = "gateway.lock"
BOOTSTRAP_SECRET = "bootstrap.secret"  # noqa: S105 - the name of a file


class GatewayError(Exception):
    """The gateway cannot start; the text is for the person who started it and says what to do."""


def default_folder() -> Path:
    return platformdirs.user_data_path("callboard", appauthor=False)


class DataFolder:
    """`open` before use, `close` after."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Taken by the thread that composes, given free by the one that serves: not a lock per thread.
        self._lock = FileLock(path / LOCK, mode=0o600, thread_local=False)
        self.first_start = False

    @property
    def database(self) -> Path:
        return self.path / DATABASE

    @property
    def secret_file(self) -> Path:
        return self.path / BOOTSTRAP_SECRET

    def open(self, *, new_secret: bool = False) -> None:
        """Make the folder if need be, take it for this process, and write the bootstrap secret at the first start, or
        a new one when `new_secret` asks for it.

        Raises:
            GatewayError: it cannot be made or written, others may write in it, another gateway has it, or a new secret
                is asked for by somebody whose folder it is not.
        """
        try:
            self._make()
            self._lock.acquire(blocking=False)
        except Timeout:
            raise GatewayError(
                f"Another gateway is running on {self.path}: stop it first, or give this one another with --data."
            ) from None
        except OSError as failure:
            raise self._unwritable(failure) from failure
        try:
            self.first_start = not self.database.exists()
            if new_secret:
                self._refuse_stranger()
                self.forget_secret()
            if self.first_start or new_secret:
                self.write_secret()
            # Before SQLite does: it would take the process's umask, and its side files copy this one's mode.
            os.close(os.open(self.database, os.O_CREAT | os.O_RDWR, 0o600))
        except OSError as failure:
            self.close()
            raise self._unwritable(failure) from failure
        except GatewayError:
            self.close()
            raise

    def close(self) -> None:
        self._lock.release()

    def bootstrap_secret(self) -> str | None:
        """The secret of the first login; None once it has been used up."""
        try:
            return self.secret_file.read_text(encoding="ascii").strip() or None
        except FileNotFoundError:
            return None

    def forget_secret(self) -> None:
        """It has let somebody in; left lying, it would announce a login that is refused."""
        self.secret_file.unlink(missing_ok=True)

    def _refuse_stranger(self) -> None:
        """Whoever may write here could as well change the store; the owner alone is meant, root by mistake is not."""
        owner = self.path.stat().st_uid
        if owner != os.geteuid():
            raise GatewayError(f"{self.path} belongs to user {owner}: ask for a new secret as that user.")

    def _make(self) -> None:
        if not self.path.is_dir():
            self.path.mkdir(mode=0o700, parents=True)
        mode = stat.S_IMODE(self.path.stat().st_mode)
        if mode & 0o022:
            raise GatewayError(
                f"Other users may write in {self.path} (mode {mode:04o}): run chmod 700 on it, "
                "or give another folder with --data."
            )

    def write_secret(self) -> None:
        """Make the secret of a first login. Raises `OSError`."""
        # The same secret when an earlier first start was cut short: its words may already be on somebody's screen.
        if self.bootstrap_secret():
            return
        descriptor = os.open(self.secret_file, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(32) + "\n")

    def _unwritable(self, failure: OSError) -> GatewayError:
        reason = failure.strerror or str(failure)
        return GatewayError(f"The data folder {self.path} cannot be written ({reason}): give another with --data.")
