"""Who may write about a claimed task: the fence, and the state the write starts from."""

from __future__ import annotations

from callboard_control.actor import Daemon
from callboard_control.errors import Conflict, Forbidden, NotFound
from callboard_control.store.models import TaskItem
from callboard_control.tasks import record
from callboard_wire.bodies import Fenced, TaskState
from callboard_wire.states import Move


def held_by(daemon: Daemon, task_id: str, proof: Fenced) -> TaskItem:
    """The task, if `daemon` may write about it.

    A daemon that sends its claim is held to it: an older fence is refused whatever the state, so a slow twin can never
    end the winner's run. One that sends none (it was written before there were fences) is held to the state alone.
    Raises `NotFound` ``task_not_found``, `Forbidden` ``daemon_of_another``, `Conflict` ``stale_claim``.
    """
    task = record.load(task_id)
    if task is None or task.workspace_id != daemon.workspace_id:
        raise NotFound.of("task", task_id)
    if not daemon.owns(task.runtime_id):
        raise Forbidden("This task belongs to another machine.", code="daemon_of_another", task_id=task_id)
    if proof.claim_id is not None and proof.claim_id != task.claim_id:
        raise stale(task, proof)
    if proof.fence is not None and proof.fence != int(task.fence or 0):
        raise stale(task, proof)
    return task


def stale(task: TaskItem, proof: Fenced) -> Conflict:
    return Conflict(
        "This claim no longer holds the task: another one was made since. Stop the run and report nothing more of it.",
        code="stale_claim",
        task_id=task.id,
        status=task.status,
        fence=int(task.fence or 0),
        your_fence=proof.fence,
    )


def wrong_state(task: TaskItem, move: Move) -> Conflict:
    return Conflict(
        f"A task that is {task.status} cannot {move.value}.", code="wrong_state", task_id=task.id, status=task.status
    )


def state(task: TaskItem, *, last_seq: int = 0, lease_s: float | None = None) -> TaskState:
    """The answer to a write: what the task is now, and whether its run should stop."""
    status = record.status_of(task)
    reason = (task.failure_reason or status.value) if status.terminal else ""
    return TaskState(status=status, stop=status.terminal, stop_reason=reason, last_seq=last_seq, lease_s=lease_s)
