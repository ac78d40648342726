"""One child process on Windows: in a job from its first instruction on, with overlapped pipes and a hidden console.

It is created suspended, put into its job and resumed: no process it starts escapes in between. It has a console, so
that the programs it starts do not open windows of their own, and not ours, so that a Ctrl-C typed at us is not heard
there. A thread waits for its exit: what the loop could wait with is not part of asyncio's public face.
"""

from __future__ import annotations

import sys

assert sys.platform == "win32"

import asyncio
import errno
import msvcrt
import os
import subprocess
from asyncio.windows_utils import PipeHandle, pipe
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import psutil

from callboard_adapters.process.exits import tell_exit
from callboard_adapters.process.piped import Listener, Piped
from callboard_adapters.process.windows.job import Job
from callboard_adapters.process.windows.programs import runnable

_CREATE_SUSPENDED = 0x4  # the one flag that subprocess does not name
_MAX_COMMAND_LINE = 32_766  # characters, without the NUL
_PIPE_SIZE = 1 << 20  # bytes: what node has not written when it exits is lost


class Child(Piped):
    """A running child. Made by `start`."""

    def __init__(self, popen: subprocess.Popen[bytes], job: Job, listener: Listener) -> None:
        super().__init__(listener)
        self._popen = popen
        self.job = job
        self.pid = popen.pid
        self.exited = asyncio.Event()

    @classmethod
    async def start(
        cls, argv: Sequence[str], *, env: Mapping[str, str], cwd: str, stdin: bool, listener: Listener
    ) -> Child:
        """Start `argv` in a job of its own. `stdin` False gives it the null device. Needs the proactor loop, asyncio's
        own choice on Windows.

        Raises OSError (the system refused, or a batch file cannot be given these arguments) or ValueError (a NUL byte).
        """
        command = runnable(argv, env)
        with ExitStack() as on_failure:
            job = Job()
            on_failure.callback(job.close)
            with ExitStack() as theirs:
                to_child, its_stdin = (
                    _pipe(on_failure, theirs, child_reads=True) if stdin else (None, subprocess.DEVNULL)
                )
                from_child, its_stdout = _pipe(on_failure, theirs, child_reads=False)
                errors, its_stderr = _pipe(on_failure, theirs, child_reads=False)
                popen = _suspended(command, (its_stdin, its_stdout, its_stderr), cwd, env)
            child = cls(popen, job, listener)
            on_failure.callback(child.collect)
            on_failure.callback(child.close)
            on_failure.callback(popen.kill)  # it may not be in the job yet
            job.add(popen.pid)
            child._watch_exit()
            await child.connect(to_child, from_child, errors)
            _resume(popen.pid)
            on_failure.pop_all()
        return child

    # ending ------------------------------------------------------------------

    @property
    def returncode(self) -> int | None:
        """The exit code, 0 to 2³²-1. Windows has no signals: a process that was ended looks like one that failed."""
        return self._popen.returncode

    def kill(self) -> None:
        """End the child and everything that came of it, at once."""
        self.job.terminate()

    def close(self) -> None:
        """Let go of the pipes, and end what is still in the job."""
        self.close_pipes()
        self.job.close()

    def collect(self, timeout: float = 1.0) -> None:
        """Take the exit status of a killed child, blocking: for when there is no event loop left to wait with."""
        try:
            self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            return  # it hangs in the kernel

    def _watch_exit(self) -> None:
        tell_exit(self._popen, self._seen_exit)

    def _seen_exit(self) -> None:
        self.exited.set()
        self._listener.exited()


def _pipe(ours: ExitStack, theirs: ExitStack, *, child_reads: bool) -> tuple[PipeHandle, int]:
    """Our end of a new pipe, and a descriptor of the child's; each stack closes its end."""
    if child_reads:
        # Two ways, because the loop reads from our end to see that the child has closed its own.
        far, near = pipe(overlapped=(False, True), duplex=True)
    else:
        near, far = pipe(overlapped=(True, False), bufsize=_PIPE_SIZE)
    fd = msvcrt.open_osfhandle(far, os.O_RDONLY if child_reads else 0)
    theirs.callback(os.close, fd)
    handle = PipeHandle(near)
    ours.callback(handle.close)
    return handle, fd


def _suspended(
    command: list[str], std: tuple[int, int, int], cwd: str, env: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    if len(subprocess.list2cmdline(command)) > _MAX_COMMAND_LINE:
        # The system would say that the file was not found.
        raise OSError(errno.E2BIG, "the command line is longer than the system allows")
    return subprocess.Popen(
        command,
        stdin=std[0],
        stdout=std[1],
        stderr=std[2],
        cwd=cwd,
        env=_environment(env),
        creationflags=_CREATE_SUSPENDED | subprocess.CREATE_NO_WINDOW,
    )


def _resume(pid: int) -> None:
    try:
        psutil.Process(pid).resume()
    except psutil.Error as error:
        raise OSError(f"process {pid} could not be resumed: {error}") from error


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    """`env` with every name once: `Path` and `PATH` are one variable, and the later one is meant.

    And with SYSTEMROOT: a program that has none finds neither its random numbers nor its sockets.
    """
    one = {name.upper(): value for name, value in env.items()}
    return {"SYSTEMROOT": os.environ["SYSTEMROOT"], **one}
