"""An agent's capacity: the set of tasks it has in flight, and the lanes that are taken.

The set changes only inside the transaction that moves the task, so it says the truth at every instant.
"""

from __future__ import annotations

from collections.abc import Iterable

from callboard_control.store import keys, table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.models import AgentNameItem, SlotItem, TaskItem
from callboard_control.tasks import conditions
from callboard_wire.states import HELD

S = SlotItem


def keyed(agent_id: str) -> SlotItem:
    return SlotItem(f"AG#{agent_id}", "SLOT")


def take(task: TaskItem, daemon_record: str, capacity: int) -> table.Update:
    """The half of a claim that takes a place: refused when the agent is full, closed, or busy in the task's lane."""
    wanted = [conditions.has_room(capacity), conditions.is_open()]
    actions = [
        S.running.add({task.id}),
        # What the sweep and a repeated claim find held tasks by. Unchanged values cost no index write.
        S.gpk.set(keys.busy_of(daemon_record)),
        S.gsk.set(task.agent_id),
    ]
    if task.lane:
        wanted.append(conditions.lane_is_free(task.lane))
        actions.append(S.lanes.add({task.lane}))
    return table.Update(keyed(task.agent_id), actions, conditions.all_of(*wanted))


def release(task: TaskItem) -> table.Update:
    """The half of an ending that gives the place back; giving it back twice changes nothing."""
    actions = [S.running.delete({task.id})]
    if task.lane:
        actions.append(S.lanes.delete({task.lane}))
    return table.Update(keyed(task.agent_id), actions)


def forget(found: SlotItem) -> None:
    """An empty slot leaves the busy index; a claim that comes at the same instant puts it back."""
    try:
        table.update(S(found.pk, "SLOT"), [S.gpk.remove(), S.gsk.remove()], conditions.slot_is_empty())
    except ConditionFailed:
        pass  # a claim was faster: it is busy again


def find_by(found: SlotItem, daemon_record: str) -> None:
    """The slot is found by another machine from here on, unless a claim has said so already."""
    try:
        table.update(S(found.pk, "SLOT"), [S.gpk.set(keys.busy_of(daemon_record))], S.gpk == found.gpk)
    except ConditionFailed:
        pass  # its last task has ended, or a machine has claimed for it since


def busy_slots(daemon_record: str) -> list[SlotItem]:
    """The slots of agents that may have tasks in flight on this daemon: found by the index, read from the table. One is
    found by the machine it was claimed for last: an agent that moves is not found by its old machine any more."""
    busy = table.every(SlotItem.list_index, keys.busy_of(daemon_record), page=100)
    return table.get_many(SlotItem, [(f"AG#{row.gsk}", "SLOT") for row in busy])


def slots_of(workspace_id: str) -> list[SlotItem]:
    """The slots of all its agents, found by their names: for what must not miss one, and happens seldom."""
    names = table.every(
        AgentNameItem, keys.workspace(workspace_id), AgentNameItem.sk.startswith("AN#"), consistent=True
    )
    return table.get_many(SlotItem, [(f"AG#{name.agent_id}", "SLOT") for name in names])


def held_tasks(slots: Iterable[SlotItem]) -> list[TaskItem]:
    ids = [task_id for slot in slots for task_id in sorted(slot.running or ())]
    found = table.get_many(TaskItem, [(keys.task(task_id), "T") for task_id in ids])
    return [task for task in found if task.status in HELD]
