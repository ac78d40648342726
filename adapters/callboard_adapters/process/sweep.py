"""The stop ladder. Every rung is bounded; after the last one nothing of the run is alive.

close stdin  →  TERM to the group  →  `grace` seconds  →  KILL to the group
then, however the leader ended:  TERM to what it left  →  a moment  →  KILL, again and again until nobody is found
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterable

from callboard_adapters.process import tree
from callboard_adapters.process.child import Child
from callboard_adapters.process.exits import exits
from callboard_adapters.process.tree import Proc

_AFTER_KILL = 2.0  # seconds until a killed leader is given up on (it hangs in the kernel)
_LEFT_GRACE = 0.5  # seconds a survivor has between TERM and KILL
_SWEEP_LIMIT = 4.0  # seconds in all; processes that are born while we kill are found again until then
_ROUND = 0.03


class Family:
    """The processes of one child of a run, wherever they went. As `windows.family.Family`, which has a job to ask."""

    def __init__(self, run_id: str, child: Child) -> None:
        self._run_id = run_id
        self._child = child
        self._seen: set[Proc] = set()

    async def look_around(self) -> None:
        """Remember which processes there are now: later some can be told from strangers only by this."""
        found = await asyncio.to_thread(tree.run_processes, self._run_id, self._child.identity, tuple(self._seen))
        self._seen |= found

    async def end_leader(self, grace: float) -> None:
        """End the child and its group: TERM, then KILL after `grace` seconds. Its stdin has been closed."""
        await end_group(self._child, grace)

    async def end_rest(self) -> None:
        """End whatever the child left behind. It must have ended itself."""
        await sweep(self._run_id, self._child.identity, self._seen)

    def kill_now(self) -> None:
        """End all of it without an event loop to wait with, and let go of the child."""
        found = tree.run_processes(self._run_id, self._child.identity)
        self._child.kill()
        tree.signal_all(found, signal.SIGKILL)
        self._child.close()
        self._child.collect()
        tree.reap_zombies(found)


async def end_group(child: Child, grace: float) -> None:
    """End the leader and its group: TERM, then KILL after `grace` seconds."""
    child.signal_group(signal.SIGTERM)
    child.signal_group(signal.SIGCONT)  # a stopped process does not hear TERM
    if await exits(child.exited, grace):
        return
    child.signal_group(signal.SIGKILL)
    await exits(child.exited, _AFTER_KILL)


async def sweep(run_id: str, leader: Proc | None, seen: Iterable[Proc] = ()) -> list[int]:
    """End everything of the run that is still alive; `seen` are processes found while the leader lived.

    The pids that could not be ended (normally none).
    """
    deadline = time.monotonic() + _SWEEP_LIMIT
    known = set(seen)
    sig = signal.SIGTERM
    while True:
        known |= await asyncio.to_thread(tree.run_processes, run_id, leader, known)
        living = {p for p in known if not p.zombie and _alive(p)}
        tree.reap_zombies(known)
        if not living or time.monotonic() > deadline:
            tree.reap_strays()
            return sorted(p.pid for p in living)
        tree.signal_all(living, sig)
        if sig is signal.SIGTERM:
            tree.signal_all(living, signal.SIGCONT)
            await _gone(living, _LEFT_GRACE)
            sig = signal.SIGKILL
        else:
            await _gone(living, _ROUND)


async def _gone(procs: set[Proc], seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and any(map(_alive, procs)):  # noqa: ASYNC110 - the kernel sets no event for us here
        await asyncio.sleep(_ROUND)


def _alive(proc: Proc) -> bool:
    now = tree.identify(proc.pid)
    return now is not None and now.started == proc.started and not now.zombie
