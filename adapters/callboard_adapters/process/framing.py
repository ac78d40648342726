"""Bytes → lines.

A line ends at LF and nowhere else (a CR before it is taken off): splitting on every Unicode line end cuts JSON strings
that hold U+2028. Pieces of an unfinished line are kept in a list and joined once, so a 64 MB line that arrives in
64 KiB reads costs two copies and not a thousand.
"""

from __future__ import annotations

MAX_LINE = 64 << 20
"""Bytes. Real CLIs have printed 40 MB on one line (a whole thread on resume, an image in base64)."""


class LineTooLong(Exception):
    """A line is longer than the limit; `size` is how much of it had arrived, in bytes."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"a line of output is over {limit} bytes ({size} bytes so far)")
        self.size = size
        self.limit = limit


class LineFramer:
    """Feed reads, get whole lines. `close` gives the last line if it had no line end."""

    __slots__ = ("_limit", "_pieces", "_size", "bytes", "lines")

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0
        self.bytes = 0
        self.lines = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines completed by `data`, without their line ends. Raises `LineTooLong`; then the framer is spent."""
        self.bytes += len(data)
        end = data.rfind(b"\n")
        if end < 0:
            self._keep(data)
            return []
        lines = data[:end].split(b"\n")
        if self._pieces:
            self._pieces.append(lines[0])
            lines[0] = b"".join(self._pieces)
            self._pieces.clear()
            self._size = 0
        if len(data) - end > 1:
            self._keep(data[end + 1 :])
        longest = max(map(len, lines))
        if longest > self._limit:
            raise LineTooLong(longest, self._limit)
        self.lines += len(lines)
        return [line[:-1] if line.endswith(b"\r") else line for line in lines]

    def close(self) -> bytes | None:
        """What came after the last line end, or None."""
        if not self._pieces:
            return None
        line = b"".join(self._pieces)
        self._pieces.clear()
        self.lines += 1
        return line[:-1] if line.endswith(b"\r") else line

    def _keep(self, data: bytes) -> None:
        if not data:
            return
        self._pieces.append(data)
        self._size += len(data)
        if self._size > self._limit:
            raise LineTooLong(self._size, self._limit)
