"""Rerun: a person has an ended (or stuck) task done once more."""

from __future__ import annotations

import hashlib

from callboard_control import ports
from callboard_control.actor import Person
from callboard_control.errors import InvalidRequest
from callboard_control.store import keys
from callboard_control.store.models import AgentItem, TaskItem
from callboard_control.tasks import conversation, enqueue, record, settle
from callboard_control.tasks.build import build
from callboard_wire.states import TaskStatus


def rerun(
    source: TaskItem, agent: AgentItem, person: Person, *, issue_id: str | None = None, key: str | None = None
) -> TaskItem:
    """A new task for the same wish, made by `person`. One of the same issue that has not started is cancelled for it,
    and so is a retry of the wish that has not; a running one is left alone, and the new one queues behind. The same
    idempotency `key` for the same `source` is the same new task, whatever became of it.

    Raises `InvalidRequest` for a task of another issue (`issue_id` is the one the caller named) or an agent that cannot
    take it; `Conflict` ``idempotency_mismatch`` for a key of another rerun.
    """
    if issue_id is not None and source.issue_id != issue_id:
        raise InvalidRequest("That task belongs to another issue.", code="task_of_another_issue", task_id=source.id)
    enqueue.refuse_unready(agent)
    task = _copy(source, agent, person, key)
    made = enqueue.repeated(task)
    for _ in range(enqueue.TRIES):  # another wish or a retry may take the place between the clearing and the insert
        if made is not None:
            ports.ring(made.task.runtime_id)
            return made.task
        _clear(source, person, task.id)
        made = enqueue.insert(task)
    raise enqueue.contended(task)


def _clear(source: TaskItem, person: Person, own_id: str) -> None:
    waiting = enqueue.pending_of(source) if source.issue_id else None
    tried = [record.load(source.id)]
    while tried[-1] is not None and tried[-1].retried_by:
        tried.append(record.load(tried[-1].retried_by))
    for task in (waiting, *tried):
        if task is None or task.id == own_id:  # the very same call, made twice at once
            continue
        if task.status in (TaskStatus.QUEUED, TaskStatus.DEFERRED, TaskStatus.DISPATCHED):
            settle.cancel(task, person, "Replaced by a rerun.")


def _copy(source: TaskItem, agent: AgentItem, person: Person, key: str | None) -> TaskItem:
    task_id, digest = keys.new_id(), None
    if key is not None:
        task_id = keys.derived_id("rerun", source.workspace_id, key)
        digest = hashlib.sha256(source.id.encode()).digest()[:16]
    same_machine = source.runtime_id == agent.runtime_id
    return build(
        task_id,
        record.prompt_of(source),
        person.label,
        source=source,
        agent_id=agent.id,
        runtime_id=agent.runtime_id,
        prior_session_id=conversation.carried(source) if same_machine and conversation.resume_safe(source) else None,
        prior_work_dir=source.work_dir,
        rerun_of=source.id,
        request_digest=digest,
    )
