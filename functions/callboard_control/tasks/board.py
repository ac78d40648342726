"""What people do with tasks: make, list, read, cancel. A task is found inside the caller's workspace or not at all."""

from __future__ import annotations

from dataclasses import dataclass

from callboard_control.actor import Person
from callboard_control.errors import InvalidRequest, NotFound
from callboard_control.store import keys, table
from callboard_control.store.models import AgentItem, AgentNameItem, TaskItem
from callboard_control.tasks import enqueue as enqueueing
from callboard_control.tasks import explain, record, report, settle
from callboard_wire.api import EnqueueRequest, Page, TaskView
from callboard_wire.bodies import TaskMessage
from callboard_wire.states import TaskStatus

PAGES_AT_MOST = 20
"""A filtered list reads at most this many pages of the index before it answers with what it found and a cursor."""


@dataclass(frozen=True, slots=True)
class Outcome:
    view: TaskView
    created: bool
    outcome: str


def enqueue(person: Person, request: EnqueueRequest) -> Outcome:
    """Make a task. Raises `NotFound` ``agent_not_found`` and what `tasks.enqueue` raises."""
    agent = _agent(person.workspace_id, request.agent)
    done = enqueueing.enqueue(request, agent, person)
    word = "coalesced" if done.coalesced else "queued" if done.created else "repeated"
    return Outcome(record.view(done.task, agent_name=agent.name), done.created, word)


def _agent(workspace_id: str, name_or_id: str) -> AgentItem:
    key = keys.workspace(workspace_id)
    name = table.get(AgentNameItem, key, f"AN#{keys.folded(name_or_id)}") if not keys.is_id(name_or_id) else None
    item = table.get(AgentItem, key, f"AG#{name.agent_id if name else name_or_id}")
    if item is None and name is None and (name := table.get(AgentNameItem, key, f"AN#{keys.folded(name_or_id)}")):
        item = table.get(AgentItem, key, f"AG#{name.agent_id}")  # a name that looks like an id
    if item is None:
        raise NotFound.of("agent", name_or_id)
    return item


def find(workspace_id: str, task_id: str) -> TaskItem:
    task = record.load(task_id)
    if task is None or task.workspace_id != workspace_id:
        raise NotFound.of("task", task_id)
    return task


def get(workspace_id: str, task_id: str) -> TaskView:
    """A task with its texts, usage, moves, and why it waits."""
    task = find(workspace_id, task_id)
    agent = table.get(AgentItem, keys.workspace(workspace_id), f"AG#{task.agent_id}", consistent=False)
    last = report.last_seq(task.id, int(task.fence or 0)) if task.fence else 0
    return record.view(
        task,
        full=True,
        agent_name=agent.name if agent else "",
        waiting=explain.waiting(task),
        message_count=last,
    )


def list_tasks(
    workspace_id: str, cursor: str | None, limit: int, status: TaskStatus | None, agent: str | None
) -> Page[TaskView]:
    """Newest first. With a filter a page may be short, and even empty, while there is a cursor to go on with."""
    agent_id = _agent(workspace_id, agent).id if agent else None
    views: list[TaskView] = []
    for _ in range(PAGES_AT_MOST):
        page = _rows(workspace_id, cursor, limit - len(views))
        tasks = {t.id: t for t in table.get_many(TaskItem, [(row.pk, "T") for row in page.items], consistent=False)}
        ordered = [tasks[row.pk.removeprefix("TK#")] for row in page.items if row.pk.removeprefix("TK#") in tasks]
        views += [record.view(t) for t in ordered if status in (None, t.status) and agent_id in (None, t.agent_id)]
        cursor = page.cursor
        if cursor is None or len(views) >= limit:
            break
    return Page[TaskView](items=_named(workspace_id, views), next_cursor=cursor)


def _rows(workspace_id: str, cursor: str | None, limit: int) -> table.Rows:
    try:
        return table.rows(
            TaskItem.list_index, keys.tasks_of(workspace_id), limit=max(limit, 1), cursor=cursor, forward=False
        )
    except ValueError as e:
        raise InvalidRequest(f"{e}; start the list again without it.", code="invalid_cursor") from e


def _named(workspace_id: str, views: list[TaskView]) -> list[TaskView]:
    ids = {v.agent_id for v in views}
    found = table.get_many(AgentItem, [(keys.workspace(workspace_id), f"AG#{i}") for i in ids], consistent=False)
    names = {a.id: a.name for a in found}
    return [v.model_copy(update={"agent_name": names.get(v.agent_id, "")}) for v in views]


def messages(workspace_id: str, task_id: str, since: int, limit: int) -> Page[TaskMessage]:
    """Messages after number `since`; ask again with the last number seen. `next_cursor` is that number while more lie
    ready."""
    task = find(workspace_id, task_id)
    found = report.transcript(task, since, limit)
    return Page[TaskMessage](
        items=found.messages, next_cursor=str(found.messages[-1].seq) if found.more and found.messages else None
    )


def cancel(person: Person, task_id: str) -> TaskView:
    """Cancel a task in any state; one that has ended stays as it is, and the answer says so."""
    settle.cancel(find(person.workspace_id, task_id), person.label)
    return get(person.workspace_id, task_id)
