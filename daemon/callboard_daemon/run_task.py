"""One claimed task, from the claim to the server's confirmation of its end. The only place that knows the order:

write it down  →  prepare (lease renewed)  →  start  →  run (messages up, cancel down)  →  finish  →  clean up
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from callboard_adapters.errors import AdapterError, ExecutionError
from callboard_daemon.control import Control
from callboard_daemon.deliver import Delivered, Delivery
from callboard_daemon.discover import Found
from callboard_daemon.errors import ControlError, PrepareError
from callboard_daemon.execenv.environment import secrets_of
from callboard_daemon.execute import Ran, execute
from callboard_daemon.finish import ending_of, ending_without_run, keepable
from callboard_daemon.metrics import Metrics
from callboard_daemon.prepare import Machine, Prepared, check_identity, prepare
from callboard_daemon.providers import Providers
from callboard_daemon.rediscover import look_and_tell
from callboard_daemon.register import Registration
from callboard_daemon.report import Masker, Reporter
from callboard_daemon.retry import retrying, task_lost, worth_another_try
from callboard_daemon.runs import Ending, RunFolder
from callboard_daemon.skills import Skills
from callboard_daemon.spool import Spool
from callboard_daemon.stop import StopCause, StopSignal
from callboard_wire.bodies import RENEW_LEASE_EVERY_S, ClaimedTask, PrepareLeaseRequest, StartRequest, TaskState
from callboard_wire.environment import refused_keys
from callboard_wire.failures import FailureReason

log = logging.getLogger(__name__)
T = TypeVar("T")

HOLD_SLOT_S = 20.0
"""How long a finished run keeps its place while its end is being delivered. The place is given back before the server
knows only when the server does not answer: holding it longer would let a broken route stop the whole machine."""


@dataclass(frozen=True, slots=True)
class Kit:
    """What every run needs from the daemon."""

    control: Control
    machine: Machine
    metrics: Metrics
    providers: Providers
    registration: Registration
    skills: Skills


@dataclass(slots=True)
class Run:
    """One task on this machine while it is being worked on."""

    kit: Kit
    task: ClaimedTask
    slot: int
    folder: RunFolder
    stop: StopSignal
    mask: Masker
    reporter: Reporter
    delivery: Delivery
    confirmed: bool = False  # the server knows that the run has started: the lease is over
    over: bool = False

    def heard(self, state: TaskState) -> None:
        """What the server says about the task with every answer. A task it has ended in any way (cancelled, or given
        up because this machine was away) is stopped; transcript and usage still go up, under our own claim."""
        if not self.over and (state.stop or state.status.terminal):
            self.stop.ask(StopCause.CANCELLED)


async def run_task(
    kit: Kit, task: ClaimedTask, slot: int, folder: RunFolder, stop: StopSignal
) -> asyncio.Task[Delivered]:
    """Work on `task`; returns when its place can be given away. The returned task ends with the delivery, which may
    take as long as the network does. Never raises for what goes wrong with the task."""
    run = _open(kit, task, slot, folder, stop)
    sending = asyncio.create_task(run.delivery.run())
    sending.add_done_callback(lambda done: _lost_while_running(done, stop))
    try:
        ending = await _work(run)
    except Exception as error:  # a bug in one run must not end the others; it is logged, and said where people look
        log.exception("task %s: unexpected error", task.id)
        ending = ending_without_run(
            folder.record, stop.cause, f"the daemon failed: {type(error).__name__}: {error}", FailureReason.UNKNOWN
        )
    run.over = True
    run.reporter.close()
    if stop.cause is StopCause.LOST:
        sending.cancel()
        await asyncio.wait([sending])
        kit.metrics.add("callboard_daemon_tasks_total", 'end="lost"')
        log.warning("task ended here without a report: it is not ours any more")
    else:
        folder.end(ending)
        kit.metrics.add("callboard_daemon_tasks_total", f'end="{ending.kind}"')
        log.info("task ends as %s %s", ending.kind, ending.fail.failure_reason if ending.fail else "")
        run.delivery.wake()
        await asyncio.wait([sending], timeout=HOLD_SLOT_S)
    return asyncio.create_task(_remove_when_done(sending, folder))


def _open(kit: Kit, task: ClaimedTask, slot: int, folder: RunFolder, stop: StopSignal) -> Run:
    spool = Spool(folder.spool_file, kit.machine.settings.spool_limit)
    mask = Masker(secrets_of(task))
    delivery = Delivery(kit.control, folder, spool)

    def spooled() -> None:
        kit.metrics.add("callboard_daemon_messages_total")
        delivery.wake()

    reporter = Reporter(spool, mask, spooled, first_seq=spool.last_seq() + 1)
    run = Run(kit, task, slot, folder, stop, mask, reporter, delivery)
    delivery.on_state = run.heard
    return run


async def _work(run: Run) -> Ending:
    """Prepare, start, run; how it ended. Raises only for bugs."""
    try:
        if run.folder.broken:
            raise PrepareError(
                run.folder.broken, failure_reason=FailureReason.PROCESS, hint="make room on this machine"
            )
        check_identity(run.task)
        async with _watched(run):
            prepared = await _prepare(run)
            try:
                ran = await _start_and_run(run, prepared)
            finally:
                await asyncio.to_thread(_clean_up, prepared)
    except _Stopped:
        return ending_without_run(run.folder.record, run.stop.cause, "", FailureReason.RUNTIME_RECOVERY)
    except PrepareError as error:
        log.warning("task could not be prepared: %s", error)
        return ending_without_run(run.folder.record, run.stop.cause, run.mask.text(str(error)), error.failure_reason)
    except ExecutionError as error:
        log.warning("agent could not be started: %s", error)
        return ending_without_run(run.folder.record, run.stop.cause, run.mask.text(str(error)), error.failure_reason)
    except AdapterError as error:
        return ending_without_run(
            run.folder.record, run.stop.cause, run.mask.text(str(error)), FailureReason.MISSING_EXECUTABLE
        )
    return ending_of(ran, run.folder.record, run.stop.cause, run.mask)


class _Stopped(Exception):
    """The end was asked for before the agent had started."""


async def _prepare(run: Run) -> Prepared:
    task, machine = run.task, run.kit.machine
    deadline = time.monotonic() + machine.settings.prepare_timeout
    found = await _provider(run)
    fetching = asyncio.create_task(run.kit.skills.of_task(task))
    try:
        bundles = await _unless_stopped(run, fetching, deadline)
    except ControlError as error:
        run.stop.ask(StopCause.LOST)
        raise _Stopped from error
    finally:
        fetching.cancel()
    path = run.kit.providers.inventory.path
    work = asyncio.create_task(asyncio.to_thread(prepare, task, found, path, machine, run.slot, bundles))
    try:
        return await _unless_stopped(run, work, deadline)
    except BaseException:
        work.add_done_callback(_release_late)  # a thread cannot be ended; what it holds is let go when it comes back
        raise


async def _unless_stopped(run: Run, work: asyncio.Task[T], deadline: float) -> T:
    """What `work` gives, unless the run is stopped before, or it takes too long; then it is still at work."""
    stopping = asyncio.create_task(run.stop.wait())
    left = max(0.0, deadline - time.monotonic())
    done, _ = await asyncio.wait([work, stopping], timeout=left, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if work in done:
        return work.result()
    if stopping in done:
        raise _Stopped
    raise PrepareError(
        f"the task's folder was not ready within {run.kit.machine.settings.prepare_timeout:g} seconds",
        failure_reason=FailureReason.TIMEOUT,
    )


async def _provider(run: Run) -> Found:
    """The CLI to use, as it is on this machine now. Raises `PrepareError`."""
    providers, known = run.kit.providers, run.kit.registration.runtimes
    if run.task.runtime_id not in known:
        raise PrepareError(
            "this machine does not offer the task's runtime any more", failure_reason=FailureReason.RUNTIME_OFFLINE
        )
    profile_id = run.kit.registration.profiles.get(run.task.runtime_id)
    name = run.task.provider or known[run.task.runtime_id]
    if providers.replaced(_at_hand(providers, name, profile_id)):
        await look_and_tell(providers, run.kit.registration)
    found = _at_hand(providers, name, profile_id)
    if isinstance(found, str):
        raise PrepareError(f"{name} cannot run here: {found}", failure_reason=FailureReason.MISSING_EXECUTABLE)
    return found


def _at_hand(providers: Providers, name: str, profile_id: str | None) -> Found | str:
    """What runs the task as of the last look, or why nothing does. A profile is never stood in for by the built-in CLI
    of its family."""
    if profile_id is not None:
        return providers.custom.get(profile_id, "its runtime profile is not known here any more")
    return providers.inventory.found.get(name) or providers.inventory.skipped.get(name, "it is not known here")


async def _start_and_run(run: Run, prepared: Prepared) -> Ran:
    """The server hears of the start only now that the workdir exists: people and tools look into it from then on."""
    task, folder = run.task, run.folder
    folder.update(started=True, work_dir=str(prepared.root.workdir))
    if refused := refused_keys(task.agent.custom_env):
        run.reporter.note(
            f"These names may not be set by an agent's environment and were left out: {', '.join(refused)}"
        )
    if run.stop.cause is not None:
        raise _Stopped
    settings = run.kit.machine.settings
    body = StartRequest(claim_id=task.claim_id, fence=task.fence, work_dir=folder.record.work_dir)
    try:
        started = await retrying(
            lambda: run.kit.control.start(task.id, body), within=settings.prepare_timeout, until=worth_another_try
        )
    except ControlError as error:
        if task_lost(error):
            run.stop.ask(StopCause.LOST)
            raise _Stopped from error
        raise PrepareError(f"the start was refused: {error}", failure_reason=FailureReason.RUNTIME_RECOVERY) from error
    run.confirmed = True
    run.heard(started)
    if run.stop.cause is not None:
        raise _Stopped
    log.info("agent starts in %s", prepared.root.workdir)
    return await execute(
        task,
        prepared,
        settings,
        folder.record.run_id,
        run.reporter,
        run.stop,
        lambda session: _pin(run, session),
    )


def _pin(run: Run, session_id: str) -> None:
    """Tell the server which conversation this is while it runs: after a crash it is what the next attempt resumes."""
    if keepable(session_id) and session_id != run.folder.record.session_id:
        run.folder.update(session_id=session_id)
        run.delivery.wake()


@asynccontextmanager
async def _watched(run: Run) -> AsyncIterator[None]:
    """Renew the lease until the run has started; ask whether to stop whenever nothing else has been heard lately."""
    tasks = [asyncio.create_task(_keep_lease(run)), asyncio.create_task(_watch(run))]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled() and (bug := task.exception()) is not None:
                log.error("a watcher of the run failed", exc_info=bug)


async def _keep_lease(run: Run) -> None:
    task = run.task
    body = PrepareLeaseRequest(claim_id=task.claim_id, fence=task.fence)
    while not run.confirmed:
        await asyncio.sleep(min(RENEW_LEASE_EVERY_S, task.lease_s / 3))
        if not run.confirmed:
            await _listen(run, lambda: run.kit.control.prepare_lease(task.runtime_id, task.id, body))


async def _watch(run: Run) -> None:
    every = max(0.1, run.kit.machine.settings.cancel_poll)
    asked_at = 0.0
    while True:
        heard = max(run.delivery.heard_at, asked_at)
        await asyncio.sleep(max(0.05, heard + every - time.monotonic()))
        if time.monotonic() - max(run.delivery.heard_at, asked_at) >= every:
            asked_at = time.monotonic()
            await _listen(run, lambda: run.kit.control.status(run.task.id))


async def _listen(run: Run, ask: Callable[[], Awaitable[TaskState]]) -> None:
    """A flaky link must not end an agent's work: only the server's clear word does."""
    try:
        run.heard(await ask())
    except ControlError as error:
        if task_lost(error):
            run.stop.ask(StopCause.LOST)
        else:
            run.kit.metrics.add("callboard_daemon_control_errors_total", f'kind="{type(error).__name__}"')


def _lost_while_running(sending: asyncio.Task[Delivered], stop: StopSignal) -> None:
    if not sending.cancelled() and sending.exception() is None and sending.result() is Delivered.LOST:
        stop.ask(StopCause.LOST)


async def _remove_when_done(sending: asyncio.Task[Delivered], folder: RunFolder) -> Delivered:
    try:
        delivered = await sending
    except asyncio.CancelledError:
        if not sending.cancelled():
            raise  # the daemon ends: what is not delivered stays on disk for the next one
        delivered = Delivered.LOST
    folder.remove()
    return delivered


def _release_late(work: asyncio.Task[Prepared]) -> None:
    if not work.cancelled() and work.exception() is None:
        work.result().root.release()


def _clean_up(prepared: Prepared) -> None:
    """The workdir stays for people and for the next run of the conversation; the temporary files do not."""
    shutil.rmtree(prepared.root.tmp, ignore_errors=True)
    prepared.root.release()
