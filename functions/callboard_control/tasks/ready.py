"""The `ready` index: where the row of a waiting task lies, and what the row says of it.

queued      RT#<runtime>   <turn>#<task>#<agent>[#<lane>]      in the order of claims
deferred    DF#<shard>     <fire_at>#<task>#<agent>            in the order they fall due; an agent's in one shard
"""

from __future__ import annotations

from typing import NamedTuple

from callboard_control.store import keys
from callboard_control.store.models import TaskItem
from callboard_wire.states import TaskStatus


class ReadyRow(NamedTuple):
    """A row of the index: what a claim knows of a task without reading it. Rows sort in turn order; `task_id` is by the
    table's key, agent and lane are what the row says, "" where it says nothing."""

    key: str
    task_id: str
    agent_id: str
    lane: str


def ready_row(row: TaskItem) -> ReadyRow:
    _, _, agent_id, lane, *_ = [*row.rsk.split("#"), "", "", ""]
    return ReadyRow(row.rsk, row.pk.removeprefix("TK#"), agent_id, lane)


def index(task: TaskItem) -> None:
    """Put the task where its state says it belongs. Back in the queue its turn is what it was."""
    if task.status == TaskStatus.QUEUED:
        task.rpk, task.rsk = queued_key(task)
    elif task.status == TaskStatus.DEFERRED:
        task.rpk = keys.deferred_of(task.agent_id)
        task.rsk = f"{keys.stamp(int(task.fire_at))}#{task.id}#{task.agent_id}"


def queued_key(task: TaskItem) -> tuple[str, str]:
    """(partition, row) of the task while it is queued: agent and lane are in the row, so that a claim skips rows of an
    agent that is full without reading the tasks."""
    lane = f"#{keys.shard_name(task.lane)}" if task.lane else ""
    turn = keys.turn(int(task.created), int(task.priority or 0))
    return keys.ready_of(task.runtime_id), f"{turn}#{task.id}#{task.agent_id}{lane}"
