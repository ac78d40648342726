"""Settle: every way a task ends or goes back, each one conditional write that starts from a state it names.

A terminal task has released its slot, its lease, its place in the queue and its token in the same transaction. What a
failure makes possible (a retry) is created in the failure's own transaction, so nothing can slip between the two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action

from callboard_control import deeds, ports
from callboard_control.actor import SYSTEM, Person
from callboard_control.store import table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.models import PendingItem, TaskItem
from callboard_control.tasks import conditions, conversation, ready, record, retry, slot
from callboard_wire.failures import FailureReason
from callboard_wire.states import ACTIVE, HELD, MOVES, PREPARING, WAITING, Move, TaskStatus

T = TaskItem
TRIES: Final = 6
MAX_CLAIMS: Final = 20
"""A task handed out this often without ever starting is not going to: it fails instead of going round for ever."""


SAID_AT_THE_END: Final = ("session_id", "work_dir", "retired_session_id", "session_rollout_missing")


@dataclass(frozen=True, slots=True)
class End:
    """How a task ends: the move, by whom, what is set on it besides, and what else is written with it."""

    move: Move
    by: str
    actions: Sequence[Action] = ()
    condition: Condition | None = None
    also: Sequence[table.Write] = ()


def complete(task: TaskItem, actions: Sequence[Action]) -> TaskItem:
    """running → completed, or the task unchanged if it has ended already."""
    return _end(task, lambda t: End(Move.COMPLETE, "", actions) if t.status == TaskStatus.RUNNING else None)


def fail(
    task: TaskItem, reason: FailureReason, error: str, by: str, actions: Sequence[Action] = (), *, again: bool = True
) -> TaskItem:
    """held → failed, with its retry where the reason allows one; unchanged if it has ended already."""

    def plan(now_it_is: TaskItem) -> End | None:
        if now_it_is.status not in HELD:
            return None
        now_it_is.failure_reason, now_it_is.error = reason.value, error  # what the conversation's pointer is moved by
        return End(Move.FAIL, by, [*_why(reason, error), *actions])

    return _end(task, plan, reason if again else None)


def refuse(task: TaskItem, reason: FailureReason, error: str, move: Move = Move.REFUSE) -> TaskItem:
    """queued or deferred → failed: it can never run, and says why instead of going round for ever."""
    waiting = [s.value for s in WAITING]
    return _end(task, lambda t: End(move, SYSTEM, _why(reason, error)) if t.status in waiting else None, ringing=False)


def cancel(task: TaskItem, by: Person | str, reason: str = "", *, whoever: bool = True) -> TaskItem:
    """Any state that is not terminal → cancelled; a terminal task stays what it is. A running daemon learns of it by
    the answer to its next write or by its status poll, and then acknowledges. A person's cancel is a row of the audit
    log, too."""
    label = by.label if isinstance(by, Person) else by
    end = End(
        Move.CANCEL,
        label,
        [T.error.set(reason)] if reason else [],
        also=[deeds.put(by, "task_cancelled", f"task:{task.id}")] if isinstance(by, Person) else [],
    )
    return _end(task, lambda t: end if t.status in ACTIVE else None, whoever=whoever)


def _why(reason: FailureReason, error: str) -> list[Action]:
    return [T.failure_reason.set(reason.value), T.error.set(record.clip(error or reason.value, 4000))]


def _end(
    task: TaskItem,
    plan: Callable[[TaskItem], End | None],
    retry_for: FailureReason | None = None,
    *,
    ringing: bool = True,
    whoever: bool = False,
) -> TaskItem:
    """Try `plan` on the task as it is; when somebody moved it meanwhile, look again. A task claimed anew since `task`
    was read is left alone, unless the end is meant for it `whoever` holds it (a cancel)."""
    fence = int(task.fence or 0)
    for _ in range(TRIES):
        end = plan(task)
        if end is None or (int(task.fence or 0) != fence and not whoever):
            return task
        child = retry.child_of(task, retry_for) if retry_for is not None else None
        try:
            table.transact(_writes(task, end, child))
        except ConditionFailed as e:
            if child is not None and 0 not in e.failed:
                retry_for = None  # a successor waits already, or the retry exists: the failure must not wait for it
        else:
            if ringing:
                ports.ring(task.runtime_id)
            return _ended(task, end, child)
        task = _reloaded(task)
        if task.status == MOVES[end.move][1]:
            return task
    return task


def _reloaded(task: TaskItem) -> TaskItem:
    """The task as it is now, with what the daemon said of its end, which is not written yet."""
    found = record.load(task.id) or task
    found.id = task.id  # by its key: an item that says otherwise of itself is just being refused for it
    for name in SAID_AT_THE_END:
        if getattr(task, name) and not getattr(found, name):
            setattr(found, name, getattr(task, name))
    return found


def _ended(task: TaskItem, end: End, child: TaskItem | None) -> TaskItem:
    """What callers look at, as the transaction left it; reading it all back would cost a call on every ending."""
    task.status = MOVES[end.move][1].value
    if child is not None:
        task.retried_by = child.id
    return task


def _writes(task: TaskItem, end: End, child: TaskItem | None) -> list[table.Write]:
    now = ports.now_ms()
    actions = [
        T.status.set(MOVES[end.move][1].value),
        T.ended.set(now),
        record.moved(end.move, now, end.by, int(task.fence or 0)),
        *end.actions,
        *[a.remove() for a in (T.lease_until, T.token_digests, T.wait_reason, T.rpk, T.rsk, T.fire_at)],
    ]
    if child is not None:
        actions.append(T.retried_by.set(child.id))
    writes: list[table.Write] = [table.Update(record.keyed(task.id), actions, unmoved(task))]
    if task.status in HELD:
        writes.append(slot.release(task))
        pointer = conversation.after(task, end.move, now)
        writes += [pointer] if pointer is not None else []
    elif task.issue_id and task.agent_id and task.status == TaskStatus.QUEUED:
        writes.append(_give_up_place(task))
    if child is not None:
        writes.append(table.Put(child, conditions.is_new()))
        if child.issue_id and child.status == TaskStatus.QUEUED:
            place = PendingItem(f"PN#{child.issue_id}", child.agent_id, task_id=child.id)
            writes.append(table.Put(place, conditions.place_is_free()))
    return [*writes, *end.also]


def unmoved(task: TaskItem) -> Condition:
    """The task is in the state, and under the claim, it was read in."""
    return conditions.all_of(conditions.in_state(task.status), conditions.fence_is(task))


def _give_up_place(task: TaskItem) -> table.Delete:
    # No condition of its own: a queued task holds its place, and the same transaction says that it is queued.
    return table.Delete(PendingItem(f"PN#{task.issue_id}", task.agent_id))


def give_up(task: TaskItem, by: str) -> TaskItem:
    """held → failed, without a retry: claimed `MAX_CLAIMS` times and never started."""
    return fail(task, FailureReason.TIMEOUT, f"Claimed {MAX_CLAIMS} times and never started.", by, again=False)


# ── back to the queue ────────────────────────────────────────────────────────


def requeue(task: TaskItem, by: str, *also: Condition) -> TaskItem:
    """dispatched or waiting → queued: its claim is over before it started. The next claim raises the fence. `also` are
    conditions of the caller's own, such as that the lease is still over when the write arrives.

    If another wish for the same issue has been queued meanwhile, there is no place to go back to: this task's wish
    joins that one and this one ends, so that neither is lost and never two wait.
    """
    if int(task.fence or 0) >= MAX_CLAIMS:
        return give_up(task, by)
    if task.status not in PREPARING:
        return task
    now = ports.now_ms()
    partition, row = ready.queued_key(task)
    update = table.Update(
        record.keyed(task.id),
        [
            T.status.set(TaskStatus.QUEUED.value),
            T.rpk.set(partition),
            T.rsk.set(row),
            T.queued.set(now),
            record.moved(Move.REQUEUE, now, by, int(task.fence or 0)),
            *[a.remove() for a in (T.lease_until, T.token_digests, T.wait_reason, T.claim_id, T.dispatched)],
        ],
        conditions.all_of(unmoved(task), *also),
    )
    writes: list[table.Write] = [update, slot.release(task)]
    if task.issue_id:
        place = PendingItem(f"PN#{task.issue_id}", task.agent_id, task_id=task.id)
        writes.append(table.Put(place, conditions.place_is_free()))
    try:
        table.transact(writes)
    except ConditionFailed as e:
        if 0 not in e.failed and task.issue_id:
            return _fold_into_successor(task, by)
        return record.load(task.id) or task
    ports.ring(task.runtime_id)
    task.status = TaskStatus.QUEUED.value  # as the transaction left it; a sweep makes thousands of these
    return task


def _fold_into_successor(task: TaskItem, by: str) -> TaskItem:
    place = table.get(PendingItem, f"PN#{task.issue_id}", task.agent_id)
    if place is None:
        return record.load(task.id) or task
    joined = [record.wish(place.task_id, record.prompt_of(task))]
    end = End(Move.CANCEL, by, [T.error.set(f"Its wish was joined to task {place.task_id}.")])
    successor = table.Update(
        record.keyed(place.task_id),
        [T.coalesced.set((T.coalesced | []).append(joined))],
        conditions.in_state(TaskStatus.QUEUED.value),
    )
    try:
        table.transact([*_writes(task, end, None), successor])
    except ConditionFailed:
        pass  # one of the two moved: the next sweep finds what is left to do
    return record.load(task.id) or task
