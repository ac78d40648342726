"""Finish: how a daemon ends a task. Each of these may arrive twice, late, or after somebody else ended it."""

from __future__ import annotations

from pynamodb.expressions.update import Action

from callboard_control.actor import Daemon
from callboard_control.store import table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.models import TaskItem
from callboard_control.tasks import conversation, guard, record, settle, slot
from callboard_wire.bodies import (
    CancelAckRequest,
    CompleteRequest,
    Ending,
    FailRequest,
    RecoverOrphansResponse,
    TaskState,
)
from callboard_wire.failures import FailureReason, parse_reason
from callboard_wire.states import HELD, PREPARING, Move, TaskStatus

T = TaskItem


def complete(daemon: Daemon, task_id: str, request: CompleteRequest) -> TaskState:
    """running → completed. A task that has ended already answers 200 unchanged; one that never started is refused."""
    task = guard.held_by(daemon, task_id, request)
    if record.status_of(task).terminal:
        return guard.state(task)
    if task.status != TaskStatus.RUNNING:
        raise guard.wrong_state(task, Move.COMPLETE)
    done = settle.complete(task, [*_ending(task, request), *_output(task, request.output)])
    return _answer(done, task, Move.COMPLETE)


def fail(daemon: Daemon, task_id: str, request: FailRequest) -> TaskState:
    """dispatched, waiting or running → failed, with its retry in the same transaction where the reason allows one."""
    task = guard.held_by(daemon, task_id, request)
    if record.status_of(task).terminal:
        return guard.state(task)
    if task.status not in HELD:
        raise guard.wrong_state(task, Move.FAIL)
    actions = [*_ending(task, request), *(_output(task, request.output) if request.output else [])]
    done = settle.fail(task, parse_reason(request.failure_reason), request.error, "", actions)
    return _answer(done, task, Move.FAIL)


def acknowledge_cancel(daemon: Daemon, task_id: str, request: CancelAckRequest) -> TaskState:
    """The daemon has stopped a cancelled run and sent all of its transcript. What it kept (branch, folder, session) is
    written where nothing is yet; nothing else about the task changes."""
    task = guard.held_by(daemon, task_id, request)
    if task.status != TaskStatus.CANCELLED:
        if record.status_of(task).terminal:
            return guard.state(task)
        raise guard.wrong_state(task, Move.CANCEL)
    wanted = {
        "branch_name": request.branch_name,
        "durable_work_dir": request.durable_work_dir,
        "work_dir": request.work_dir,
        "session_id": request.session_id,
        "error": record.clip(request.error_message, 4000),
        "failure_reason": parse_reason(request.failure_reason).value if request.failure_reason else "",
    }
    missing = {name: value for name, value in wanted.items() if value and not getattr(task, name)}
    if missing:
        try:
            task = table.update(
                record.keyed(task.id), [getattr(T, n).set(v) for n, v in missing.items()], settle.unmoved(task)
            )
        except ConditionFailed:
            task = guard.held_by(daemon, task_id, request)
    conversation.catch_up(task)
    return guard.state(task)


def recover_orphans(daemon: Daemon, runtime_id: str, keep: list[str]) -> RecoverOrphansResponse:
    """The daemon was restarted and does not run these any more. What had not started goes back to the queue; what ran
    fails with ``runtime_recovery`` and is tried again."""
    answer = RecoverOrphansResponse()
    for task in slot.held_tasks(slot.slots_of(daemon.workspace_id)):
        if task.runtime_id != runtime_id or task.id in keep:
            continue
        if task.status in PREPARING:
            done = settle.requeue(task, daemon.label)
        else:
            done = settle.fail(
                task,
                FailureReason.RUNTIME_RECOVERY,
                "The daemon was restarted while this task was running.",
                daemon.label,
            )
        answer.orphaned += 1
        answer.retried += bool(done.retried_by) or done.status == TaskStatus.QUEUED
    return answer


def _ending(task: TaskItem, request: Ending) -> list[Action]:
    """What is forwarded on every path: where the run's conversation and files are. `task` learns it too, for the retry
    and the conversation's pointer go on from there."""
    values = {
        "session_id": request.session_id,
        "work_dir": request.work_dir,
        "durable_work_dir": request.durable_work_dir,
        "branch_name": request.branch_name,
        "retired_session_id": request.retired_session_id,
        "session_rollout_missing": request.session_rollout_missing or None,
        "duration_ms": request.duration_ms,
    }
    said = {name: value for name, value in values.items() if value not in ("", None)}
    for name, value in said.items():
        setattr(task, name, value)
    return [getattr(T, name).set(value) for name, value in said.items()]


def _output(task: TaskItem, output: str) -> list[Action]:
    inline, parts = record.store_text(task.id, "output", record.clip(output))
    if parts:
        return [T.output_parts.set(parts)]
    return [T.output.set(inline)] if inline else []


def _answer(done: TaskItem, before: TaskItem, move: Move) -> TaskState:
    if not record.status_of(done).terminal:
        raise guard.wrong_state(done, move)
    return guard.state(done)
