"""Which conversation a follow-up is offered: one pointer for an agent and an issue or chat, moved when a run ends.

    completed, cancelled          → its session may be resumed
    failed                        → so may it, unless the reason poisons sessions: then it is retired for good
    session retired by the daemon → never offered again
    rollout missing               → withheld, and the next run is told that there is a gap

A session belongs to the runtime that made it; the folder is offered everywhere. A cancelled run may name its session
after the cancel: the pointer learns it unless another run has moved it meanwhile.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pynamodb.expressions.update import Action

from callboard_control.store import keys, table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.models import ConversationItem, TaskItem
from callboard_wire.failures import FAILURES, parse_reason
from callboard_wire.states import Move, TaskStatus

C = ConversationItem
HISTORY_BROKEN = (("400", "invalid_request_error"), ("could not resolve authentication method",))
"""What providers say when a conversation's own history can never be sent again; older daemons send it as plain text."""

RETIRED_KEPT: Final = 100
_STAMPED: Final = re.compile(r"^[0-9]{14}#")
"""When a session was retired, before its name. Entries without one are older than that was written down."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a claim hands on. `gap`: there was a session, and it cannot be resumed."""

    session_id: str = ""
    work_dir: str = ""
    gap: bool = False


def after(task: TaskItem, move: Move, now: int) -> table.Update | None:
    """The pointer's update for a run that ends by `move` at `now` (ms); None where there is no conversation.

    `task` carries what the daemon said at the end: session, folder, what it retired, and why it failed.
    """
    if not task.lane:
        return None
    actions: list[Action] = []
    poisoned = move is Move.FAIL and bool(task.failure_reason) and not _resumable(task)
    retired = {s for s in (task.retired_session_id, task.session_id if poisoned else None) if s}
    if retired:
        actions.append(C.retired.add({f"{keys.stamp(now)}#{session}" for session in retired}))
    if task.session_rollout_missing:
        actions += [C.session_id.remove(), C.gap.set(True)]
    elif poisoned or (retired and not task.session_id):
        actions += [C.session_id.remove(), C.gap.remove()]
    elif task.session_id:
        actions += [C.session_id.set(task.session_id), C.runtime_id.set(task.runtime_id), C.gap.remove()]
    if task.work_dir:
        actions.append(C.work_dir.set(task.work_dir))
    return table.Update(_keyed(task), [*actions, C.moved.set(now)]) if actions else None


def catch_up(task: TaskItem) -> None:
    """Let the pointer learn the session that a cancelled `task` has named by now. Repeating it changes nothing."""
    if not task.lane or not task.session_id or task.status != TaskStatus.CANCELLED:
        return
    actions = [C.session_id.set(task.session_id), C.runtime_id.set(task.runtime_id), C.gap.remove()]
    actions.append(C.moved.set(int(task.ended)))
    if task.work_dir:
        actions.append(C.work_dir.set(task.work_dir))
    try:
        table.update(_keyed(task), actions, C.moved.does_not_exist() | (C.moved <= int(task.ended)))
    except ConditionFailed:
        pass  # a later run has ended: the conversation goes on from there


def carried(task: TaskItem) -> str | None:
    """The session an ended `task` hands on: its own, else the one it was to go on with; None if it gave that one up."""
    session = task.session_id or task.prior_session_id
    if task.session_rollout_missing or session == task.retired_session_id:
        return None
    return session if task.status == TaskStatus.COMPLETED or not task.failure_reason or _resumable(task) else None


def offer(task: TaskItem) -> Offer:
    """What the claimed `task` may continue: its own pointer (a retry, a rerun, a wish to resume), else its lane's. A
    rerun goes on from the run it repeats or from nothing."""
    if task.force_fresh:
        return Offer()
    lane = table.get(C, f"CV#{task.agent_id}", task.lane) if task.lane else None
    retired = _retired(lane) if lane is not None else frozenset()
    own = task.prior_session_id if task.prior_session_id not in retired else None
    if own or task.rerun_of or lane is None:
        return Offer(own or "", task.prior_work_dir or "")
    same_machine = lane.runtime_id == task.runtime_id
    session = lane.session_id if same_machine and lane.session_id not in retired else None
    return Offer(session or "", task.prior_work_dir or lane.work_dir or "", bool(lane.gap))


def _retired(lane: ConversationItem) -> frozenset[str]:
    """The sessions that are never offered again. The oldest of very many are forgotten: a lane whose every run poisons
    its session would outgrow its item, and what a run may still name is among the latest."""
    entries = sorted(lane.retired or (), key=lambda entry: (_STAMPED.match(entry) is not None, entry))
    if len(entries) > 2 * RETIRED_KEPT:
        table.update(C(lane.pk, lane.sk), [C.retired.delete(set(entries[:-RETIRED_KEPT]))])
    return frozenset(_STAMPED.sub("", entry) for entry in entries)


def resume_safe(task: TaskItem) -> bool:
    """Whether the session of an ended task may be used again."""
    if task.status in (TaskStatus.COMPLETED, TaskStatus.CANCELLED):
        return not task.session_rollout_missing
    return task.status == TaskStatus.FAILED and not task.session_rollout_missing and _resumable(task)


def _resumable(task: TaskItem) -> bool:
    if FAILURES[parse_reason(task.failure_reason)].poisons_session:
        return False
    text = (task.error or "").lower()
    return not any(all(word in text for word in words) for words in HISTORY_BROKEN)


def _keyed(task: TaskItem) -> ConversationItem:
    return C(f"CV#{task.agent_id}", task.lane)
