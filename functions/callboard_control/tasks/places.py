"""Places: a runtime's limit of its own, held exactly, for one write unit a claim and none for runtimes without one.

    claim   take a place (one conditional write) ──▶ the claim's own transaction
    end     nothing. Whoever finds every place taken looks which of those tasks have ended, and takes such a one's place

A place is a task's id in the runtime's `PlacesItem`. It holds under any race because of three rules:

- Nothing is claimed without a place written before it, by a write that names the version it read.
- A place goes to another only when its task has *ended*, which is for ever. A task that is queued keeps the place that
  was taken for it: its claim may be under way.
- Only the claim that brought a task in may take it out again, when its transaction was refused, and only while nobody
  has written since: whoever else counts on that place has.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Final

from callboard_control.store import keys, table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.fleet_items import PlacesItem
from callboard_control.store.models import TaskItem
from callboard_control.tasks import conditions, record
from callboard_wire.states import HELD

P = PlacesItem
TRIES: Final = 5


class Places:
    """What one claim call knows of its runtimes' places."""

    def __init__(self) -> None:
        self._held: dict[str, set[str]] = defaultdict(set)
        self._written: dict[str, tuple[int, set[str]]] = {}  # as this call left them
        self._unused: dict[str, str] = {}
        self._full: dict[str, set[str]] = {}  # runtimes without room, with the queued tasks that have a place there

    def saw(self, held: Iterable[TaskItem]) -> None:
        """Tasks in flight that were read anyway: those claimed before their runtime had a limit have no place, and
        count too."""
        for task in held:
            self._held[task.runtime_id].add(task.id)

    def take(self, runtime_id: str, limit: int, task_id: str) -> bool:
        """Take one of the runtime's `limit` places for a task about to be claimed; False when there is none."""
        for _ in range(TRIES):
            version, taken = self._of(runtime_id)
            others = (taken | self._held[runtime_id]) - {task_id}
            if len(others) >= limit:
                unended = _unended(others)
                others = {t.id for t in unended}
                if len(others) >= limit:
                    self._full[runtime_id] = {t.id for t in unended if t.status not in HELD}
                    return False
            if _write(runtime_id, version, others | {task_id}):
                self._written[runtime_id] = version + 1, others | {task_id}
                if task_id not in taken:
                    self._unused[runtime_id] = task_id
                return True
        self._full[runtime_id] = set()  # others keep taking them: as good as none
        return False

    def admits(self, runtime_id: str, task_id: str) -> bool:
        """Whether it is worth trying the task: its runtime is not known to be full, or it has a place there already,
        from a claim that came no further. Were it passed over, its place would be lost to everybody."""
        return runtime_id not in self._full or task_id in self._full[runtime_id]

    def closed(self, runtime_id: str) -> bool:
        """The runtime is full, and nothing that waits for it has a place."""
        return self._full.get(runtime_id) == set()

    def used(self, runtime_id: str) -> None:
        """The claim that the last place was taken for has succeeded."""
        self._unused.pop(runtime_id, None)

    def _of(self, runtime_id: str) -> tuple[int, set[str]]:
        """(version, tasks): from memory while nobody else can have written since, which the next write will say."""
        unused = self._unused.pop(runtime_id, None)
        if runtime_id not in self._written:
            return _read(runtime_id)
        version, taken = self._written.pop(runtime_id)
        return version, taken - {unused} if unused else taken


def in_flight(runtime_id: str) -> list[str]:
    """Ids of the tasks that hold the runtime's places now and have been claimed."""
    _, taken = _read(runtime_id)
    return sorted(t.id for t in _unended(taken) if t.status in HELD)


def keyed(runtime_id: str) -> PlacesItem:
    return P(keys.ready_of(runtime_id), "PLACES")


def _read(runtime_id: str) -> tuple[int, set[str]]:
    place = keyed(runtime_id)
    found = table.get(P, place.pk, place.sk)
    return (int(found.version), {str(uuid.UUID(bytes=b)) for b in found.taken}) if found is not None else (0, set())


def _unended(task_ids: Collection[str]) -> list[TaskItem]:
    found = table.get_many(TaskItem, [(keys.task(t), "T") for t in task_ids])
    return [task for task in found if not record.status_of(task).terminal]


def _write(runtime_id: str, version: int, tasks: Collection[str]) -> bool:
    """Whether nobody has written since `version`."""
    actions = [P.taken.set({uuid.UUID(t).bytes for t in tasks}), P.version.set(version + 1)]
    try:
        table.update(keyed(runtime_id), actions, conditions.unwritten_since(version))
    except ConditionFailed:
        return False
    return True
