"""Looking over many tasks at once: the queue in its order, and the cross-check of everything against everything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from callboard_control.actor import Person, TaskAgent
from callboard_control.errors import NotFound
from callboard_control.permissions import may_see_tasks
from callboard_control.store import keys, table
from callboard_control.store.models import AgentItem, MessagePack, PendingItem, RuntimeItem, SlotItem, TaskItem
from callboard_control.tasks import invariants
from callboard_wire.api import DoctorReport, OffenceView, Page, QueuedTask
from callboard_wire.states import ACTIVE

QUEUE_AT_MOST = 500
RUNTIMES_A_PAGE = 100
CHECK_PAGE = 40


def queue(
    viewer: Person | TaskAgent, runtime_id: str | None, agent_id: str | None, cursor: str | None = None
) -> Page[QueuedTask]:
    """Tasks that may be claimed, in the order they would be, runtime by runtime; the first 500 of each. A position
    counts the tasks of agents that `viewer` may not see as well; they are not shown. A page ends with a runtime, and
    may be empty while there is a cursor to go on with.

    Raises `NotFound` for a runtime the workspace does not have: "nothing waits" would be the wrong answer to a mistyped
    one.
    """
    workspace_id = viewer.workspace_id
    if runtime_id and table.get(RuntimeItem, keys.workspace(workspace_id), f"RT#{runtime_id}") is None:
        raise NotFound.of("runtime", runtime_id)
    wanted = [runtime_id] if runtime_id else [each for each in _runtimes(workspace_id) if each >= (cursor or "")]
    found: list[QueuedTask] = []
    for n, runtime in enumerate(wanted):
        if n == RUNTIMES_A_PAGE or len(found) >= QUEUE_AT_MOST:
            return Page[QueuedTask](items=found, next_cursor=runtime)
        found += _queued_at(viewer, runtime, agent_id)
    return Page[QueuedTask](items=found)


def _queued_at(viewer: Person | TaskAgent, runtime_id: str, agent_id: str | None) -> Iterator[QueuedTask]:
    page = table.rows(TaskItem.ready_index, keys.ready_of(runtime_id), limit=QUEUE_AT_MOST)
    tasks = {t.id: t for t in table.get_many(TaskItem, [(r.pk, "T") for r in page.items], consistent=False)}
    hidden = _hidden(viewer, {task.agent_id for task in tasks.values()})
    for position, row in enumerate(page.items, 1):
        task = tasks.get(row.pk.removeprefix("TK#"))
        if task is None or task.workspace_id != viewer.workspace_id or agent_id not in (None, task.agent_id):
            continue
        if task.agent_id in hidden:
            continue
        yield QueuedTask(
            task_id=task.id,
            runtime_id=runtime_id,
            agent_id=task.agent_id,
            position=position,
            priority=int(task.priority or 0),
            created_ms=int(task.created),
            prompt=(task.prompt or "")[:200],
        )


def _hidden(viewer: Person | TaskAgent, agent_ids: set[str]) -> set[str]:
    key = keys.workspace(viewer.workspace_id)
    found = table.get_many(AgentItem, [(key, f"AG#{agent_id}") for agent_id in agent_ids], consistent=False)
    return {agent.id for agent in found if not may_see_tasks(viewer, agent)}


def _runtimes(workspace_id: str) -> list[str]:
    found = table.every(RuntimeItem, keys.workspace(workspace_id), RuntimeItem.sk.startswith("RT#"))
    return [runtime.id for runtime in found]


# ── doctor ───────────────────────────────────────────────────────────────────


def doctor(workspace_id: str, cursor: str | None) -> DoctorReport:
    """Check one page of the workspace's tasks, with their agents' slots and issues' places, against every invariant.

    The table moves while it is read, so an offence counts only if a second reading still shows it.
    """
    page = table.rows(TaskItem.list_index, keys.tasks_of(workspace_id), limit=CHECK_PAGE, cursor=cursor, forward=False)
    ids = [row.pk.removeprefix("TK#") for row in page.items]
    offences = invariants.check(_picture(workspace_id, ids))
    if offences:
        still = {str(o) for o in invariants.check(_picture(workspace_id, ids))}
        offences = [o for o in offences if str(o) in still]
    return DoctorReport(
        checked=len(ids),
        offences=[OffenceView(rule=o.rule, thing=o.thing, detail=o.detail) for o in offences],
        next_cursor=page.cursor,
    )


def _picture(workspace_id: str, ids: list[str]) -> list[Any]:
    """Everything these tasks must agree with, as the table has it: their slots, what those hold, their places."""
    tasks = table.get_many(TaskItem, [(keys.task(i), "T") for i in ids])
    agents = {t.agent_id for t in tasks}
    slots = table.get_many(SlotItem, [(f"AG#{a}", "SLOT") for a in agents])
    others = {i for slot in slots for i in slot.running or ()} - set(ids)
    tasks += table.get_many(TaskItem, [(keys.task(i), "T") for i in others])
    waiting = {(f"PN#{t.issue_id}", t.agent_id) for t in tasks if t.issue_id}
    places = table.get_many(PendingItem, waiting)
    known = {t.id for t in tasks}
    tasks += table.get_many(TaskItem, [(keys.task(p.task_id), "T") for p in places if p.task_id not in known])
    configs = table.get_many(AgentItem, [(keys.workspace(workspace_id), f"AG#{a}") for a in agents])
    packs = [pack for task in tasks if task.fence and task.status in ACTIVE for pack in _packs(task)]
    whole = [item.serialize() for item in (*tasks, *slots, *places, *configs)]
    return [*whole, *(pack.serialize(null_check=False) for pack in packs)]


def _packs(task: TaskItem) -> Iterator[Any]:
    """What the packs say of themselves, without what is in them: a long run has a hundred megabytes of that."""
    condition = MessagePack.sk.startswith(f"M#{int(task.fence):06d}#")
    said = ("pk", "sk", "f", "l")
    return table.every(MessagePack, keys.task(task.id), condition, page=100, consistent=True, only=said)
