"""Sweep: once a minute, what time alone decides. Safe to run twice at once and to stop anywhere: every step is one
conditional move that starts from the state it found, and the next sweep goes on with what is left.

It is everybody's: a task that the store chokes on is logged and passed over, only what was moved counts towards the
bound, and each minute's sweep begins in another shard, so that one cut off half-way is not always cut off there.

    lease ran out, never started          → queued again (new fence at the next claim)
    machine silent beyond the grace       → running tasks fail with ``runtime_offline`` and are retried when it is back
    queued too long                       → failed, ``queued_expired`` (a retry that waits for its machine is exempt)
    deferred and due                      → queued (one that waits for its machine: when the machine is healthy)
    a slot holding an id that is not held → counted and cleared: none may ever exist
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Final

from callboard_control import ports
from callboard_control.actor import SYSTEM
from callboard_control.store import keys, table
from callboard_control.store.errors import ConditionFailed, StoreError
from callboard_control.store.models import SHARDS, DaemonItem, PendingItem, RuntimeItem, SlotItem, TaskItem
from callboard_control.tasks import conditions, ready, record, settle, slot
from callboard_wire.bodies import RUNTIME_FRESH_S
from callboard_wire.failures import FailureReason
from callboard_wire.states import HELD, PREPARING, Move, TaskStatus

T = TaskItem
RECONNECT_GRACE_MS: Final = 3 * 3600 * 1000
"""A machine that slept or lost its network keeps its running tasks this long: the agent may well be working on."""
QUEUED_AT_MOST_MS: Final = 2 * 3600 * 1000
PER_RUN: Final = 5000
EVERY_MS: Final = 60 * 1000
logger: Final = logging.getLogger("callboard.sweep")


@dataclass(slots=True)
class Swept:
    """What one sweep did; `broken` tasks could not be moved, `more` says that it stopped at its bound."""

    requeued: int = 0
    offline: int = 0
    expired: int = 0
    promoted: int = 0
    gave_up: int = 0
    orphan_slots: int = 0
    broken: int = 0
    queued: int = 0
    running: int = 0
    more: bool = False
    _left: int = field(default=PER_RUN, repr=False)
    _until: float = field(default=inf, repr=False)

    def stops(self) -> bool:
        """Whether it has come to its bound or its time is up; `more` says then that the next sweep goes on."""
        self.more = self.more or ports.now_ms() >= self._until
        return self.more

    def try_to(self, move: Callable[[], bool], task_id: str) -> bool:
        """Make one move if the bound allows it; whether it was made. What the store says against it ends that move."""
        if self._left <= 0:
            self.more = True
        if self.stops():
            return False
        try:
            moved = move()
        except StoreError:
            logger.exception("a task could not be moved", extra={"task_id": task_id})
            self.broken += 1
            moved = False
        else:
            self._left -= moved
        return moved


class Machines:
    """The machines of a sweep's tasks, each read once."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[RuntimeItem | None, DaemonItem | None]] = {}

    def of(self, task: TaskItem) -> tuple[RuntimeItem | None, DaemonItem | None]:
        """The task's runtime and its machine, by the task and not by where its agent works now."""
        if task.runtime_id not in self._known:
            runtime = table.get(RuntimeItem, keys.workspace(task.workspace_id), f"RT#{task.runtime_id}")
            machine = table.get(DaemonItem, f"DM#{runtime.daemon}", "D") if runtime is not None else None
            self._known[task.runtime_id] = runtime, machine
        return self._known[task.runtime_id]

    def healthy(self, task: TaskItem, now: int) -> bool:
        runtime, machine = self.of(task)
        if runtime is None or machine is None or runtime.offline is not None:
            return False
        return now - int(machine.seen) <= RUNTIME_FRESH_S * 1000


def sweep(*, grace_ms: int = RECONNECT_GRACE_MS, limit: int = PER_RUN, for_ms: float = inf) -> Swept:
    """One pass over everything time may have decided, or as much of it as `limit` moves and `for_ms` allow.
    `grace_ms`: how long a silent machine keeps its running tasks."""
    swept, machines = Swept(_left=limit, _until=ports.now_ms() + for_ms), Machines()
    first = ports.now_ms() // EVERY_MS
    for n in range(SHARDS):
        shard = (first + n) % SHARDS
        _deferred(shard, swept, machines, grace_ms)
        for daemon in _daemons(shard):
            _held(daemon, swept, machines, grace_ms)
            for runtime_id in daemon.runtimes:
                _queued_too_long(runtime_id, swept)
            if swept.stops():
                return swept
    return swept


def _daemons(shard: int) -> Iterator[DaemonItem]:
    cursor = None
    while True:
        page = table.rows(DaemonItem.list_index, f"DAEMON#{shard}", limit=100, cursor=cursor)
        yield from table.get_many(DaemonItem, [(row.pk, "D") for row in page.items])
        cursor = page.cursor
        if cursor is None:
            break


# ── claimed ──────────────────────────────────────────────────────────────────


def _held(daemon: DaemonItem, swept: Swept, machines: Machines, grace_ms: int) -> None:
    now = ports.now_ms()
    for found in slot.busy_slots(daemon.pk.removeprefix("DM#")):
        ids = sorted(found.running or ())
        tasks = {t.id: t for t in table.get_many(TaskItem, [(keys.task(i), "T") for i in ids])}
        if not ids:
            slot.forget(found)
        for task_id in ids:
            task = tasks.get(task_id)
            if task is None or task.status not in HELD:
                _clear_orphan(found, task_id, swept)
            elif task.status in PREPARING and int(task.lease_until or 0) <= now:
                swept.requeued += swept.try_to(partial(_requeue, task, now), task_id)
            elif task.status == TaskStatus.RUNNING:
                swept.running += 1
                # A slot is found by the machine that was claimed for last; the agent may have worked on another before.
                machine = daemon if task.runtime_id in daemon.runtimes else machines.of(task)[1]
                if machine is None or now - int(machine.seen) > grace_ms:
                    swept.offline += swept.try_to(partial(_offline, task, machine), task_id)


def _requeue(task: TaskItem, now: int) -> bool:
    """A daemon that renewed between the look and the write keeps its task."""
    return settle.requeue(task, SYSTEM, conditions.lease_over(now)).status == TaskStatus.QUEUED


def _offline(task: TaskItem, machine: DaemonItem | None) -> bool:
    name = f" {machine.device_name or machine.daemon_id}" if machine is not None else ""
    message = f"The machine{name} has not been heard of for too long."
    return settle.fail(task, FailureReason.RUNTIME_OFFLINE, message, SYSTEM).status == TaskStatus.FAILED


def _clear_orphan(found: SlotItem, task_id: str, swept: Swept) -> None:
    """The task may have ended between the two reads, which is no fault: look once more before counting."""
    again = table.get(SlotItem, found.pk, "SLOT")
    task = record.load(task_id)
    if again is None or task_id not in (again.running or ()) or (task is not None and task.status in HELD):
        return
    swept.orphan_slots += 1
    table.update(SlotItem(found.pk, "SLOT"), [SlotItem.running.delete({task_id})])


# ── queued ───────────────────────────────────────────────────────────────────


def _queued_too_long(runtime_id: str, swept: Swept) -> None:
    """Turns are creation times less what priority is worth, so everything too old is below one key."""
    cutoff = ports.now_ms() - QUEUED_AT_MOST_MS
    cursor = None
    while True:
        page = table.rows(
            T.ready_index,
            keys.ready_of(runtime_id),
            T.rsk < keys.turn_before(cutoff),
            limit=100,
            cursor=cursor,
        )
        for row in page.items:
            task = record.load(row.pk.removeprefix("TK#"))
            if task is None or task.status != TaskStatus.QUEUED or task.waits_for_runtime:
                continue
            if int(task.queued or task.created) <= cutoff:
                swept.expired += swept.try_to(partial(_expire, task), task.id)
        cursor = page.cursor
        if cursor is None or swept.stops():
            return


def _expire(task: TaskItem) -> bool:
    message = "Nobody took the task within two hours."
    done = settle.refuse(task, FailureReason.QUEUED_EXPIRED, message, Move.EXPIRE)
    return done.status == TaskStatus.FAILED


# ── deferred ─────────────────────────────────────────────────────────────────


def _deferred(n: int, swept: Swept, machines: Machines, grace_ms: int) -> None:
    now = ports.now_ms()
    cursor = None
    while True:
        page = table.rows(T.ready_index, f"DF#{n}", T.rsk <= f"{keys.stamp(now)}#~", limit=100, cursor=cursor)
        for row in page.items:
            task = record.load(row.pk.removeprefix("TK#"))
            if task is None or task.status != TaskStatus.DEFERRED or int(task.fire_at or 0) > now:
                continue
            if not task.waits_for_runtime or machines.healthy(task, now):
                swept.promoted += swept.try_to(partial(promote, task), task.id)
            elif now - int(task.fire_at or 0) > grace_ms:
                swept.gave_up += swept.try_to(partial(_give_up, task), task.id)
        cursor = page.cursor
        if cursor is None or swept.stops():
            return


def _give_up(task: TaskItem) -> bool:
    message = "The machine did not come back in time for the retry."
    done = settle.refuse(task, FailureReason.RUNTIME_RECONNECT_TIMEOUT, message, Move.EXPIRE)
    return done.status == TaskStatus.FAILED


def promote(task: TaskItem) -> bool:
    """deferred → queued. A task of an issue waits on while another one of that issue and agent is queued. One without
    an agent has no place to wait in: it ends here, for no claim would come to meet it."""
    if not task.agent_id:
        done = settle.refuse(task, FailureReason.INVALID_TASK_IDENTITY, "The task names no agent.")
        return done.status == TaskStatus.FAILED
    now = ports.now_ms()
    partition, row = ready.queued_key(task)
    writes: list[table.Write] = [
        table.Update(
            record.keyed(task.id),
            [
                T.status.set(TaskStatus.QUEUED.value),
                T.rpk.set(partition),
                T.rsk.set(row),
                T.queued.set(now),
                T.fire_at.remove(),
                record.moved(Move.PROMOTE, now, SYSTEM),
            ],
            settle.unmoved(task),
        )
    ]
    if task.issue_id:
        place = PendingItem(f"PN#{task.issue_id}", task.agent_id, task_id=task.id)
        writes.append(table.Put(place, conditions.place_is_free()))
    try:
        table.transact(writes)
    except ConditionFailed:
        return False
    ports.ring(task.runtime_id)
    return True
