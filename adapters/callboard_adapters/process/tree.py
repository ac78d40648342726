"""Which processes belong to a run, and ending all of them.

The group of the leader is not enough: several CLIs start their tools in a session of their own, launchers orphan the
real process, servers daemonise. A process belongs to a run if one of these holds:

- it is a descendant of the leader by parent links,
- it is in the leader's process group or session,
- its environment carries the run's marker (`environment.RUN_MARKER`), which every fork and exec hands down,
- it descends from a process found by one of these.

On Linux this process also becomes a *child subreaper*, so orphans of a run come to us instead of to init: then they
are found by parent links too, and do not pile up as zombies in a container whose first process reaps nobody.
A process is named by pid *and* kernel start time; a recycled pid is never signalled.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass

import psutil

from callboard_adapters.process.environment import RUN_MARKER

_PR_SET_CHILD_SUBREAPER = 36
_MAX_ENVIRON = 1 << 20
_LINUX = sys.platform.startswith("linux")


@dataclass(frozen=True, slots=True)
class Proc:
    """One process as the kernel saw it. `started` is its start time in the kernel's ticks, or seconds off Linux."""

    pid: int
    started: float
    ppid: int
    pgid: int
    sid: int
    zombie: bool


def become_subreaper() -> bool:
    """Adopt orphaned descendants of this process. True where the system can; idempotent, and inherited by nobody."""
    if not _LINUX:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def identify(pid: int) -> Proc | None:
    """The living (or zombie) process `pid`, or None."""
    if _LINUX:
        return _linux(pid)
    return portable(pid)


def run_processes(run_id: str, leader: Proc | None = None, known: Iterable[Proc] = ()) -> set[Proc]:
    """Every process of a run except this one and its own ancestors, zombies included.

    `leader` (may be dead by now) adds its group and session and bounds the search to younger processes; `known` are
    processes found before, whose descendants count even if their parent has died since.
    """
    table = _table()
    marker = f"{RUN_MARKER}={run_id}".encode()
    born = leader.started if leader else 0.0
    found: dict[int, Proc] = {}
    for old in known:
        now = table.get(old.pid)
        if now is not None and now.started == old.started:
            found[now.pid] = now
    for proc in table.values():
        if (leader is not None and leader.pid in (proc.pid, proc.pgid, proc.sid) and proc.started >= born) or (
            proc.started >= born and not proc.zombie and proc.pid not in found and _has_marker(proc.pid, marker)
        ):
            found[proc.pid] = proc
    _add_descendants(found, table)
    for mine in _self_and_ancestors(table):
        found.pop(mine, None)
    return set(found.values())


def signal_all(procs: Iterable[Proc], sig: signal.Signals) -> None:
    """Signal each process that is still the one we saw. One that has gone, or is not ours to signal, is skipped."""
    for proc in procs:
        now = None if proc.zombie else identify(proc.pid)
        if now is None or now.started != proc.started or now.zombie:
            continue
        try:
            os.kill(proc.pid, sig)
        except (ProcessLookupError, PermissionError):
            continue


def reap_zombies(procs: Iterable[Proc]) -> None:
    """Collect those of `procs` that are our own (adopted) children and have ended.

    Only processes known to be of a run are waited for: waiting for "any child" would steal the exit status of other
    subprocesses of this program.
    """
    me = os.getpid()
    for proc in procs:
        now = identify(proc.pid)
        if now is None or now.started != proc.started or not now.zombie or now.ppid != me:
            continue
        try:
            os.waitpid(proc.pid, os.WNOHANG)
        except ChildProcessError:
            continue


def reap_strays() -> None:
    """Collect zombies we adopted without ever having seen them alive (a tool's short-lived background job).

    Such a process is in a session other than ours, because every run has its own, and is not the leader of that
    session, as a process this program started itself in a new session would be. Nothing else is touched.
    """
    me = os.getpid()
    my_session = os.getsid(0)
    for proc in _table().values():
        if proc.ppid == me and proc.zombie and proc.sid not in (my_session, proc.pid, 0):
            reap_zombies([proc])


def reap_run(run_id: str, timeout: float = 5.0) -> int:
    """End every process of a run: TERM, then KILL until nobody is found. How many were ended.

    Blocks for at most `timeout` seconds. Safe on a run that never existed. This is what a daemon calls at its start
    for the runs it was in the middle of when it was killed.
    """
    ended: set[tuple[int, float]] = set()
    deadline = time.monotonic() + timeout
    sig = signal.SIGTERM
    known: set[Proc] = set()
    while True:
        known |= run_processes(run_id, known=known)
        living = {p for p in known if (now := identify(p.pid)) and now.started == p.started and not now.zombie}
        if not living or time.monotonic() > deadline:
            reap_zombies(known)
            return len(ended)
        ended |= {(p.pid, p.started) for p in living}
        signal_all(living, sig)
        if sig is signal.SIGTERM:
            signal_all(living, signal.SIGCONT)  # a stopped process does not hear TERM
            _wait_gone(living, min(1.0, timeout / 2))
            sig = signal.SIGKILL
        else:
            _wait_gone(living, 0.1)


def _wait_gone(procs: set[Proc], seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and any(
        (n := identify(p.pid)) and n.started == p.started and not n.zombie for p in procs
    ):
        time.sleep(0.02)


def _add_descendants(found: dict[int, Proc], table: dict[int, Proc]) -> None:
    children: dict[int, list[Proc]] = {}
    for proc in table.values():
        children.setdefault(proc.ppid, []).append(proc)
    queue = list(found)
    while queue:
        for child in children.get(queue.pop(), ()):
            if child.pid not in found:
                found[child.pid] = child
                queue.append(child.pid)


def _self_and_ancestors(table: dict[int, Proc]) -> set[int]:
    seen: set[int] = set()
    pid = os.getpid()
    while pid > 0 and pid not in seen:
        seen.add(pid)
        pid = table[pid].ppid if pid in table else 0
    return seen


def _table() -> dict[int, Proc]:
    if not _LINUX:
        return {p.pid: p for p in map(portable, psutil.pids()) if p is not None}
    names = os.listdir("/proc")  # noqa: PTH208 - a Path per process costs more than reading it
    return {p.pid: p for name in names if name.isdecimal() and (p := _linux(int(name))) is not None}


def _has_marker(pid: int, marker: bytes) -> bool:
    if _LINUX:
        return marker in _proc_file(pid, "environ", _MAX_ENVIRON).split(b"\0")
    try:
        name, _, value = marker.decode().partition("=")
        return psutil.Process(pid).environ().get(name) == value
    except (psutil.Error, OSError):
        return False


def _linux(pid: int) -> Proc | None:
    stat = _proc_file(pid, "stat", 1024)
    if not stat:
        return None
    # The command name may hold spaces and parentheses; what follows the last one is plain.
    fields = stat[stat.rindex(b")") + 2 :].split(None, 20)
    return Proc(pid, float(fields[19]), int(fields[1]), int(fields[2]), int(fields[3]), fields[0] in (b"Z", b"X"))


def _proc_file(pid: int, name: str, size: int) -> bytes:
    """At most `size` bytes of /proc/<pid>/<name>; b"" for a process that has gone or is somebody else's.

    With plain system calls: this runs once per process of the machine at the end of every run, beside other runs.
    """
    try:
        fd = os.open(f"/proc/{pid}/{name}", os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(fd, size)
    except OSError:
        return b""
    finally:
        os.close(fd)


def portable(pid: int) -> Proc | None:
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            zombie = process.status() == psutil.STATUS_ZOMBIE
            return Proc(pid, process.create_time(), process.ppid(), os.getpgid(pid), os.getsid(pid), zombie)
    except (psutil.Error, OSError):
        return None
