"""CLIs without a protocol: the answer is plain text on stdout, everything else is in files they write.

Three pure readers: the text (`PlainText`), the log (`LogFacts`), and the transcript, a file of JSON lines that still
holds the answer when stdout got none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from callboard_adapters.dialects.ndjson import LineParser
from callboard_adapters.messages import Message, MessageType

_CONVERSATION = re.compile(
    rb"conversation=([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12})"
)
_TIMED_OUT = re.compile(rb"Print mode: timed out after \d+ polls")
_EXECUTOR = re.compile(rb"agent executor error: ([^\n]*)")
_DATA_FOLDER = re.compile(rb"CLI app data directory: ([^\n]*)")
_GONE = re.compile(rb"conversation[^\n]{0,80}not found", re.IGNORECASE)


class PlainText:
    """Lines of an answer. Blank ones are kept in the answer and are no messages of their own."""

    def __init__(self) -> None:
        self.invalid_utf8 = 0
        self._lines: list[str] = []
        self._waiting = 0  # blank lines since the last message

    def receive(self, line: bytes) -> list[Message]:
        """One line of stdout, as a message with its line end."""
        try:
            text = line.decode()
        except UnicodeDecodeError:
            self.invalid_utf8 += 1
            text = line.decode("utf-8", "replace")
        text = text.removesuffix("\r")
        self._lines.append(text)
        if not text.strip():
            self._waiting += 1
            return []
        blank, self._waiting = "\n" * self._waiting, 0
        return [Message(MessageType.TEXT, f"{blank}{text}\n")]

    @property
    def answer(self) -> str:
        return "\n".join(self._lines).strip()


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What a log says about its run; empty where it says nothing."""

    conversation: str = ""
    timed_out: bool = False
    error: str = ""
    data_folder: str = ""
    gone: bool = False  # the conversation that was asked for does not exist

    @classmethod
    def read(cls, log: bytes) -> LogFacts:
        """The last of each counts: a conversation may be renamed, an error repeated."""
        return cls(
            conversation=_last(_CONVERSATION, log),
            timed_out=bool(_TIMED_OUT.search(log)),
            error=_last(_EXECUTOR, log),
            data_folder=_last(_DATA_FOLDER, log),
            gone=bool(_GONE.search(log)),
        )


def answers(transcript: bytes) -> list[str]:
    """What the model said since the user's last input."""
    parser = LineParser()
    said: list[str] = []
    for line in transcript.splitlines():
        record = parser.parse(line)
        if record is None:
            continue
        if record.get("type") == "USER_INPUT":
            said = []
        wanted = ("PLANNER_RESPONSE", "MODEL", "DONE")
        if (record.get("type"), record.get("source"), record.get("status")) == wanted:
            content = record.get("content")
            if isinstance(content, str) and content.strip():
                said.append(content)
    return said


def _last(pattern: re.Pattern[bytes], log: bytes) -> str:
    found = pattern.findall(log)
    return found[-1].decode("utf-8", "replace").strip() if found else ""
