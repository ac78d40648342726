"""One child process: pipes without an intermediate buffer, its own session, its exit seen without polling.

asyncio's own subprocess support is not used: its stdin may be a socket pair, which a child cannot reopen as
/dev/stdin; its StreamReader copies every line twice and stops at a limit; its child watcher differs by Python version
and by who set it. Here the reads go straight to a callback, and the exit is seen through a pidfd (a thread that waits,
where the system has none).
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Protocol

from callboard_adapters.process import tree


class Listener(Protocol):
    """Who hears of a child. All calls come from the event loop."""

    def stdout_data(self, data: bytes) -> None: ...
    def stdout_ended(self) -> None: ...
    def stderr_data(self, data: bytes) -> None: ...
    def exited(self) -> None: ...


_PIPE_SIZE = 1 << 20  # bytes: the most an ordinary user may have


def _widen(pipe: IO[bytes] | None) -> None:
    """A CLI that ends with its output still queued loses what the pipe does not hold: seen with 64 KiB and 2 MB."""
    if pipe is not None and hasattr(fcntl, "F_SETPIPE_SZ"):
        try:
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
        except OSError:
            return  # this user has many pipes open; the ordinary size does for most CLIs


class _ReadPipe(asyncio.Protocol):
    def __init__(self, data: Callable[[bytes], None], ended: Callable[[], None]) -> None:
        self._data = data
        self._ended = ended
        self.closed = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self._data(data)

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


class Child:
    """A running child. Made by `start`."""

    def __init__(self, popen: subprocess.Popen[bytes], listener: Listener) -> None:
        self._popen = popen
        self._listener = listener
        self._stdin: asyncio.WriteTransport | None = None
        self._stdin_protocol = _WritePipe()
        self._readers: list[tuple[asyncio.ReadTransport, _ReadPipe]] = []
        self._pidfd = -1
        self.pid = popen.pid
        self.identity = tree.identify(popen.pid)
        self.exited = asyncio.Event()

    @classmethod
    async def start(
        cls, argv: Sequence[str], *, env: Mapping[str, str], cwd: str, stdin: bool, listener: Listener
    ) -> Child:
        """Start `argv` in a session and group of its own. `stdin` False gives it the null device.

        Raises OSError (the system refused) or ValueError (a NUL byte).
        """
        tree.become_subreaper()
        popen = subprocess.Popen(  # noqa: ASYNC220 - a vfork: the loop waits the millisecond until exec
            argv,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=dict(env),
            start_new_session=True,
            bufsize=0,
        )
        _widen(popen.stdout)
        child = cls(popen, listener)
        child._watch_exit()
        try:
            await child._connect()
        except BaseException:  # cancelled, or no file descriptor left: nobody else knows of this process yet
            child.signal_group(signal.SIGKILL)
            child.close()
            child._close_unconnected()
            child.collect()
            raise
        return child

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        if self._popen.stdin is not None:
            self._stdin, _ = await loop.connect_write_pipe(lambda: self._stdin_protocol, self._popen.stdin)
        for pipe, data, ended in (
            (self._popen.stdout, self._listener.stdout_data, self._listener.stdout_ended),
            (self._popen.stderr, self._listener.stderr_data, lambda: None),
        ):
            reader = await loop.connect_read_pipe(lambda d=data, e=ended: _ReadPipe(d, e), pipe)  # type: ignore[misc]  # bound per pipe
            self._readers.append(reader)

    # writing -----------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Queue `data` for stdin; never blocks, and a closed or broken pipe swallows it."""
        if self._stdin is not None and not self._stdin.is_closing():
            self._stdin.write(data)

    def close_stdin(self) -> None:
        """End of file after what was queued."""
        if self._stdin is not None and not self._stdin.is_closing():
            self._stdin.close()

    @property
    def stdin_broken(self) -> bool:
        return self._stdin_protocol.broken

    # ending ------------------------------------------------------------------

    @property
    def returncode(self) -> int | None:
        """As `Popen.returncode`: negative is the signal that ended it."""
        return self._popen.returncode

    def signal_group(self, sig: signal.Signals) -> None:
        """Signal the child's whole group. Nothing once the child has been reaped: its number may be somebody else's."""
        if self._popen.returncode is not None:
            return
        try:
            if os.getpgid(self.pid) != self.pid:
                raise RuntimeError(f"child {self.pid} does not lead its own group")  # would signal ourselves
            os.killpg(self.pid, sig)
        except (ProcessLookupError, PermissionError):
            return

    async def pipes_closed(self, timeout: float) -> bool:
        """Wait until stdout and stderr have ended; False if somebody still holds one after `timeout` seconds."""
        open_pipes = [p.closed for _, p in self._readers if not p.closed.done()]
        if open_pipes:
            await asyncio.wait(open_pipes, timeout=timeout)
        return all(p.closed.done() for _, p in self._readers)

    def close(self) -> None:
        """Let go of the pipes and of the exit watch. The process must have ended, or is given up on."""
        for transport, _ in self._readers:
            transport.close()
        if self._stdin is not None and not self._stdin_protocol.lost:
            if self._stdin.get_write_buffer_size():
                self._stdin.abort()  # nobody will read the rest
            elif not self._stdin.is_closing():
                self._stdin.close()
        self._unwatch()

    def _close_unconnected(self) -> None:
        """Close the pipes that no transport owns: the start ended before they were connected."""
        unread = (self._popen.stdout, self._popen.stderr)[len(self._readers) :]
        for pipe in (self._popen.stdin if self._stdin is None else None, *unread):
            if pipe is not None:
                pipe.close()

    def collect(self, timeout: float = 1.0) -> None:
        """Take the exit status of a killed child, blocking: for when there is no event loop left to wait with."""
        try:
            self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            return  # it hangs in the kernel

    # the exit ----------------------------------------------------------------

    def _watch_exit(self) -> None:
        loop = asyncio.get_running_loop()
        if sys.platform == "linux":
            try:
                self._pidfd = os.pidfd_open(self.pid)
            except OSError:
                self._pidfd = -1  # kernel before 5.3, or a seccomp filter that does not know the call
        if self._pidfd >= 0:
            loop.add_reader(self._pidfd, self._seen_exit)
            return

        def wait() -> None:
            self._popen.wait()
            try:
                loop.call_soon_threadsafe(self._seen_exit)
            except RuntimeError:
                return  # the loop has gone; nobody is left to hear of it

        threading.Thread(target=wait, name=f"wait-{self.pid}", daemon=True).start()

    def _seen_exit(self) -> None:
        if self._popen.poll() is None or self.exited.is_set():
            return
        self._unwatch()
        self.exited.set()
        self._listener.exited()

    def _unwatch(self) -> None:
        if self._pidfd >= 0:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
