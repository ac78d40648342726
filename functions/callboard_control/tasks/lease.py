"""The prepare lease: until when a claimed task belongs to its claimer without having started."""

from __future__ import annotations

from pynamodb.expressions.condition import Condition

from callboard_control import ports
from callboard_control.actor import Daemon
from callboard_control.store import table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.models import TaskItem
from callboard_control.tasks import conditions, guard, record
from callboard_wire.bodies import PREPARE_LEASE_S, Fenced, TaskState
from callboard_wire.states import PREPARING, Move, TaskStatus

T = TaskItem
TOKENS_AT_ONCE = 10
LEASE_MS = int(PREPARE_LEASE_S * 1000)
PREPARING_VALUES = [s.value for s in sorted(PREPARING)]


def renew(daemon: Daemon, task_id: str, proof: Fenced) -> TaskState:
    """Push the lease 45 s ahead. A task that has started needs none: the answer says what it is."""
    task = guard.held_by(daemon, task_id, proof)
    if task.status not in PREPARING:
        return guard.state(task)
    try:
        task = table.update(record.keyed(task.id), [T.lease_until.set(ports.now_ms() + LEASE_MS)], _same_claim(task))
    except ConditionFailed:
        task = guard.held_by(daemon, task_id, proof)
    return guard.state(task, lease_s=PREPARE_LEASE_S if task.status in PREPARING else None)


def wait_for_directory(daemon: Daemon, task_id: str, proof: Fenced, reason: str) -> TaskState:
    """dispatched → waiting_local_directory: another run holds the folder. Repeating it only renews the lease."""
    task = guard.held_by(daemon, task_id, proof)
    if task.status == TaskStatus.WAITING_LOCAL_DIRECTORY or record.status_of(task).terminal:
        return renew(daemon, task_id, proof)
    if task.status != TaskStatus.DISPATCHED:
        raise guard.wrong_state(task, Move.WAIT)
    now = ports.now_ms()
    actions = [
        T.status.set(TaskStatus.WAITING_LOCAL_DIRECTORY.value),
        T.wait_reason.set(reason or "a local folder is in use"),
        T.lease_until.set(now + LEASE_MS),
        record.moved(Move.WAIT, now, "", int(task.fence or 0)),
    ]
    try:
        task = table.update(
            record.keyed(task.id),
            actions,
            conditions.all_of(conditions.in_state(TaskStatus.DISPATCHED.value), conditions.fence_is(task)),
        )
    except ConditionFailed:
        return renew(daemon, task_id, proof)
    return guard.state(task, lease_s=PREPARE_LEASE_S)


def again(task: TaskItem, digest: str) -> TaskItem | None:
    """The claim's answer was lost: the same claim, one more valid token (the first answer may still arrive; one of many
    calls ago will not)."""
    add = len(task.token_digests or ()) < TOKENS_AT_ONCE
    try:
        return table.update(
            record.keyed(task.id),
            [
                T.token_digests.add({digest}) if add else T.token_digests.set({digest}),
                T.lease_until.set(ports.now_ms() + LEASE_MS),
            ],
            _same_claim(task),
        )
    except ConditionFailed:
        return None


def reclaim(task: TaskItem, claim_id: str, digest: str) -> TaskItem | None:
    """The lease ran out: the same runtime takes the task anew, under a new fence. The slot stays taken throughout."""
    now = ports.now_ms()
    fence = int(task.fence or 0) + 1
    actions = [
        T.status.set(TaskStatus.DISPATCHED.value),
        T.dispatched.set(now),
        T.lease_until.set(now + LEASE_MS),
        T.fence.set(fence),
        T.claim_id.set(claim_id),
        T.token_digests.set({digest}),
        T.wait_reason.remove(),
        record.moved(Move.RECLAIM, now, "", fence),
    ]
    try:
        return table.update(record.keyed(task.id), actions, _same_claim(task, conditions.lease_over(now)))
    except ConditionFailed:
        # Our own retry may have met its own effect: the claim's id says whose it is, the digest that it was this call.
        found = record.load(task.id)
        return found if found is not None and digest in (found.token_digests or ()) else None


def _same_claim(task: TaskItem, *also: Condition) -> Condition:
    return conditions.all_of(conditions.in_state(*PREPARING_VALUES), conditions.fence_is(task), *also)
