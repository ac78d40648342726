"""What people do with tasks: make, list, read, cancel. A task is found inside the caller's workspace or not at all."""

from __future__ import annotations

from dataclasses import dataclass

from callboard_control.actor import Person, TaskAgent
from callboard_control.errors import Forbidden, NotFound
from callboard_control.permissions import may_change, may_see_tasks, refuse_hidden_tasks, refuse_uninvited
from callboard_control.store import keys, table
from callboard_control.store.models import AgentItem, AgentNameItem, RuntimeItem, SlotItem, TaskItem
from callboard_control.tasks import enqueue as enqueueing
from callboard_control.tasks import explain, model_choice, record, report, settle
from callboard_control.tasks import rerun as rerunning
from callboard_control.tasks.ready import ready_row
from callboard_wire.api import CancelledTasks, EnqueueRequest, Page, TaskView
from callboard_wire.bodies import TaskMessage
from callboard_wire.states import WAITING, TaskStatus

Viewer = Person | TaskAgent
PAGES_AT_MOST = 20
"""A filtered list reads at most this many pages of the index before it answers with what it found and a cursor."""


@dataclass(frozen=True, slots=True)
class Outcome:
    view: TaskView
    created: bool
    outcome: str


def enqueue(person: Person, request: EnqueueRequest) -> Outcome:
    """Make a task. Raises `NotFound` ``agent_not_found``, `Forbidden` ``agent_private`` and what `tasks.enqueue`
    raises."""
    agent = _agent(person.workspace_id, request.agent)
    refuse_uninvited(person, agent)
    model_choice.refuse_unknown(person.workspace_id, request.model_profile)
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


def get(viewer: Viewer, task_id: str) -> TaskView:
    """A task with its texts, usage, moves, and why it waits. For those who may see its agent, like all of a task."""
    task, agent = _seen(viewer, task_id)
    last = report.last_seq(task.id, int(task.fence or 0)) if task.fence else 0
    return record.view(
        task,
        full=True,
        agent_name=agent.name if agent else "",
        waiting=explain.waiting(task),
        message_count=last,
    )


def _seen(viewer: Viewer, task_id: str) -> tuple[TaskItem, AgentItem | None]:
    """The task and its agent. Raises `NotFound`, `Forbidden` ``agent_private``."""
    task = find(viewer.workspace_id, task_id)
    agent = table.get(AgentItem, keys.workspace(task.workspace_id), f"AG#{task.agent_id}", consistent=False)
    if agent is not None:
        refuse_hidden_tasks(viewer, agent)
    return task, agent


def list_tasks(
    viewer: Viewer, cursor: str | None, limit: int, status: TaskStatus | None, agent: str | None
) -> Page[TaskView]:
    """Newest first, of agents that `viewer` may see. With a filter a page may be short, and even empty, while there is
    a cursor to go on with."""
    workspace_id, agent_id = viewer.workspace_id, None
    if agent:
        wanted = _agent(workspace_id, agent)
        refuse_hidden_tasks(viewer, wanted)
        agent_id = wanted.id
    views: list[TaskView] = []
    for _ in range(PAGES_AT_MOST):
        page = table.rows(
            TaskItem.list_index,
            keys.tasks_of(workspace_id),
            limit=max(limit - len(views), 1),
            cursor=cursor,
            forward=False,
        )
        tasks = {t.id: t for t in table.get_many(TaskItem, [(row.pk, "T") for row in page.items], consistent=False)}
        ordered = [tasks[row.pk.removeprefix("TK#")] for row in page.items if row.pk.removeprefix("TK#") in tasks]
        fitting = [record.view(t) for t in ordered if status in (None, t.status) and agent_id in (None, t.agent_id)]
        views += _named(viewer, fitting)
        cursor = page.cursor
        if cursor is None or len(views) >= limit:
            break
    return Page[TaskView](items=views, next_cursor=cursor)


def _named(viewer: Viewer, views: list[TaskView]) -> list[TaskView]:
    """The views with their agents' names, without those of agents that `viewer` may not see."""
    key, ids = keys.workspace(viewer.workspace_id), {v.agent_id for v in views}
    found = {a.id: a for a in table.get_many(AgentItem, [(key, f"AG#{i}") for i in ids], consistent=False)}
    shown = [v for v in views if v.agent_id not in found or may_see_tasks(viewer, found[v.agent_id])]
    return [v.model_copy(update={"agent_name": found[v.agent_id].name if v.agent_id in found else ""}) for v in shown]


def messages(viewer: Viewer, task_id: str, since: int, limit: int) -> Page[TaskMessage]:
    """Messages after number `since`; ask again with the last number seen. `next_cursor` is that number while more lie
    ready."""
    task, _ = _seen(viewer, task_id)
    found = report.transcript(task, since, limit)
    return Page[TaskMessage](
        items=found.messages, next_cursor=str(found.messages[-1].seq) if found.more and found.messages else None
    )


def rerun(person: Person, task_id: str, issue_id: str | None = None, key: str | None = None) -> TaskView:
    """Do an earlier task's work once more."""
    source = find(person.workspace_id, task_id)
    agent = _agent(person.workspace_id, source.agent_id)
    refuse_uninvited(person, agent)
    return record.view(rerunning.rerun(source, agent, person, issue_id=issue_id, key=key), agent_name=agent.name)


def cancel_many(person: Person, task_ids: list[str], *, only_queued: bool) -> CancelledTasks:
    """Cancel those of the tasks that have not ended; ids that are unknown, or of agents the person may not see, are
    skipped, so that one does not save the others."""
    done: list[str] = []
    for task_id in dict.fromkeys(task_ids):
        try:
            task, _ = _seen(person, task_id)
        except (NotFound, Forbidden):
            continue
        if record.status_of(task).terminal:
            continue
        if only_queued and task.status not in WAITING:
            continue
        ended = settle.cancel(task, person, whoever=not only_queued)
        if ended.status == TaskStatus.CANCELLED:
            done.append(task_id)
    return CancelledTasks(cancelled=len(done), task_ids=done)


def cancel_all_of(person: Person, agent_id: str) -> CancelledTasks:
    """Cancel every task of an agent: what it runs, what waits, what is deferred. For those who may change the agent."""
    agent = _agent(person.workspace_id, agent_id)
    if not may_change(person, agent):
        raise Forbidden("Only the agent's owner, or an owner or admin of the workspace, cancels all its tasks.")
    done = cancel_every(agent, person)
    return CancelledTasks(cancelled=len(done), task_ids=done)


def cancel_every(agent: AgentItem, by: Person) -> list[str]:
    """Cancel what the agent has not ended, in the name of `by`; the ids of what was. Who may is the caller's
    question: somebody who leaves takes work of agents along that they may not even see."""
    done: list[str] = []
    for task_id in active_ids(agent):
        task = record.load(task_id)
        if task is None or task.workspace_id != agent.workspace_id or record.status_of(task).terminal:
            continue
        if settle.cancel(task, by).status == TaskStatus.CANCELLED:
            done.append(task_id)
    return done


def active_ids(agent: AgentItem) -> list[str]:
    """Ids of an agent's tasks that have not ended: its slot, then what waits for it on the index, at whatever runtime
    of the workspace: it may have worked at another when a task was made."""
    held = table.get(SlotItem, f"AG#{agent.id}", "SLOT")
    ids = sorted(held.running or ()) if held else []
    runtimes = table.every(RuntimeItem, keys.workspace(agent.workspace_id), RuntimeItem.sk.startswith("RT#"))
    queues = [keys.ready_of(runtime.id) for runtime in runtimes]
    for partition in [*queues, keys.deferred_of(agent.id)]:
        rows = map(ready_row, table.every(TaskItem.ready_index, partition))
        ids += [row.task_id for row in rows if row.agent_id == agent.id]
    return ids


def cancel(person: Person, task_id: str) -> TaskView:
    """Cancel a task in any state; one that has ended stays as it is, and the answer says so."""
    task, _ = _seen(person, task_id)
    settle.cancel(task, person)
    return get(person, task_id)
