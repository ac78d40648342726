"""From what an adapter says to what the server stores: numbering, merging, cutting, masking.

A message gets its number when it is spooled, and text that is being merged is spooled before anything that came after
it: the order the server shows is the order things happened in. Numbers rise by one (the server refuses gaps) and go on
rising across a run's second session.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal

from callboard_adapters import redact
from callboard_adapters.messages import Message, MessageType, TokenUsage
from callboard_daemon.spool import Spool
from callboard_wire.bodies import MAX_MESSAGE_BYTES, MAX_TOOL_OUTPUT_BYTES, TaskMessage, UsageRow

MERGE_S: Final = 0.25
"""Chunks of text closer together than this travel as one message."""
_SHORTEST_SECRET: Final = 6
_INPUT_BYTES: Final = 32 * 1024
_LABEL_BYTES: Final = 500
"""Of tools' names and calls' ids; the server keeps no more."""
_MAX_DEPTH: Final = 32

WireType = Literal["text", "thinking", "tool_use", "tool_result", "status", "error", "log"]
_WIRE_TYPE: Final[Mapping[MessageType, WireType]] = {
    MessageType.TEXT: "text",
    MessageType.THINKING: "thinking",
    MessageType.TOOL_USE: "tool_use",
    MessageType.TOOL_RESULT: "tool_result",
    MessageType.ERROR: "error",
    MessageType.LOG: "log",
}
_MERGED: Final = frozenset({MessageType.TEXT, MessageType.THINKING})


class Masker:
    """Takes known secrets (exact values) and everything that looks like one out of what is stored. What the agent's own
    process sees is never touched: it would write the mask back into files."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # A short value ("1", "true") would mask half the transcript and is no secret worth the name.
        self._secrets = sorted({s for s in secrets if len(s) >= _SHORTEST_SECRET}, key=len, reverse=True)

    def text(self, value: str) -> str:
        for secret in self._secrets:
            if secret in value:
                value = value.replace(secret, redact.MASK)
        return _encodable(redact.text(value))

    def value(self, item: Any) -> Any:
        return redact.value(self._known(item))

    def _known(self, item: Any, depth: int = 0) -> Any:
        if isinstance(item, str):
            return self.text(item)
        if depth > _MAX_DEPTH:  # `redact.value` masks what is deeper; to go there would be a RecursionError
            return redact.MASK
        if isinstance(item, Mapping):
            return {self.text(str(key)): self._known(each, depth + 1) for key, each in item.items()}
        return [self._known(each, depth + 1) for each in item] if isinstance(item, list | tuple) else item


class Reporter:
    """Takes a run's messages on the event loop and spools them; `on_spooled` is told whenever there is one to send."""

    def __init__(self, spool: Spool, masker: Masker, on_spooled: Callable[[], None], *, first_seq: int = 1) -> None:
        self._spool = spool
        self._masker = masker
        self._on_spooled = on_spooled
        self._seq = first_seq
        self._open: TaskMessage | None = None
        self._open_type: MessageType | None = None
        self._chunks: list[str] = []
        self._chunk_bytes = 0
        self._flush_at: asyncio.TimerHandle | None = None
        self._tool_of_call: dict[str, str] = {}
        self.tools_used = 0

    def accept(self, message: Message) -> None:
        """One message of the run. States are the daemon's business; a sentence with one (a retry, a wait, a question
        left open) is for people, and is a line of the transcript."""
        if message.type is MessageType.STATUS:
            if message.content:
                self.note(message.content, level="info")
            return
        if message.type in _MERGED:
            self._merge(message)
            return
        self.flush()
        if message.type is MessageType.TOOL_USE:
            self.tools_used += 1
            self._tool_of_call[message.call_id] = message.tool
        self._put(self._single(message))

    def note(self, text: str, *, level: str = "warn") -> None:
        """A line of the daemon's own in the transcript."""
        self.accept(Message(MessageType.LOG, content=text, level=level))

    def flush(self) -> None:
        """Close the text that is being merged."""
        if self._flush_at is not None:
            self._flush_at.cancel()
            self._flush_at = None
        if self._open is not None:
            content = self._masker.text("".join(self._chunks))
            self._put(self._open.model_copy(update={"content": content}))
        self._open = self._open_type = None
        self._chunks, self._chunk_bytes = [], 0

    def close(self) -> None:
        """Nothing more will come."""
        self.flush()
        if missing := self._spool.dropped:
            text = f"{missing} messages were left out: the server could not be reached for too long"
            self._put(self._single(Message(MessageType.LOG, content=text, level="warn")), beyond_limit=True)
        self._spool.close()

    def _merge(self, message: Message) -> None:
        same = (
            self._open is not None
            and self._open_type is message.type
            and self._open.parent_call_id == _label(message.parent_call_id)
            and self._chunk_bytes < MAX_MESSAGE_BYTES // 2
        )
        if not same:
            self.flush()
        for piece in _pieces(message.content, MAX_MESSAGE_BYTES // 2):
            if self._chunk_bytes >= MAX_MESSAGE_BYTES // 2:
                self.flush()
            if self._open is None:
                self._open = _unnumbered(message)
                self._open_type = message.type
                self._flush_at = asyncio.get_running_loop().call_later(MERGE_S, self.flush)
            self._chunks.append(piece)
            self._chunk_bytes += len(piece.encode("utf-8", "replace"))

    def _single(self, message: Message) -> TaskMessage:
        mask = self._masker
        tool = _label(message.tool or self._tool_of_call.get(message.call_id, ""))
        content = _cut(mask.text(message.content), MAX_MESSAGE_BYTES // 2)
        return _unnumbered(message).model_copy(
            update={
                "tool": tool,
                "content": content,
                "input": _bounded(mask.value(message.input)) if message.input is not None else None,
                "output": _cut(mask.text(_cut(message.output, 2 * MAX_TOOL_OUTPUT_BYTES)), MAX_TOOL_OUTPUT_BYTES),
            }
        )

    def _put(self, message: TaskMessage, *, beyond_limit: bool = False) -> None:
        if self._spool.append(message.model_copy(update={"seq": self._seq}), beyond_limit=beyond_limit):
            self._seq += 1
            self._on_spooled()


def _unnumbered(message: Message) -> TaskMessage:
    return TaskMessage(
        seq=1,
        type=_WIRE_TYPE[message.type],
        call_id=_label(message.call_id),
        parent_call_id=_label(message.parent_call_id),
        status=_label(message.status),
        level=_label(message.level),
        created_at=datetime.now(UTC),
    )


def usage_rows(provider: str, usage: Mapping[str, TokenUsage]) -> list[UsageRow]:
    """One row a model; a row of zeros without a cost says nothing and is left out."""
    return [
        UsageRow(
            provider=provider,
            model=_label(model),
            input_tokens=tokens.input_tokens,
            output_tokens=tokens.output_tokens,
            cache_read_tokens=tokens.cache_read_tokens,
            cache_write_tokens=tokens.cache_write_tokens,
            cost_usd_ticks=tokens.cost_usd_ticks,
        )
        for model, tokens in usage.items()
        if tokens.tokens or tokens.cost_usd_ticks
    ]


def _label(text: str) -> str:
    """A name or id as a CLI said it: it may hold what has no UTF-8, and be of any length."""
    return _cut(_encodable(text), _LABEL_BYTES)


def _encodable(text: str) -> str:
    """Half a surrogate pair (JSON allows `"\\ud83d"`, and CLIs that cut strings print it) has no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def _cut(text: str, limit: int) -> str:
    """`text` within `limit` bytes of UTF-8, never inside a character; says how much was cut."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit:
        return text
    kept = raw[: limit - 40].decode("utf-8", "ignore")
    return f"{kept}\n… [{len(raw) - len(kept.encode())} bytes cut]"


def _pieces(text: str, limit: int) -> Iterable[str]:
    """`text` in pieces of at most `limit` characters / 4, so that no piece is over `limit` bytes."""
    step = limit // 4
    return (text[start : start + step] for start in range(0, len(text), step))


def _bounded(item: Any) -> Any:
    """A tool's input as it is, or its beginning as text when it is huge (a whole file being written)."""
    text = json.dumps(item, ensure_ascii=False, default=str)
    return (
        item
        if len(text) <= _INPUT_BYTES // 4 or len(text.encode()) <= _INPUT_BYTES
        else {"cut": _cut(text, _INPUT_BYTES)}
    )
