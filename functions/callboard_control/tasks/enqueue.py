"""Enqueue: a wish becomes a task, once.

The decision (which agent, which runtime, duplicate or not) is made here; the effect is one conditional write, or one
transaction where an issue's pending place has to be taken too.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from callboard_control import ports
from callboard_control.actor import Actor
from callboard_control.errors import Conflict, InvalidRequest, NotFound
from callboard_control.store import keys, table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.models import AgentItem, PendingItem, ReceiptItem, TaskItem
from callboard_control.tasks import conditions, conversation, record
from callboard_control.tasks.build import build
from callboard_wire.states import TaskStatus

if TYPE_CHECKING:
    from callboard_wire.api import EnqueueRequest

TRIES: Final = 4
MAX_WISHES: Final = 50
"""So many may join one waiting task: they are in its item, and every write of an item is paid by its size."""
MAX_WISHES_BYTES: Final = 2_000_000
"""So much of an answer may they take: a claim hands them all out in one, with the prompt."""
RECEIPT_KEPT_MS: Final = 7 * 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Enqueued:
    task: TaskItem
    created: bool
    coalesced: bool = False


def enqueue(request: EnqueueRequest, agent: AgentItem, actor: Actor) -> Enqueued:
    """Make the task `request` asks for, or return the one that already answers it.

    Raises `InvalidRequest` (agent archived or without a runtime), `Conflict` ``idempotency_mismatch``.
    """
    refuse_unready(agent)
    task = _draft(request, agent, actor)
    outcome = place(task)
    if outcome.task.status == TaskStatus.QUEUED:
        ports.ring(outcome.task.runtime_id)  # for a repeated one too: the first call may have got no further
    return outcome


def refuse_unready(agent: AgentItem) -> None:
    """Raises `InvalidRequest` for an agent that is archived or has no runtime."""
    if agent.archived is not None:
        raise InvalidRequest(
            f"The agent {agent.name!r} is archived; restore it first.", code="agent_archived", agent_id=agent.id
        )
    if not agent.runtime_id:
        raise InvalidRequest(
            f"The agent {agent.name!r} has no runtime; give it one of `callboard runtime list`.",
            code="agent_runtime_required",
            agent_id=agent.id,
        )


def _draft(request: EnqueueRequest, agent: AgentItem, actor: Actor) -> TaskItem:
    digest = None
    if request.idempotency_key is None:
        task_id = keys.new_id()
    else:
        task_id = keys.derived_id("task", agent.workspace_id, agent.id, request.idempotency_key)
        digest = request_digest(request)
    fire_at = int(request.fire_at.timestamp() * 1000) if request.fire_at else None
    prior = _resumed(request, agent) if request.resume_task_id else None
    later = fire_at is not None and fire_at > ports.now_ms()
    return build(
        task_id,
        request.prompt.replace("\x00", ""),
        actor.label,
        fire_at=fire_at if later else None,
        workspace_id=agent.workspace_id,
        agent_id=agent.id,
        runtime_id=agent.runtime_id,
        priority=request.priority or None,
        thread_name=request.thread_name,
        issue_id=request.issue_id,
        chat_session_id=request.chat_session_id,
        lane=lane_of(agent.id, request.issue_id, request.chat_session_id),
        kind="chat" if request.chat_session_id else None,
        request_digest=digest,
        max_attempts=request.max_attempts if request.max_attempts != 2 else None,
        timeout_s=request.timeout_s,
        model_profile=request.model_profile,
        prior_session_id=conversation.carried(prior) if prior and prior.runtime_id == agent.runtime_id else None,
        prior_work_dir=prior.work_dir if prior else None,
    )


def place(task: TaskItem) -> Enqueued:
    """Write the new task down, in its issue's one pending place where it has an issue."""
    if task.issue_id and task.status == TaskStatus.QUEUED:
        return _place_for_issue(task, record.prompt_of(task))
    return _place(task)


def insert(task: TaskItem) -> Enqueued | None:
    """Write the new task down, and its issue's one pending place where it has an issue; None if that one is taken."""
    if not task.issue_id or task.status != TaskStatus.QUEUED:
        return _place(task)
    place = PendingItem(f"PN#{task.issue_id}", task.agent_id, task_id=task.id)
    try:
        table.transact([table.Put(task, conditions.is_new()), table.Put(place, conditions.place_is_free())])
    except ConditionFailed as e:
        return _same_again(task) if 0 in e.failed else None
    return Enqueued(task, created=True)


def repeated(task: TaskItem) -> Enqueued | None:
    """What an earlier call under the same key has made, or joined; None without one. Raises `Conflict`
    ``idempotency_mismatch``."""
    if task.request_digest is None:
        return None
    found = record.load(task.id)
    return _same_again(task) if found is not None else _joined_before(task)


def pending_of(task: TaskItem) -> TaskItem | None:
    """The task that waits for the same issue and agent, if any."""
    found = table.get(PendingItem, f"PN#{task.issue_id}", task.agent_id) if task.agent_id else None
    return record.load(found.task_id) if found is not None else None


def lane_of(agent_id: str, issue_id: str | None, chat_session_id: str | None) -> str | None:
    """What may run only once at a time for this agent. Plain tasks have none: they run side by side up to capacity."""
    if chat_session_id:
        return f"C#{chat_session_id}"
    return f"I#{issue_id}" if issue_id else None


def request_digest(request: EnqueueRequest) -> bytes:
    body = request.model_dump(mode="json", exclude={"idempotency_key", "agent"})
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).digest()[:16]


def _resumed(request: EnqueueRequest, agent: AgentItem) -> TaskItem:
    prior = record.load(request.resume_task_id or "")
    if prior is None or prior.workspace_id != agent.workspace_id:
        raise NotFound.of("task", request.resume_task_id or "")
    if prior.agent_id != agent.id:
        raise InvalidRequest(
            "A session can only be resumed by the agent that had it.", code="other_agents_session", task_id=prior.id
        )
    if not conversation.resume_safe(prior):
        raise Conflict(
            f"The session of a task that is {prior.status} ({prior.failure_reason or 'not ended'}) cannot be resumed.",
            code="session_not_resumable",
            task_id=prior.id,
        )
    return prior


def _place(task: TaskItem) -> Enqueued:
    try:
        table.put(task, conditions.is_new())
    except ConditionFailed:
        return _same_again(task)
    return Enqueued(task, created=True)


def _same_again(task: TaskItem) -> Enqueued:
    """The id is taken: by this very call (its answer was lost), or by another one under the same key."""
    found = record.load(task.id)
    if found is None:
        raise Conflict("The task was deleted while it was being made; try again.")
    if task.request_digest is None:
        return Enqueued(found, created=True)  # nobody else could have made up this id
    _refuse_mismatch(task, found.request_digest, found.id)
    return Enqueued(found, created=False)


def _refuse_mismatch(task: TaskItem, digest: bytes | None, task_id: str) -> None:
    if task.request_digest != digest:
        raise Conflict(
            "This idempotency key was used with another body; use a new key for another task.",
            code="idempotency_mismatch",
            task_id=task_id,
        )


def _place_for_issue(task: TaskItem, prompt: str) -> Enqueued:
    for _ in range(TRIES):
        done = _joined_before(task) or insert(task) or _join(task, prompt)
        if done is not None:
            return done
    raise contended(task)


def contended(task: TaskItem) -> Conflict:
    return Conflict("The issue's pending task kept changing; try again.", code="contended", issue_id=task.issue_id)


def _join(task: TaskItem, prompt: str) -> Enqueued | None:
    """Add the wish to the task that already waits for this issue and agent; None if that one was just claimed."""
    place = table.get(PendingItem, f"PN#{task.issue_id}", task.agent_id)
    if place is None:
        return None
    entry = record.wish(place.task_id, prompt)
    if record.is_long(entry):
        _refuse_bulk(place.task_id, entry)
    addition = table.Update(
        record.keyed(place.task_id),
        [TaskItem.coalesced.set((TaskItem.coalesced | []).append([entry]))],
        conditions.all_of(
            conditions.in_state(TaskStatus.QUEUED.value),
            conditions.unsaid(entry),
            conditions.takes_wishes(MAX_WISHES),
        ),
    )
    try:
        _add(addition, _receipt(task, place.task_id))
    except ConditionFailed:
        waiting = record.load(place.task_id)
        if waiting is None or waiting.status != TaskStatus.QUEUED:
            return None
        if entry not in (waiting.coalesced or []):
            _refuse_crowd(waiting)
            return None
    return Enqueued(record.load(place.task_id) or task, created=False, coalesced=True)


def _add(addition: table.Update, receipt: list[table.Write]) -> None:
    if receipt:
        table.transact([addition, *receipt])
    else:  # half the price of a transaction
        table.update(addition.item, addition.actions, addition.condition)


def _refuse_crowd(waiting: TaskItem) -> None:
    if len(waiting.coalesced or []) >= MAX_WISHES:
        raise Conflict(
            f"{MAX_WISHES} wishes have joined the task that waits already; try again once it is claimed.",
            code="too_many_wishes",
            task_id=waiting.id,
        )


def _refuse_bulk(task_id: str, entry: str) -> None:
    waiting = record.load(task_id)
    joined = [*((waiting.coalesced if waiting is not None else None) or [])]
    if entry not in joined and sum(map(record.wish_bytes, [*joined, entry])) > MAX_WISHES_BYTES:
        raise Conflict(
            f"The wishes that join the task that waits already may take {MAX_WISHES_BYTES} bytes of an answer in all;"
            " try again once it is claimed.",
            code="too_many_wishes",
            task_id=task_id,
        )


def _receipt(task: TaskItem, joined: str) -> list[table.Write]:
    """A wish under a caller's own key that joined a task leaves a note where its own task would have been: a repeat of
    the call finds it even when that task has long been claimed."""
    if task.request_digest is None:
        return []
    receipt = ReceiptItem(task.pk, "J", task_id=joined, request_digest=task.request_digest)
    receipt.ttl = (ports.now_ms() + RECEIPT_KEPT_MS) // 1000
    return [table.Put(receipt, ReceiptItem.pk.does_not_exist())]


def _joined_before(task: TaskItem) -> Enqueued | None:
    found = table.get(ReceiptItem, task.pk, "J") if task.request_digest is not None else None
    if found is None:
        return None
    _refuse_mismatch(task, found.request_digest, found.task_id)
    joined = record.load(found.task_id)
    return Enqueued(joined, created=False, coalesced=True) if joined is not None else None
