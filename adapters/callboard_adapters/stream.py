"""The messages of a run on their way to a consumer who may be slow, gone, or never there.

The run never waits for its consumer. What the consumer has not taken yet is held here, up to a bound; text and
thinking that wait are merged, and beyond the bound what does not fit is replaced by one log message that says how
much. So a consumer that is behind loses detail visibly and never the result.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace

from callboard_adapters.messages import Message, MessageType

MERGE_FROM = 512  # waiting messages from which on deltas are merged; until then a reader gets them one by one
MAX_WAITING = 1024  # messages
MAX_WAITING_BYTES = 16 << 20  # of their text
_MERGE_UP_TO = 64 << 10  # a merged message is not grown beyond this, so that merging stays linear
_DELTAS = (MessageType.TEXT, MessageType.THINKING)


class MessageStream:
    """An async iterator with one queue: several readers share it, and it may be read after the run has ended."""

    def __init__(self) -> None:
        self._waiting: deque[Message] = deque()
        self._bytes = 0
        self._ended = False
        self._readers: list[asyncio.Future[None]] = []
        self._overflow = (0, 0)  # messages, bytes
        self.folded = 0

    def __aiter__(self) -> MessageStream:
        return self

    async def __anext__(self) -> Message:
        while not self._waiting:
            if self._ended:
                raise StopAsyncIteration
            # One future a waiting reader, awaited directly: a shared one behind a shield costs two rounds of the loop.
            mine = asyncio.get_running_loop().create_future()
            self._readers.append(mine)
            await mine
        message = self._waiting.popleft()
        self._bytes -= _size(message)
        return message

    def put(self, message: Message) -> None:
        """Queue a message. Never blocks; ignored after `end`."""
        if self._ended:
            return
        size = _size(message)
        waiting = len(self._waiting)
        if waiting >= MERGE_FROM or (waiting and self._bytes + size > MAX_WAITING_BYTES):
            if not self._overflow[0] and self._merge(message, size):
                return
            if waiting >= MAX_WAITING or self._bytes + size > MAX_WAITING_BYTES:
                self._overflow = (self._overflow[0] + 1, self._overflow[1] + size)
                self.folded += 1
                return
        if self._overflow[0]:
            self._flush_overflow()
        self._append(message, size)

    def end(self) -> None:
        """No more messages. What waits can still be read."""
        self._flush_overflow()
        self._ended = True
        self._wake()

    def _merge(self, message: Message, size: int) -> bool:
        last = self._waiting[-1]
        if (
            message.type not in _DELTAS
            or last.type is not message.type
            or last.parent_call_id != message.parent_call_id
        ):
            return False
        if len(last.content) + size > _MERGE_UP_TO or self._bytes + size > MAX_WAITING_BYTES:
            return False
        # A new object: the old one may already be in a reader's hands.
        self._waiting[-1] = replace(last, content=last.content + message.content)
        self._bytes += size
        self.folded += 1
        return True

    def _flush_overflow(self) -> None:
        count, size = self._overflow
        if not count:
            return
        self._overflow = (0, 0)
        text = f"{count} messages ({size} characters) are not shown: whoever reads this run fell behind"
        self._append(Message(MessageType.LOG, text, level="warn"), len(text))

    def _append(self, message: Message, size: int) -> None:
        self._waiting.append(message)
        self._bytes += size
        if self._readers:
            self._wake()

    def _wake(self) -> None:
        readers, self._readers = self._readers, []
        for reader in readers:
            if not reader.done():  # its task was cancelled
                reader.set_result(None)


def _size(message: Message) -> int:
    """Characters of the message's text; a tool's input counts by its strings, one level deep."""
    size = len(message.content) + len(message.output)
    if message.input:
        size += sum(len(v) for v in message.input.values() if isinstance(v, str))
    return size
