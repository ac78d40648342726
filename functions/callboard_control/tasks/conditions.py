"""The conditions of every move, one by one and by name.

Each is a function, so that the mutation test can take one away at a time and see the simulation fail for it: there is
none that nothing needs.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from operator import and_

from pynamodb.expressions.condition import Condition, size

from callboard_control.store.fleet_items import PlacesItem
from callboard_control.store.models import PendingItem, SlotItem, TaskItem

T, S, P = TaskItem, SlotItem, PendingItem


def all_of(*conditions: Condition) -> Condition:
    return reduce(and_, conditions)


# ── the task ─────────────────────────────────────────────────────────────────


def is_new() -> Condition:
    return T.pk.does_not_exist()


def in_state(*statuses: str) -> Condition:
    """The task is in one of `statuses`."""
    return T.status == statuses[0] if len(statuses) == 1 else T.status.is_in(*statuses)


def fence_is(task: TaskItem) -> Condition:
    """No claim was made since `task` was read."""
    return T.fence.does_not_exist() if task.fence is None else T.fence == int(task.fence)


def held_under(claim_id: str, fence: int) -> Condition:
    """The very claim the daemon names still holds the task."""
    return (T.fence == fence) & (T.claim_id == claim_id)


def of_machine(workspace_id: str, runtime_ids: Collection[str]) -> Condition:
    """The task is one of this machine's: an id that was guessed reaches nothing."""
    runtimes = T.runtime_id.is_in(*sorted(runtime_ids)) if runtime_ids else T.runtime_id.does_not_exist()
    return (T.workspace_id == workspace_id) & runtimes


def lease_over(now: int) -> Condition:
    """A daemon that renewed in time keeps its task, however late the sweep looked."""
    return T.lease_until <= now


def unsaid(prompt: str) -> Condition:
    """The wish has not joined the task yet: its answer may have been lost."""
    return T.coalesced.does_not_exist() | ~T.coalesced.contains(prompt)


def takes_wishes(at_most: int) -> Condition:
    """Fewer than `at_most` wishes have joined the task."""
    joined = size(T.coalesced)  # type: ignore[no-untyped-call]  # PynamoDB leaves it untyped
    return T.coalesced.does_not_exist() | (joined < at_most)


# ── its agent's slot ─────────────────────────────────────────────────────────


def has_room(capacity: int) -> Condition:
    # size() of an attribute that is not there is no number, so an agent's first task needs its own alternative.
    used = size(S.running)  # type: ignore[no-untyped-call]  # PynamoDB leaves it untyped
    return S.running.does_not_exist() | (used < capacity)


def is_open() -> Condition:
    """Nobody closed the slot: an archived agent takes no more tasks."""
    return S.closed.does_not_exist()


def lane_is_free(lane: str) -> Condition:
    return S.lanes.does_not_exist() | ~S.lanes.contains(lane)


def slot_is_empty() -> Condition:
    return S.running.does_not_exist()


# ── its runtime's places ─────────────────────────────────────────────────────


def unwritten_since(version: int) -> Condition:
    """Nobody has given or taken a place since they were read at `version` (0: there were none yet)."""
    return PlacesItem.version == version if version else PlacesItem.version.does_not_exist()


# ── its issue's place ────────────────────────────────────────────────────────


def place_is_free() -> Condition:
    return P.pk.does_not_exist()
