"""Bytes → lines.

A line ends at LF and nowhere else (a CR before it is taken off): splitting on every Unicode line end cuts JSON strings
that hold U+2028. Pieces of an unfinished line are kept in a list and joined once, so a 64 MB line that arrives in
64 KiB reads costs two copies and not a thousand.

For a CLI whose whole output is one indented document the pieces are larger (`indented=True`): a line at the margin and
the lines indented under it, as far as one read holds them. Four hundred lines of thirty bytes cost five times their
JSON when each is handed on alone.
"""

from __future__ import annotations

import re

MAX_LINE = 64 << 20
"""Bytes. Real CLIs have printed 40 MB on one line (a whole thread on resume, an image in base64)."""


_MARK = b"\xef\xbb\xbf"
"""The byte order mark that shells of Windows put before the first line."""
_AT_MARGIN = re.compile(rb"\n(?! )")


class LineTooLong(Exception):
    """A line is longer than the limit; `size` is how much of it had arrived, in bytes."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"a line of output is over {limit} bytes ({size} bytes so far)")
        self.size = size
        self.limit = limit


class LineFramer:
    """Feed reads, get whole lines. `close` gives the last line if it had no line end.

    With `indented` a line comes together with those after it that begin with a space and were in the same read. No
    line waits for another: a read that begins inside a document gives its indented lines as one piece.
    """

    __slots__ = ("_indented", "_limit", "_pieces", "_size", "bytes", "lines")

    def __init__(self, limit: int = MAX_LINE, *, indented: bool = False) -> None:
        self._limit = limit
        self._indented = indented
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
        lines = _AT_MARGIN.split(data[:end]) if self._indented else data[:end].split(b"\n")
        # Looked for once a read: once a line costs as much as the framing.
        carriage_returns = b"\r\n" in data or (bool(self._pieces) and self._pieces[-1].endswith(b"\r"))
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
        if not self.lines:
            lines[0] = lines[0].removeprefix(_MARK)
        self.lines += data.count(b"\n") if self._indented else len(lines)
        return [line[:-1] if line.endswith(b"\r") else line for line in lines] if carriage_returns else lines

    def close(self) -> bytes | None:
        """What came after the last line end, or None."""
        if not self._pieces:
            return None
        line = b"".join(self._pieces)
        self._pieces.clear()
        if not self.lines:
            line = line.removeprefix(_MARK)
        self.lines += 1
        return line[:-1] if line.endswith(b"\r") else line

    def _keep(self, data: bytes) -> None:
        if not data:
            return
        self._pieces.append(data)
        self._size += len(data)
        if self._size > self._limit:
            raise LineTooLong(self._size, self._limit)
