"""Retry: which failures are tried again, when, and with what of the old conversation. All of it is data in the wire's
`FAILURES`; here it becomes a child task."""

from __future__ import annotations

from typing import Final

from callboard_control import ports
from callboard_control.actor import SYSTEM
from callboard_control.store import keys
from callboard_control.store.models import TaskItem
from callboard_control.tasks import conversation, record
from callboard_control.tasks.build import build
from callboard_wire.failures import DEFAULT_ATTEMPTS, FAILURES, FailureReason, attempts_allowed

CHAT_RETRY: Final = 3
"""The least priority of a chat's retry: a message that came while it ran must not be answered before it."""


def child_of(task: TaskItem, reason: FailureReason) -> TaskItem | None:
    """The task that tries again after `task` failed for `reason`; None where there is to be none.

    Its id follows from the parent's, so a failure reported twice makes one retry.
    """
    attempt = int(task.attempt or 1)
    if attempt >= attempts_allowed(reason, int(task.max_attempts or DEFAULT_ATTEMPTS)):
        return None
    failure = FAILURES[reason]
    delay_ms = int(failure.delay(attempt + 1) * 1000)
    later = delay_ms > 0 or failure.waits_for_runtime
    child_id = keys.derived_id("retry", task.id)
    fresh = failure.fresh_session
    return build(
        child_id,
        record.prompt_of(task),
        SYSTEM,
        source=task,
        fire_at=ports.now_ms() + delay_ms if later else None,
        priority=_priority(task),
        attempt=attempt + 1,
        waits_for_runtime=True if failure.waits_for_runtime else None,
        prior_session_id=None if fresh else conversation.carried(task),
        prior_work_dir=None if fresh else (task.work_dir or task.prior_work_dir),
        force_fresh=True if fresh else None,
        retry_of=task.id,
    )


def _priority(task: TaskItem) -> int | None:
    mine = int(task.priority or 0)
    return max(mine, CHAT_RETRY) if task.chat_session_id else mine or None
