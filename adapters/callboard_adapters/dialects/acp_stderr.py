"""What ACP agents write beside the protocol: shown as log messages, and searched for provider errors.

Agents built on a Python logger echo whole requests there; a record of level INFO or DEBUG is never an error, whatever
words it quotes.
"""

from __future__ import annotations

import re
from collections import deque

from callboard_adapters import redact
from callboard_adapters.messages import Message, MessageType

_SHOWN_LINES = 400  # of one run
_SHOWN_CHARS = 2000  # of one line
_KEPT_CHARS = 4096
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_RECORD = re.compile(r"^\d{4}-\d\d-\d\d[T ]\S+ \[?(DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)\]?[ :]")
_LEVEL = re.compile(r"\b(DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)\b")
_WORDS = {"DEBUG": "debug", "INFO": "debug", "WARN": "warn", "WARNING": "warn"}
_MARK = ("⚠", "❌", "[ERROR]")
_PROVIDER = re.compile(r"BadRequestError|AuthenticationError|RateLimitError|HTTP \d{3}|Non-retryable|API call failed")
_DETAIL = re.compile(r"(?:Error|detail|Details):\s*(.+)")
_CODE = re.compile(r"""['"]code['"]: ?['"](\w+)['"]""")
_FINAL = re.compile(r"❌|\[ERROR\]|after \d+ retr|Non-retryable|BadRequestError|AuthenticationError")
_ATTEMPT = re.compile(r"\(attempt (\d+)/(\d+)\)")


class Stderr:
    """One process's standard error, line by line."""

    def __init__(self) -> None:
        self.final = False  # an error after which nothing is tried again was announced
        self.attempt = ""  # the last announced retry, whole
        self._found: deque[str] = deque(maxlen=8)
        self._lines = 0

    def take(self, line: bytes) -> list[Message]:
        """The line as a log message, and a status message when it announces a retry."""
        said = _ANSI.sub("", line.decode("utf-8", "replace")).rstrip()
        if not said.strip():
            return []
        record = _RECORD.match(said)
        level = _level(record.group(1) if record else said, bool(record))
        outputs = self._shown(said, level)
        if record and level == "debug":
            return outputs
        return outputs + self._examine(said, bool(record))

    @property
    def provider_error(self) -> str:
        """The most telling line about a provider error, "" without one."""
        details = [d.group(1).strip() for d in map(_DETAIL.search, self._found) if d]
        return details[0] if details else (self._found[-1] if self._found else "")

    @property
    def provider_code(self) -> str | None:
        """The provider's own word for its error (`insufficient_quota`), where the agent printed its body."""
        return next((c.group(1) for c in map(_CODE.search, self._found) if c), None)

    # the parts -------------------------------------------------------------------

    def _shown(self, said: str, level: str) -> list[Message]:
        self._lines += 1
        if self._lines > _SHOWN_LINES:
            return []
        text = redact.diagnostic(said[:_SHOWN_CHARS])
        shown = [Message(MessageType.LOG, text, level=level)]
        if self._lines == _SHOWN_LINES:
            shown.append(Message(MessageType.LOG, "further lines of stderr are not shown", level="warn"))
        return shown

    def _examine(self, said: str, record: bool) -> list[Message]:
        kept = said.strip()[:_KEPT_CHARS]
        marked = any(mark in said for mark in _MARK) and _PROVIDER.search(said)
        if (marked or (_DETAIL.search(said) and not record and self._found)) and kept not in self._found:
            self._found.append(kept)
        attempt = _ATTEMPT.search(said)
        if marked and attempt and not record:
            self.attempt = kept
            text = f"the provider refused attempt {attempt.group(1)} of {attempt.group(2)}: {redact.diagnostic(kept)}"
            return [Message(MessageType.STATUS, text, status="retrying")]
        if marked and not attempt and _FINAL.search(said):
            self.final = True
        return []


def without_echoes(tail: str) -> str:
    """The tail of stderr without the logger's records of level INFO and DEBUG: they quote requests and prompts."""
    records = ((line, _RECORD.match(line)) for line in tail.splitlines())
    return "\n".join(line for line, r in records if not (r and _level(r.group(1), True) == "debug"))


def _level(said: str, is_record: bool) -> str:
    if is_record:
        return _WORDS.get(said, "error")
    found = _LEVEL.search(said[:80])
    return _WORDS.get(found.group(1), "error") if found else "info"
