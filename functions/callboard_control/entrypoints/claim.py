"""claim: a daemon asks for work, and may be held until there is some."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final

from callboard_control import ports
from callboard_control.actor import Daemon
from callboard_control.entrypoints._http import as_handler, daemon, daemon_of, logger, new_app
from callboard_control.errors import ApiError
from callboard_control.fleet import machines
from callboard_control.ports.secrets import SecretsLost, SecretsUnavailable
from callboard_control.store.errors import StoreError
from callboard_control.store.models import TaskItem
from callboard_control.tasks import claim as claiming
from callboard_control.tasks import finish
from callboard_control.tasks.payload import SkillsTold, payload
from callboard_wire.answers import ANSWER_BYTES, cost
from callboard_wire.bodies import (
    CAPABILITIES_HEADER,
    MAX_WAIT_S,
    SKILL_BUNDLES,
    ClaimedTask,
    ClaimRequest,
    ClaimResponse,
    FailRequest,
    SingleClaimResponse,
)
from callboard_wire.failures import FailureReason

MARGIN_S: Final = 5.0
"""Left of the function's time for one more look and the answer."""
PAUSE_S: Final = 5.0
"""What a daemon without a long poll is told to wait between two empty claims."""
ENOUGH_BYTES: Final = 1_500_000
"""An answer that has this much takes no further task: the next may have a long prompt."""

app = new_app()
handler = as_handler(app)


@app.post("/api/daemon/tasks/claim")
def claim(request: ClaimRequest) -> ClaimResponse:
    first = request.runtime_ids[0] if request.runtime_ids else None
    caller = daemon(app, daemon_id=request.daemon_id, runtime_id=first)
    return _held(caller, request.runtime_ids, request)


@app.post("/api/daemon/claim")
def claim_by_its_older_path(request: ClaimRequest) -> ClaimResponse:
    return claim(request)


@app.post("/api/daemon/runtimes/<runtime_id>/tasks/claim")
def claim_for_one_runtime(runtime_id: str, request: ClaimRequest) -> SingleClaimResponse:
    caller = daemon_of(app, runtime_id, daemon_id=request.daemon_id)
    answer = _held(caller, [runtime_id], request.model_copy(update={"max_tasks": min(request.max_tasks, 1)}))
    return SingleClaimResponse(task=answer.tasks[0] if answer.tasks else None, retry_after_s=answer.retry_after_s)


def _held(caller: Daemon, runtime_ids: list[str], request: ClaimRequest) -> ClaimResponse:
    """Look, and while there is nothing wait for the bell and look again, until the call's time is up.

    The mark is taken before the look, so work that arrives between the two wakes the wait at once.
    """
    hold_s = min(request.wait, MAX_WAIT_S, app.lambda_context.get_remaining_time_in_millis() / 1000 - MARGIN_S)
    deadline = time.monotonic() + hold_s
    doorbell = ports.current().doorbell
    while True:
        seen = doorbell.sample(runtime_ids)
        answer = _Answer(caller, SkillsTold(by_name=_asks_for_skills()))
        taken = claiming.claim(caller, runtime_ids, request.max_tasks, request.claim_id, answer.take)
        left = deadline - time.monotonic()
        if taken or request.max_tasks == 0 or left <= 0 or not doorbell.wait(seen, left):
            break
        caller = machines.touch(caller)
    waited = hold_s > 0 and request.max_tasks > 0 and not taken
    return ClaimResponse(tasks=answer.tasks, retry_after_s=0.0 if answer.tasks or waited else PAUSE_S)


def _asks_for_skills() -> bool:
    """Whether the daemon asks for the skills it lacks; one that does not is sent them whole."""
    return SKILL_BUNDLES in app.current_event.headers.get(CAPABILITIES_HEADER.lower(), "")


@dataclass(slots=True)
class _Answer:
    """What the daemon needs for each task it is given, built as each is claimed."""

    caller: Daemon
    skills: SkillsTold
    tasks: list[ClaimedTask] = field(default_factory=list)
    size: int = 0

    def take(self, claim: claiming.Claim) -> bool:
        """Add the claimed task; whether there is room for another. One that cannot be built (mostly, a store that does
        not answer), or does not fit beside the others, is left to its lease: the pause before it is handed out again.
        Alone every task fits."""
        provider = self.caller.runtimes.get(claim.task.runtime_id, "")
        self.skills.room = ANSWER_BYTES - self.size
        try:
            task = payload(claim, provider, self.skills)
        except SecretsLost as e:
            self._end(claim.task, f"The agent's secrets cannot be read: {e}. Set them again.")
            return True
        except (StoreError, ApiError, SecretsUnavailable):
            logger.exception("payload", extra={"task_id": claim.task.id})
            return True
        self.size += cost(task.model_dump(mode="json"))
        if self.tasks and self.size > ANSWER_BYTES:
            return False
        self.tasks.append(task)
        return self.size < ENOUGH_BYTES

    def _end(self, task: TaskItem, why: str) -> None:
        """End a task that no claim can ever hand out; a store that does not answer leaves it to its lease."""
        ending = FailRequest(error=why, failure_reason=FailureReason.MISSING_CONFIG)
        ending.claim_id, ending.fence = task.claim_id, int(task.fence)
        try:
            finish.fail(self.caller, task.id, ending)
        except (StoreError, ApiError):
            logger.exception("ending", extra={"task_id": task.id})
