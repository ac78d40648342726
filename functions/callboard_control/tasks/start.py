"""Start: the workdir exists and the agent is about to be launched."""

from __future__ import annotations

from pynamodb.expressions.update import Action

from callboard_control import ports
from callboard_control.actor import Daemon
from callboard_control.store import table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.models import TaskItem
from callboard_control.tasks import conditions, guard, record, settle
from callboard_wire.bodies import StartRequest, TaskState
from callboard_wire.states import PREPARING, Move, TaskStatus

T = TaskItem
MAX_IN = 100
"""As many values as DynamoDB's IN takes."""


def start(daemon: Daemon, task_id: str, request: StartRequest) -> TaskState:
    """dispatched or waiting → running. Repeating it changes nothing; a task that was cancelled meanwhile answers 200
    with ``stop``, a queued one (its claim is over) is refused."""
    at_once = _straight(daemon, task_id, request)
    if at_once is not None:
        return guard.state(at_once)
    task = guard.held_by(daemon, task_id, request)
    if task.status == TaskStatus.RUNNING or record.status_of(task).terminal:
        return guard.state(task)
    if task.status not in PREPARING:
        raise guard.wrong_state(task, Move.START)
    try:
        task = table.update(record.keyed(task.id), _actions(request, int(task.fence or 0)), settle.unmoved(task))
    except ConditionFailed:
        # Our own retry met its own effect, or somebody else moved first: the state says which.
        task = guard.held_by(daemon, task_id, request)
        if task.status != TaskStatus.RUNNING and not record.status_of(task).terminal:
            raise guard.wrong_state(task, Move.START) from None
    return guard.state(task)


def _straight(daemon: Daemon, task_id: str, request: StartRequest) -> TaskItem | None:
    """The usual start in one call: a daemon that sends its whole proof needs no look before the write, for the proof is
    the write's condition. None when the write was refused: then a look says why."""
    if request.claim_id is None or request.fence is None or not 0 < len(task_id) <= 64:
        return None
    if len(daemon.runtimes) > MAX_IN:
        return None
    proven = conditions.all_of(
        conditions.in_state(*sorted(s.value for s in PREPARING)),
        conditions.held_under(request.claim_id, request.fence),
        conditions.of_machine(daemon.workspace_id, daemon.runtimes),
    )
    try:
        return table.update(record.keyed(task_id), _actions(request, request.fence), proven)
    except ConditionFailed:
        return None


def _actions(request: StartRequest, fence: int) -> list[Action]:
    now = ports.now_ms()
    actions: list[Action] = [
        T.status.set(TaskStatus.RUNNING.value),
        T.started.set(now),
        T.lease_until.remove(),
        T.wait_reason.remove(),
        record.moved(Move.START, now, "", fence),
    ]
    if request.work_dir:
        actions.append(T.work_dir.set(request.work_dir))
    return actions
