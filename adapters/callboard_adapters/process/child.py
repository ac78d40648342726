"""One child process on Linux or macOS: its own session, its exit seen without polling.

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
from collections.abc import Mapping, Sequence
from typing import IO

from callboard_adapters.process import tree
from callboard_adapters.process.exits import tell_exit
from callboard_adapters.process.piped import Listener, Piped

_PIPE_SIZE = 1 << 20  # bytes: the most an ordinary user may have


def _widen(pipe: IO[bytes] | None) -> None:
    """A CLI that ends with its output still queued loses what the pipe does not hold: seen with 64 KiB and 2 MB."""
    if pipe is not None and hasattr(fcntl, "F_SETPIPE_SZ"):
        try:
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
        except OSError:
            return  # this user has many pipes open; the ordinary size does for most CLIs


class Child(Piped):
    """A running child. Made by `start`."""

    def __init__(self, popen: subprocess.Popen[bytes], listener: Listener) -> None:
        super().__init__(listener)
        self._popen = popen
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
            await child.connect(popen.stdin, popen.stdout, popen.stderr)
        except BaseException:  # cancelled, or no file descriptor left: nobody else knows of this process yet
            child.kill()
            child.close()
            child._close_unconnected()
            child.collect()
            raise
        return child

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

    def kill(self) -> None:
        """End the group at once."""
        self.signal_group(signal.SIGKILL)

    def close(self) -> None:
        """Let go of the pipes and of the exit watch. The process must have ended, or is given up on."""
        self.close_pipes()
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
        tell_exit(self._popen, self._seen_exit)

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
