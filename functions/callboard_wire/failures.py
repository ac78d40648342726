"""Why a task failed: one closed list, with what follows from each reason as data.

The values are stored, sent and filtered on, so they never change their spelling. A reason that only the platform can
find is a bare word; one that comes from the agent's own process carries the prefix ``agent_error.``.
Decide by these members, never by the sentence beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Category(StrEnum):
    """Who has to act: the order a support person asks in."""

    PLATFORM = "platform"  # queue, lease, machine: ours
    SETUP = "setup"  # login, key, binary, version, model: the machine's owner
    PROVIDER = "provider"  # quota, rate, outage, network: the model's vendor
    CONVERSATION = "conversation"  # the session itself cannot go on
    RUN = "run"  # this run went wrong in a way only its log explains


class FailureReason(StrEnum):
    """Every reason a task may end with; `FAILURES` says what follows from it."""

    QUEUED_EXPIRED = "queued_expired"
    RUNTIME_OFFLINE = "runtime_offline"
    RUNTIME_RECONNECT_TIMEOUT = "runtime_reconnect_timeout"
    RUNTIME_RECOVERY = "runtime_recovery"
    TIMEOUT = "timeout"
    ITERATION_LIMIT = "iteration_limit"
    AGENT_BLOCKED = "agent_blocked"
    AGENT_FALLBACK_MESSAGE = "agent_fallback_message"
    API_INVALID_REQUEST = "api_invalid_request"
    SKILL_BUNDLE_UNAVAILABLE = "skill_bundle_unavailable"
    RUNTIME_CLI_TIMEOUT = "runtime_cli_timeout"
    INVALID_TASK_IDENTITY = "invalid_task_identity"
    WORKSPACE_MISMATCH = "workspace_mismatch"
    AGENT_WITHOUT_RUNTIME = "agent_without_runtime"
    RUNTIME_WITHOUT_OWNER = "runtime_without_owner"
    ISSUE_WINDOW_RESTRICTED = "issue_window_restricted"
    IDLE_WATCHDOG = "idle_watchdog"
    CODEX_SEMANTIC_INACTIVITY = "codex_semantic_inactivity"
    CODEX_RESUME_OVERSIZED = "codex_resume_oversized"
    AGENT_ERROR = "agent_error"  # only old daemons send the bare word

    AUTH = "agent_error.provider_auth_or_access"
    QUOTA = "agent_error.provider_quota_limit"
    RATE_LIMIT = "agent_error.provider_capacity_or_rate_limit"
    SERVER_ERROR = "agent_error.provider_server_error"
    NETWORK = "agent_error.provider_network"
    PROCESS = "agent_error.process_failure"
    EMPTY_OUTPUT = "agent_error.empty_or_unparseable_output"
    AGENT_TIMEOUT = "agent_error.agent_timeout"
    CONTEXT_OVERFLOW = "agent_error.context_overflow"
    MISSING_CONFIG = "agent_error.missing_config"
    MODEL = "agent_error.model_not_found_or_unavailable"
    VERSION = "agent_error.runtime_version_unsupported"
    MISSING_EXECUTABLE = "agent_error.runtime_missing_executable"
    UNKNOWN = "agent_error.unknown"


DEFAULT_ATTEMPTS: Final = 2
"""How often a task is tried in all when its reason allows a retry and nobody asked for another number."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What follows from a reason.

    `attempts` is the ceiling for this reason (the task's own `max_attempts` applies where it is None);
    `delays` are seconds before attempt 2, 3, …; `fresh_session` starts the retry without the old conversation;
    `poisons_session` keeps the session from ever being offered again.
    """

    category: Category
    retryable: bool = False
    attempts: int | None = None
    delays: tuple[float, ...] = (0.0,)
    fresh_session: bool = False
    poisons_session: bool = False
    waits_for_runtime: bool = False

    def delay(self, attempt: int) -> float:
        """Seconds to wait before `attempt` (2 is the first retry)."""
        return self.delays[min(max(attempt - 2, 0), len(self.delays) - 1)]


_P, _S, _V, _C, _R = Category.PLATFORM, Category.SETUP, Category.PROVIDER, Category.CONVERSATION, Category.RUN

FAILURES: Final[dict[FailureReason, Failure]] = {
    FailureReason.QUEUED_EXPIRED: Failure(_P),
    # The retry waits until the machine is healthy again, which the promotion decides; the second is only a marker.
    FailureReason.RUNTIME_OFFLINE: Failure(_P, retryable=True, delays=(1.0,), waits_for_runtime=True),
    FailureReason.RUNTIME_RECONNECT_TIMEOUT: Failure(_P),
    FailureReason.RUNTIME_RECOVERY: Failure(_P, retryable=True),
    FailureReason.TIMEOUT: Failure(_P, retryable=True),
    FailureReason.ITERATION_LIMIT: Failure(_C, poisons_session=True),
    FailureReason.AGENT_BLOCKED: Failure(_R),
    FailureReason.AGENT_FALLBACK_MESSAGE: Failure(_C, poisons_session=True),
    FailureReason.API_INVALID_REQUEST: Failure(_C, poisons_session=True),
    FailureReason.SKILL_BUNDLE_UNAVAILABLE: Failure(_P, retryable=True),
    # A CLI that cannot read its own configuration in time does so again: retrying only burns the machine.
    FailureReason.RUNTIME_CLI_TIMEOUT: Failure(_S),
    FailureReason.INVALID_TASK_IDENTITY: Failure(_P),
    FailureReason.WORKSPACE_MISMATCH: Failure(_P),
    FailureReason.AGENT_WITHOUT_RUNTIME: Failure(_S),
    FailureReason.RUNTIME_WITHOUT_OWNER: Failure(_S),
    FailureReason.ISSUE_WINDOW_RESTRICTED: Failure(_P),
    FailureReason.IDLE_WATCHDOG: Failure(_R),
    FailureReason.CODEX_SEMANTIC_INACTIVITY: Failure(_R, retryable=True, fresh_session=True, poisons_session=True),
    FailureReason.CODEX_RESUME_OVERSIZED: Failure(_C, poisons_session=True),
    FailureReason.AGENT_ERROR: Failure(_R),
    FailureReason.AUTH: Failure(_S),
    FailureReason.QUOTA: Failure(_V),
    FailureReason.RATE_LIMIT: Failure(_V),
    FailureReason.SERVER_ERROR: Failure(_V),
    FailureReason.NETWORK: Failure(_V, retryable=True, attempts=3, delays=(0.0, 5.0)),
    FailureReason.PROCESS: Failure(_R),
    FailureReason.EMPTY_OUTPUT: Failure(_R),
    FailureReason.AGENT_TIMEOUT: Failure(_R),
    FailureReason.CONTEXT_OVERFLOW: Failure(_C, poisons_session=True),
    FailureReason.MISSING_CONFIG: Failure(_S),
    FailureReason.MODEL: Failure(_S),
    FailureReason.VERSION: Failure(_S),
    FailureReason.MISSING_EXECUTABLE: Failure(_S),
    FailureReason.UNKNOWN: Failure(_R),
}


def parse_reason(value: str | None) -> FailureReason:
    """The member for a stored or received value; anything unheard of is `UNKNOWN`, so an older or newer peer's word
    never refuses the report of a failure."""
    try:
        return FailureReason(value or "")
    except ValueError:
        return FailureReason.UNKNOWN


def attempts_allowed(reason: FailureReason, max_attempts: int) -> int:
    """How many attempts a task may have in all after failing for `reason`.

    `max_attempts` ≤ 1 means "never retry" and no reason raises it; a reason that is not retryable allows none beyond
    the one that failed.
    """
    failure = FAILURES[reason]
    if not failure.retryable or max_attempts <= 1:
        return 1
    return max(max_attempts, failure.attempts or 0)
