"""Rerun: a person has an ended (or stuck) task done once more."""

from __future__ import annotations

from callboard_control import ports
from callboard_control.actor import Person
from callboard_control.errors import InvalidRequest
from callboard_control.store import keys
from callboard_control.store.models import AgentItem, TaskItem
from callboard_control.tasks import conversation, enqueue, record, settle
from callboard_control.tasks.build import build
from callboard_wire.states import TaskStatus


def rerun(source: TaskItem, agent: AgentItem, person: Person, *, issue_id: str | None = None) -> TaskItem:
    """A new task for the same wish, made by `person`. One of the same issue that has not started is cancelled for it,
    and so is a retry of the wish that has not; a running one is left alone, and the new one queues behind.

    Raises `InvalidRequest` for a task of another issue (`issue_id` is the one the caller named) or an agent that cannot
    take it.
    """
    if issue_id is not None and source.issue_id != issue_id:
        raise InvalidRequest("That task belongs to another issue.", code="task_of_another_issue", task_id=source.id)
    enqueue.refuse_unready(agent)
    for _ in range(2):  # a retry may take the place between the clearing and the insert: clear once more
        _clear(source, person)
        made = enqueue.place(_copy(source, agent, person))
        if made.created:
            break
    if made.created:
        ports.ring(made.task.runtime_id)
    return made.task


def _clear(source: TaskItem, person: Person) -> None:
    waiting = enqueue.pending_of(source) if source.issue_id else None
    tried = [record.load(source.id)]
    while tried[-1] is not None and tried[-1].retried_by:
        tried.append(record.load(tried[-1].retried_by))
    for task in (waiting, *tried):
        if task is not None and task.status in (TaskStatus.QUEUED, TaskStatus.DEFERRED, TaskStatus.DISPATCHED):
            settle.cancel(task, person.label, "Replaced by a rerun.")


def _copy(source: TaskItem, agent: AgentItem, person: Person) -> TaskItem:
    same_machine = source.runtime_id == agent.runtime_id
    return build(
        keys.new_id(),
        record.prompt_of(source),
        person.label,
        source=source,
        agent_id=agent.id,
        runtime_id=agent.runtime_id,
        prior_session_id=conversation.carried(source) if same_machine and conversation.resume_safe(source) else None,
        prior_work_dir=source.work_dir,
        rerun_of=source.id,
    )
