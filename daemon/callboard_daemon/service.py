"""The daemon's life: lock, local address, discovery, registration, recovery, work, drain."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import psutil

from callboard_daemon import version
from callboard_daemon.claim import keep_claiming
from callboard_daemon.control import Control
from callboard_daemon.credentials import read_credentials, server_of
from callboard_daemon.deliver import Delivered
from callboard_daemon.discover import Found
from callboard_daemon.errors import ControlError, NotAuthorised, StateError
from callboard_daemon.execenv.commands import write_commands
from callboard_daemon.heartbeat import keep_beating
from callboard_daemon.local_http import LocalFace, serve_locally
from callboard_daemon.logs import about
from callboard_daemon.metrics import Metrics
from callboard_daemon.paths import Paths
from callboard_daemon.prepare import Machine
from callboard_daemon.providers import Providers
from callboard_daemon.recover import deliver_leftover, recover_orphans, settle_runs
from callboard_daemon.rediscover import keep_discovering
from callboard_daemon.register import Registration
from callboard_daemon.retry import pause
from callboard_daemon.run_task import Kit, run_task
from callboard_daemon.runs import leftover_runs, open_run
from callboard_daemon.settings import Settings
from callboard_daemon.skill_cache import SkillCache
from callboard_daemon.skills import Skills
from callboard_daemon.slots import Slots
from callboard_daemon.state import Record, daemon_id, forget, hold_profile, write_record
from callboard_daemon.stop import StopCause, StopSignal
from callboard_wire.bodies import ClaimedTask, DeregisterRequest

log = logging.getLogger(__name__)

STOP_WITHIN_S: Final = 15.0
"""After the drain's own time: how long cancelled runs may take to end and to be reported."""


@dataclass(slots=True)
class Daemon:
    """Everything that lives as long as the process."""

    paths: Paths
    settings: Settings
    environ: Mapping[str, str]
    control: Control
    daemon_id: str
    slots: Slots
    providers: Providers
    metrics: Metrics = field(default_factory=Metrics)
    status: str = "starting"
    detail: str = ""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    hurry: asyncio.Event = field(default_factory=asyncio.Event)
    look: asyncio.Event = field(default_factory=asyncio.Event)
    runs: dict[asyncio.Task[None], StopSignal] = field(default_factory=dict)
    deliveries: set[asyncio.Task[Any]] = field(default_factory=set)
    started: float = field(default_factory=time.monotonic)
    port: int = 0

    def ask_to_stop(self) -> None:
        """Once: drain. Again: drain without waiting for the running tasks."""
        if self.stopping.is_set():
            self.hurry.set()
        self.stopping.set()


async def run_daemon(paths: Paths, settings: Settings, environ: Mapping[str, str], flags: Sequence[str] = ()) -> None:
    """Be this profile's daemon until asked to stop (SIGTERM, SIGINT, /shutdown), then drain. `flags` are the options
    it was started with, kept for a restart.

    Raises `AlreadyRunning`, `StateError`, `SettingError` or `NotLoggedIn` when it cannot start, `NotAuthorised` when
    the server refuses the login. A server that cannot be reached is waited for.
    """
    with hold_profile(paths):
        server = server_of(paths, settings)
        async with AsyncExitStack() as stack:
            control = await stack.enter_async_context(
                Control(server, token="", version=version(), timeout=settings.http_timeout)
            )
            daemon = Daemon(
                paths,
                settings,
                environ,
                control,
                daemon_id(paths),
                Slots(settings.max_concurrent_tasks),
                Providers(settings, environ, paths),
            )
            _listen_to_signals(daemon)
            await stack.enter_async_context(_local_address(daemon, flags))
            await _live(daemon)


async def _live(daemon: Daemon) -> None:
    await daemon.providers.look()
    leftovers = await settle_runs(daemon.paths.runs_dir, daemon.control.server_url)
    registration = _registration(daemon)
    if not await _registered(daemon, registration):
        return
    keep = [run.record.task_id for run in leftovers]
    await recover_orphans(daemon.control, sorted(registration.runtimes), keep)
    for run in leftovers:
        _deliver(daemon, deliver_leftover(daemon.control, run, daemon.settings.spool_limit))
    skills = Skills(daemon.control, SkillCache(daemon.paths.skills_dir))
    kit = Kit(daemon.control, _machine(daemon), daemon.metrics, daemon.providers, registration, skills)
    loops = [
        asyncio.create_task(keep_beating(registration)),
        asyncio.create_task(keep_discovering(daemon.providers, registration, daemon.look)),
    ]
    claiming = asyncio.create_task(
        keep_claiming(
            registration,
            daemon.slots,
            daemon.settings.claim_wait,
            daemon.metrics,
            lambda task, slot: _take(daemon, kit, task, slot),
        )
    )
    daemon.status, daemon.detail = "running", ""
    stopping = asyncio.create_task(daemon.stopping.wait())
    try:
        done, _ = await asyncio.wait([stopping, claiming, *loops], return_when=asyncio.FIRST_COMPLETED)
        for ended in done - {stopping}:
            log.critical("a part of the daemon has failed; it drains and ends", exc_info=ended.exception())
    finally:
        await _cancel([claiming])
        await _drain(daemon)
        await _cancel(loops)
        await _deregister(daemon, registration)


async def _registered(daemon: Daemon, registration: Registration) -> bool:
    """Register, however long the network takes; False when told to stop meanwhile."""
    attempt = 0
    while not daemon.stopping.is_set():
        attempt += 1
        try:
            await registration.register()
        except NotAuthorised:
            raise
        except ControlError as error:
            daemon.detail = error.message
            log.warning("cannot register yet: %s", error)
            await _first(daemon.stopping.wait(), timeout=pause(attempt, error))
        else:
            return True
    return False


def _take(daemon: Daemon, kit: Kit, task: ClaimedTask, slot: int) -> None:
    """Begin to work on a claimed task; its slot comes back when it may be given away."""
    stop = StopSignal()
    running = asyncio.create_task(_work(daemon, kit, task, slot, stop))
    daemon.runs[running] = stop
    daemon.metrics.set("callboard_daemon_tasks_running", len(daemon.runs))

    def ended(_: asyncio.Task[None]) -> None:
        daemon.runs.pop(running, None)
        if not running.cancelled() and (bug := running.exception()) is not None:
            log.critical("task %s was dropped; its lease gives it back", task.id, exc_info=bug)
        daemon.metrics.set("callboard_daemon_tasks_running", len(daemon.runs))
        daemon.slots.give_back(slot)

    running.add_done_callback(ended)


async def _work(daemon: Daemon, kit: Kit, task: ClaimedTask, slot: int, stop: StopSignal) -> None:
    with about(
        task_id=task.id, claim_id=task.claim_id or "", runtime_id=task.runtime_id, workspace_id=task.workspace_id
    ):
        log.info("claimed a task of agent %s, attempt %d", task.agent.name, task.attempt)
        folder = open_run(daemon.paths.runs_dir, task, daemon.control.server_url)
        delivering = await run_task(kit, task, slot, folder, stop)
        daemon.deliveries.add(delivering)
        delivering.add_done_callback(daemon.deliveries.discard)


def _deliver(daemon: Daemon, work: Coroutine[Any, Any, Delivered | None]) -> None:
    delivering = asyncio.create_task(work)
    daemon.deliveries.add(delivering)
    delivering.add_done_callback(daemon.deliveries.discard)


async def _drain(daemon: Daemon) -> None:
    """Let running tasks finish for a while, then hand them back; then give what is undelivered a last chance."""
    daemon.status = "draining"
    if daemon.runs:
        log.info("draining %d tasks for up to %g s", len(daemon.runs), daemon.settings.drain_timeout)
        waiting = asyncio.create_task(asyncio.wait(list(daemon.runs)))
        await _first(waiting, daemon.hurry.wait(), timeout=daemon.settings.drain_timeout)
        for stop in daemon.runs.values():
            stop.ask(StopCause.DRAIN)
    left: list[asyncio.Task[Any]] = [*daemon.runs, *daemon.deliveries]
    if left:
        await asyncio.wait(left, timeout=STOP_WITHIN_S)
    if daemon.runs or daemon.deliveries:
        log.warning("%d reports are not delivered; the next start goes on", len(daemon.runs) + len(daemon.deliveries))
    await _cancel([*daemon.runs, *daemon.deliveries])


async def _deregister(daemon: Daemon, registration: Registration) -> None:
    if not registration.runtimes:
        return
    try:
        await daemon.control.deregister(DeregisterRequest(runtime_ids=sorted(registration.runtimes)))
    except ControlError as error:
        log.info("not deregistered: %s", error)


def _registration(daemon: Daemon) -> Registration:
    def persons_token() -> str | None:
        if daemon.settings.token:
            return daemon.settings.token
        known = read_credentials(daemon.paths)
        return known.token if known and known.server_url == daemon.control.server_url else None

    return Registration(
        control=daemon.control,
        paths=daemon.paths,
        daemon_id=daemon.daemon_id,
        device=daemon.settings.device,
        version=version(),
        providers=daemon.providers,
        persons_token=persons_token,
    )


def _machine(daemon: Daemon) -> Machine:
    try:
        bin_dir = write_commands(daemon.paths.bin_dir)
    except OSError as error:
        raise StateError(f"cannot write {daemon.paths.bin_dir}: {error.strerror}") from error
    return Machine(
        settings=daemon.settings,
        workspaces_root=daemon.settings.workspaces_root or daemon.paths.workspaces_root,
        bin_dir=bin_dir,
        environ=daemon.environ,
        server_url=daemon.control.server_url,
        daemon_port=daemon.port,
    )


@asynccontextmanager
async def _local_address(daemon: Daemon, flags: Sequence[str]) -> AsyncIterator[None]:
    secret = secrets.token_urlsafe(32)
    doors = {b"/shutdown": daemon.ask_to_stop, b"/look": daemon.look.set}
    face = LocalFace(lambda: health(daemon), lambda: _metrics(daemon), doors, secret)
    async with serve_locally(face) as port:
        daemon.port = port
        created = psutil.Process().create_time()
        write_record(
            daemon.paths, Record(os.getpid(), created, port, secret, version(), daemon.control.server_url, list(flags))
        )
        try:
            yield
        finally:
            forget(daemon.paths.record_file)


def health(daemon: Daemon) -> dict[str, Any]:
    """What /health shows; nothing secret."""
    return {
        "status": daemon.status,
        "detail": daemon.detail,
        "pid": os.getpid(),
        "profile": daemon.paths.profile,
        "daemon_id": daemon.daemon_id,
        "device_name": daemon.settings.device,
        "server_url": daemon.control.server_url,
        "version": version(),
        "uptime_s": round(time.monotonic() - daemon.started, 1),
        "slots": daemon.slots.size,
        "running_tasks": len(daemon.runs),
        "providers": {name: found.version for name, found in sorted(daemon.providers.inventory.found.items())},
        "profiles": {n: found.version for n, found in daemon.providers.named() if isinstance(found, Found)},
        "failed_profiles": {n: found for n, found in daemon.providers.named() if isinstance(found, str)},
        "skipped": dict(sorted(daemon.providers.inventory.skipped.items())),
    }


def _metrics(daemon: Daemon) -> str:
    process = psutil.Process()
    times = process.cpu_times()
    daemon.metrics.set("callboard_daemon_resident_bytes", process.memory_info().rss)
    daemon.metrics.set("callboard_daemon_cpu_seconds_total", times.user + times.system)
    daemon.metrics.set("callboard_daemon_slots", daemon.slots.size)
    daemon.metrics.set("callboard_daemon_undelivered_runs", sum(1 for _ in leftover_runs(daemon.paths.runs_dir)))
    return daemon.metrics.render()


def _listen_to_signals(daemon: Daemon) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, daemon.ask_to_stop)


async def _first(*waits: Any, timeout: float) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    await _cancel(tasks)


async def _cancel(tasks: list[Any]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
