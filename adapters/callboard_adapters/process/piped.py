"""A child's three pipes on the event loop: no intermediate buffer, reads go straight to a callback.

What the two kinds of child (`child.py`, `windows/child.py`) have in common. Who made the pipes, and how the process
ends, is theirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol


class Listener(Protocol):
    """Who hears of a child. All calls come from the event loop."""

    def stdout_data(self, data: bytes) -> None: ...
    def stdout_ended(self) -> None: ...
    def stderr_data(self, data: bytes) -> None: ...
    def exited(self) -> None: ...


class _ReadPipe(asyncio.Protocol):
    def __init__(self, data: Callable[[bytes], None], ended: Callable[[], None]) -> None:
        self._data = data
        self._ended = ended
        self.closed = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self._data(bytes(data))  # a bytearray on Windows; bytes are not copied

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)
            self._ended()


class _WritePipe(asyncio.BaseProtocol):
    def __init__(self) -> None:
        self.broken = False
        self.lost = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        # The child stopped reading. Not fatal: it may be on its way to a perfectly good answer.
        self.broken = self.broken or exc is not None


class Piped:
    """The pipes of one child, connected one by one: each belongs to this object from then on."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._stdin: asyncio.WriteTransport | None = None
        self._stdin_protocol = _WritePipe()
        self._readers: list[tuple[asyncio.ReadTransport, _ReadPipe]] = []

    async def connect(self, stdin: Any, stdout: Any, stderr: Any) -> None:
        """Put the pipes on the loop, in this order; on Windows these are `PipeHandle`s. `stdin` may be None."""
        loop = asyncio.get_running_loop()
        if stdin is not None:
            self._stdin, _ = await loop.connect_write_pipe(lambda: self._stdin_protocol, stdin)
        for pipe, data, ended in (
            (stdout, self._listener.stdout_data, self._listener.stdout_ended),
            (stderr, self._listener.stderr_data, lambda: None),
        ):
            reader = await loop.connect_read_pipe(lambda d=data, e=ended: _ReadPipe(d, e), pipe)  # type: ignore[misc]  # bound per pipe
            self._readers.append(reader)

    # writing -----------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Queue `data` for stdin; never blocks, and a closed or broken pipe swallows it."""
        if self._stdin is not None and self.stdin_open:
            self._stdin.write(data)

    def close_stdin(self) -> None:
        """End of file after what was queued."""
        if self._stdin is not None and self.stdin_open:
            self._stdin.close()

    @property
    def stdin_open(self) -> bool:
        """Something can still be written, or its end be told."""
        return self._stdin is not None and not self._stdin.is_closing()

    @property
    def stdin_broken(self) -> bool:
        return self._stdin_protocol.broken

    # ending ------------------------------------------------------------------

    async def pipes_closed(self, timeout: float) -> bool:
        """Wait until stdout and stderr have ended; False if somebody still holds one after `timeout` seconds."""
        open_pipes = [p.closed for _, p in self._readers if not p.closed.done()]
        if open_pipes:
            await asyncio.wait(open_pipes, timeout=timeout)
        return all(p.closed.done() for _, p in self._readers)

    def close_pipes(self) -> None:
        """Let go of them. The process must have ended, or is given up on."""
        for transport, _ in self._readers:
            transport.close()
        if self._stdin is not None and not self._stdin_protocol.lost:
            if self._stdin.get_write_buffer_size():
                self._stdin.abort()  # nobody will read the rest
            elif not self._stdin.is_closing():
                self._stdin.close()
