"""The processes of a run on Windows, asked of the job they are in; and found from outside by the run's mark.

The ladder has one rung less than elsewhere. What answers to TERM there is a Ctrl-Break here, which reaches only
processes of the sender's own console; a CLI has a console of its own, so that its programs open no windows. What can be
said to it, beyond its own protocol's cancel, is the end of its stdin.
"""

from __future__ import annotations

import sys

assert sys.platform == "win32"

import asyncio
import time

import psutil

from callboard_adapters.process.environment import RUN_MARKER
from callboard_adapters.process.exits import exits
from callboard_adapters.process.windows.child import Child

_AFTER_KILL = 4.0  # seconds until processes that do not go are given up on (they hang in the kernel)
_ROUND = 0.03


class Family:
    """One child and everything that came of it."""

    def __init__(self, run_id: str, child: Child) -> None:
        self._child = child
        self._hears = False

    async def look_around(self) -> None:
        """Remember whether the child can still be told anything: the job knows its processes without our looking."""
        self._hears = self._child.stdin_open

    async def end_leader(self, grace: float) -> None:
        """End the child and all that came of it, after `grace` seconds if its stdin has just been closed."""
        if self._hears and await exits(self._child.exited, grace):
            return
        self._child.kill()
        await exits(self._child.exited, _AFTER_KILL)

    async def end_rest(self) -> None:
        """End whatever the child left behind. It must have ended itself."""
        self._child.kill()
        deadline = time.monotonic() + _AFTER_KILL
        while self._child.job.active() and time.monotonic() < deadline:  # noqa: ASYNC110 - a job sets no event
            await asyncio.sleep(_ROUND)

    def kill_now(self) -> None:
        """End all of it without an event loop to wait with, and let go of the child."""
        self._child.kill()
        self._child.close()
        self._child.collect()


def run_processes(run_id: str) -> set[psutil.Process]:
    """Every process that carries the mark of the run, except this one and its own ancestors."""
    me = psutil.Process()
    mine = {me.pid, *(p.pid for p in me.parents())}
    return {p for p in psutil.process_iter() if p.pid not in mine and _mark(p) == run_id}


def reap_run(run_id: str, timeout: float = 5.0) -> int:
    """End every process of a run that lost its host. How many were ended; blocks for at most `timeout` seconds.

    A run's job ends with its host, so this normally finds nothing: what is left is a process that was created and had
    not been put into its job when the host was killed.
    """
    found = run_processes(run_id)
    for process in found:
        try:
            process.kill()
        except psutil.Error:
            continue  # it has gone meanwhile, or is not ours to end
    gone, _ = psutil.wait_procs(list(found), timeout)
    return len(gone)


def _mark(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(RUN_MARKER)
    except (psutil.Error, OSError):
        return None  # it has gone meanwhile, or is somebody else's
