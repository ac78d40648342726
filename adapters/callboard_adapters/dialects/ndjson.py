"""One JSON object a line: what all line protocols share.

Lines that are not such an object happen in every CLI (banners, loggers that interleave their bytes, warnings of a
runtime): they are counted, told to the user once, and never end a run.
"""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic_core import from_json

from callboard_adapters import redact
from callboard_adapters.messages import Message, MessageType

_HALVES = re.compile("[\ud800-\udfff]")
"""Half a surrogate pair: JSON may escape it (a CLI cut a string in the middle of an emoji), no text can hold it, and
whoever prints or stores it would fail."""
_SHOWN = 200  # characters of a noise line in its notice


def without_halves(value: Any) -> Any:
    """A JSON value whose texts hold no half of a surrogate pair; U+FFFD stands where one was."""
    return json.loads(_HALVES.sub("\ufffd", json.dumps(value, ensure_ascii=False)))


class LineParser:
    """Parses lines and counts what it could not parse."""

    __slots__ = ("_notices", "invalid_utf8", "noise")

    def __init__(self) -> None:
        self.noise = 0
        self.invalid_utf8 = 0
        self._notices: list[Message] = []

    def parse(self, line: bytes) -> dict[str, Any] | None:
        """The object on the line; None for a blank line and for noise (then see `notices`). Never raises."""
        try:
            value = from_json(line)
        except ValueError as error:
            # Bottomless nesting is noise: what can be read of it could still not be written out again.
            value = None if "recursion" in str(error) else self._second_look(line)
        if type(value) is dict:
            return value
        if line.strip():
            self._count_noise(line)
        return None

    def notices(self) -> list[Message]:
        """Messages about noise since the last call: one for the first noise line, one for the first bad byte."""
        said, self._notices = self._notices, []
        return said

    @property
    def has_notices(self) -> bool:
        return bool(self._notices)

    def _second_look(self, line: bytes) -> Any:
        """What the fast parser refuses and CLIs do print: bytes that are not UTF-8, lone surrogates, NaN."""
        text = line.decode("utf-8", "replace")
        if "�" in text and not self._is_utf8(line):
            if not self.invalid_utf8:
                self._notices.append(Message(MessageType.LOG, "output holds bytes that are not UTF-8", level="warn"))
            self.invalid_utf8 += 1
        if text[:1] != "{":
            return None
        try:
            return without_halves(json.loads(text))
        except (ValueError, RecursionError):
            return None

    @staticmethod
    def _is_utf8(line: bytes) -> bool:
        try:
            line.decode()
        except UnicodeDecodeError:
            return False
        return True

    def _count_noise(self, line: bytes) -> None:
        self.noise += 1
        if self.noise == 1:
            shown = redact.diagnostic(line[: 4 * _SHOWN].decode("utf-8", "replace"))[:_SHOWN]
            self._notices.append(Message(MessageType.LOG, f"output that is not the protocol's: {shown}", level="warn"))
