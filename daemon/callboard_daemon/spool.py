"""A run's messages on their way to the server: appended to a file as they are made, read back in order to be sent.

One path for all weathers: with the network up the file is a short detour through the page cache; with it down the file
grows to its limit; after a crash of the daemon the next one reads it from the start and sends what the server lacks.
"""

from __future__ import annotations

import io
import logging
import os
from collections import deque
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from callboard_daemon.files import PRIVATE_FILE
from callboard_wire.bodies import MAX_MESSAGES, TaskMessage

log = logging.getLogger(__name__)

MAX_BATCH_BYTES: Final = 512 * 1024
"""A batch stays well below every body limit on the way (6 MB for a Lambda)."""


class Spool:
    """`limit` bytes may wait for the server; what comes beyond is counted and not kept (`dropped`).

    When the disk refuses a write (full, gone read-only) messages wait in memory instead, under the same limit: a full
    disk must not cost the transcript of a run whose network is fine.
    """

    def __init__(self, path: Path, limit: int) -> None:
        self._path = path
        self._limit = limit
        self._sent_to = 0  # offset of the first byte that the server has not confirmed
        self._end = path.stat().st_size if path.exists() else 0
        self._memory: deque[bytes] = deque()
        self._memory_bytes = 0
        self._file: io.FileIO | None = None
        self._batch_bytes = 0
        self._batch_lines = 0
        self._last_read = 0  # number of the last line that was looked at
        self._last_confirmed = 0
        self.dropped = 0

    def append(self, message: TaskMessage, *, beyond_limit: bool = False) -> bool:
        """Keep `message` until it was sent; False when the limit is reached. Never raises for the disk's sake."""
        line = message.model_dump_json(exclude_defaults=True).encode() + b"\n"
        if self.waiting_bytes + len(line) > self._limit and not beyond_limit:
            self.dropped += 1
            return False
        if self._memory or not self._write(line):
            self._memory.append(line)
            self._memory_bytes += len(line)
        return True

    @property
    def waiting_bytes(self) -> int:
        return self._end - self._sent_to + self._memory_bytes

    def batch(self, after_seq: int = 0) -> list[TaskMessage]:
        """The oldest messages that were not confirmed, as many as fit one request; [] when there are none.

        `after_seq` skips what the server says it has. The same batch comes again until `confirm` is called.
        """
        while lines := self._unconfirmed():
            if batch := self._take(lines, after_seq):
                return batch
            self.confirm()  # only lines that the server has, or that nobody can read
        return []

    def confirm(self) -> None:
        """The server has the last batch."""
        if self._sent_to < self._end:
            self._sent_to += self._batch_bytes
        else:
            for _ in range(self._batch_lines):
                self._memory_bytes -= len(self._memory.popleft())
        self._batch_bytes = self._batch_lines = 0
        self._last_confirmed = self._last_read

    def last_seq(self) -> int:
        """The highest number in the file: where a daemon that takes over goes on counting. 0 when there is none."""
        try:
            with self._path.open("rb") as file:
                numbers = (message.seq for line in file if (message := _parse(line, self._path)))
                return max(numbers, default=0)
        except FileNotFoundError:
            return 0

    def close(self) -> None:
        """Nothing more will be appended; what waits can still be read and sent."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, line: bytes) -> bool:
        try:
            if self._file is None:
                descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE_FILE)
                self._file = os.fdopen(descriptor, "ab", buffering=0)
            written = self._file.write(line)
            if written != len(line):  # the disk filled up inside the line: take the piece back
                self._file.truncate(self._end)
                return False
        except OSError as error:
            log.warning("cannot write %s (%s): keeping messages in memory", self._path.name, error.strerror)
            return False
        self._end += len(line)
        return True

    def _take(self, lines: list[bytes], after_seq: int) -> list[TaskMessage]:
        batch: list[TaskMessage] = []
        self._batch_bytes = self._batch_lines = 0
        self._last_read = self._last_confirmed
        size = 0
        for line in lines:
            if batch and (size + len(line) > MAX_BATCH_BYTES or len(batch) == MAX_MESSAGES):
                break
            # The server takes no gaps: a line that a crash tore keeps its number.
            message = _parse(line, self._path) or TaskMessage(
                seq=self._last_read + 1,
                type="log",
                level="warn",
                content="a message was damaged on disk",
            )
            self._last_read = message.seq
            if message.seq > after_seq:
                batch.append(message)
                size += len(line)
            self._batch_bytes += len(line)
            self._batch_lines += 1
        return batch

    def _unconfirmed(self) -> list[bytes]:
        if self._sent_to < self._end:
            try:
                return self._read()
            except OSError as error:
                log.error("cannot read %s back (%s): its messages are lost", self._path, error.strerror)
                self._sent_to = self._end
        return list(self._memory)

    def _read(self) -> list[bytes]:
        """Complete lines from the first unconfirmed byte on; at least one, however long it is."""
        with self._path.open("rb") as file:
            file.seek(self._sent_to)
            chunk = file.read(min(MAX_BATCH_BYTES, self._end - self._sent_to))
            if not chunk.endswith(b"\n"):
                cut = chunk.rfind(b"\n") + 1
                chunk = chunk[:cut] if cut else chunk + file.readline()
        if not chunk:
            raise OSError(0, "shorter than it was")
        return chunk.splitlines(keepends=True)


def _parse(line: bytes, path: Path) -> TaskMessage | None:
    """None for a line torn by a crash or a power cut: the rest of the file is still good."""
    try:
        return TaskMessage.model_validate_json(line)
    except ValidationError:
        log.warning("%s holds a damaged line of %d bytes; it is left out", path.name, len(line))
        return None
