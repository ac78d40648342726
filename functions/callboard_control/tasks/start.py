"""Start: the workdir exists and the agent is about to be launched."""

from __future__ import annotations

from callboard_control import ports
from callboard_control.actor import Daemon
from callboard_control.store import table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.models import TaskItem
from callboard_control.tasks import guard, record, settle
from callboard_wire.bodies import StartRequest, TaskState
from callboard_wire.states import PREPARING, Move, TaskStatus

T = TaskItem


def start(daemon: Daemon, task_id: str, request: StartRequest) -> TaskState:
    """dispatched or waiting → running. Repeating it changes nothing; a task that was cancelled meanwhile answers 200
    with ``stop``, a queued one (its claim is over) is refused."""
    task = guard.held_by(daemon, task_id, request)
    if task.status == TaskStatus.RUNNING or record.status_of(task).terminal:
        return guard.state(task)
    if task.status not in PREPARING:
        raise guard.wrong_state(task, Move.START)
    now = ports.now_ms()
    actions = [
        T.status.set(TaskStatus.RUNNING.value),
        T.started.set(now),
        T.lease_until.remove(),
        record.moved(Move.START, now, "", int(task.fence or 0)),
    ]
    if task.wait_reason:
        actions.append(T.wait_reason.remove())
    if request.work_dir:
        actions.append(T.work_dir.set(request.work_dir))
    try:
        task = table.update(record.keyed(task.id), actions, settle.unmoved(task))
    except ConditionFailed:
        # Our own retry met its own effect, or somebody else moved first: the state says which.
        task = guard.held_by(daemon, task_id, request)
        if task.status != TaskStatus.RUNNING and not record.status_of(task).terminal:
            raise guard.wrong_state(task, Move.START) from None
    return guard.state(task)
