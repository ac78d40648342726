"""Build: the one place where a task's item is made, be it for a wish, a retry or a rerun.

Every field of `TaskItem` is in exactly one of the four sets below (a test holds them against the model), so whoever
adds a field says what becomes of it when the task is tried again.
"""

from __future__ import annotations

from typing import Any, Final

from callboard_control import ports
from callboard_control.store import keys
from callboard_control.store.models import TaskItem, new
from callboard_control.tasks import ready, record
from callboard_wire.states import Move, TaskStatus

COPIED: Final = frozenset(
    {
        "workspace_id",
        "agent_id",
        "runtime_id",
        "kind",
        "priority",
        "thread_name",
        "issue_id",
        "chat_session_id",
        "lane",
        "max_attempts",
        "timeout_s",
        "model_profile",
    }
)
"""What the wish is, whoever tries it: a task made from another has it from there unless its maker says otherwise."""

SAID: Final = frozenset(
    {
        "attempt",
        "request_digest",
        "waits_for_runtime",
        "prior_session_id",
        "prior_work_dir",
        "force_fresh",
        "retry_of",
        "rerun_of",
    }
)
"""What only its maker can say, and what is absent otherwise."""

MADE: Final = frozenset(
    {
        *("pk", "sk", "gpk", "gsk", "rpk", "rsk"),
        *("id", "status", "created", "fire_at", "moves", "prompt", "prompt_parts"),
    }
)
"""What is made here."""

LATER: Final = frozenset(
    {
        "ttl",
        "coalesced",  # wishes that joined the earlier task are in its prompt by now
        "queued",
        "dispatched",
        "started",
        "ended",
        "lease_until",
        "fence",
        "claim_id",
        "token_digests",
        "wait_reason",
        "output",
        "output_parts",
        "error",
        "failure_reason",
        "session_id",
        "retired_session_id",
        "work_dir",
        "durable_work_dir",
        "branch_name",
        "session_rollout_missing",
        "duration_ms",
        "retried_by",
    }
)
"""What comes with a run and its end: no new task has any of it."""


def build(
    task_id: str, prompt: str, by: str, *, source: TaskItem | None = None, fire_at: int | None = None, **said: Any
) -> TaskItem:
    """A new task that is not stored yet (a long prompt is, beside it), in its place on the `ready` index.

    `by` is who made it; `source` the task it repeats; `fire_at` (ms) defers it; `said` are fields of `COPIED` and
    `SAID`, None and "" for none. Raises `TypeError` for any other field.
    """
    if unknown := said.keys() - COPIED - SAID:
        raise TypeError(f"a new task cannot be given {', '.join(sorted(unknown))}")
    values = {name: getattr(source, name) for name in COPIED} if source is not None else {}
    values |= said
    now = ports.now_ms()
    text, parts = record.store_text(task_id, record.prompt_name(values.get("request_digest")), prompt)
    deferred = fire_at is not None
    task: TaskItem = new(
        TaskItem,
        pk=keys.task(task_id),
        sk="T",
        gpk=keys.tasks_of(values["workspace_id"]),
        gsk=f"{keys.stamp(now)}#{task_id}",
        id=task_id,
        status=(TaskStatus.DEFERRED if deferred else TaskStatus.QUEUED).value,
        created=now,
        fire_at=fire_at,
        prompt=text,
        prompt_parts=parts,
        moves=[record.move_entry(Move.DEFER if deferred else Move.ENQUEUE, now, by)],
        **values,
    )
    ready.index(task)
    return task
