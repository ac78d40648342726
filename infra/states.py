"""Writes docs/reference/tasks.md: a task's states, its moves, and why it fails, from the code's own tables.

.venv/bin/python infra/states.py            # a test says when it is not up to date
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from callboard_wire.failures import DEFAULT_ATTEMPTS, FAILURES, Category, Failure, FailureReason
from callboard_wire.states import MOVES, TERMINAL, Move, TaskStatus

TARGET = Path(__file__).resolve().parents[1] / "docs" / "reference" / "tasks.md"

STATES = {
    TaskStatus.DEFERRED: "waits for a time or for its machine",
    TaskStatus.QUEUED: "may be claimed",
    TaskStatus.DISPATCHED: "claimed; its machine prepares the folder, under a lease of 45 s that it renews",
    TaskStatus.WAITING_LOCAL_DIRECTORY: "claimed; waits for a folder that another run holds, under the same lease",
    TaskStatus.RUNNING: "the agent works",
    TaskStatus.COMPLETED: "the agent ended by itself, with its output",
    TaskStatus.FAILED: "it did not; `failure_reason` says why, and a retry may follow",
    TaskStatus.CANCELLED: "somebody stopped it",
}
BY = {
    Move.ENQUEUE: "a person, a retry or a rerun",
    Move.DEFER: "the same, for later",
    Move.PROMOTE: "the sweep, when it is due and no other task of that issue and agent is queued",
    Move.CLAIM: "a machine, in one transaction with the agent's slot",
    Move.RECLAIM: "the same machine, when its answer was lost and the lease is over; under a new fence",
    Move.REQUEUE: "the sweep when the lease is over, or a machine that was restarted",
    Move.WAIT: "the machine",
    Move.START: "the machine, once the folder exists",
    Move.COMPLETE: "the machine",
    Move.FAIL: "the machine, or the sweep when the machine has been silent for three hours",
    Move.EXPIRE: "the sweep",
    Move.REFUSE: "a claim that meets a task which can never run, and ends it so that nothing waits behind it",
    Move.CANCEL: "a person",
}
MEANS = {
    FailureReason.QUEUED_EXPIRED: "nobody claimed it within two hours",
    FailureReason.RUNTIME_OFFLINE: "its machine was not heard of for three hours while it ran",
    FailureReason.RUNTIME_RECONNECT_TIMEOUT: "the retry waited three hours for its machine",
    FailureReason.RUNTIME_RECOVERY: "the daemon was restarted while it ran",
    FailureReason.TIMEOUT: "it ran longer than it may, or was claimed twenty times and never started",
    FailureReason.ITERATION_LIMIT: "the CLI's own limit of turns",
    FailureReason.AGENT_BLOCKED: "the agent said that it cannot go on",
    FailureReason.AGENT_FALLBACK_MESSAGE: "the CLI answered with a stock phrase instead of a result",
    FailureReason.API_INVALID_REQUEST: "the provider refuses the conversation itself",
    FailureReason.SKILL_BUNDLE_UNAVAILABLE: "a skill could not be fetched",
    FailureReason.RUNTIME_CLI_TIMEOUT: "the CLI did not get ready in time",
    FailureReason.INVALID_TASK_IDENTITY: "its agent or runtime is gone, or is not the one it names",
    FailureReason.WORKSPACE_MISMATCH: "task, agent and runtime are not of one workspace",
    FailureReason.AGENT_WITHOUT_RUNTIME: "its agent has no runtime any more",
    FailureReason.RUNTIME_WITHOUT_OWNER: "nobody of the workspace owns its runtime, so a run would act for nobody",
    FailureReason.ISSUE_WINDOW_RESTRICTED: "its issue is outside what the workspace may see",
    FailureReason.IDLE_WATCHDOG: "the CLI said nothing for too long",
    FailureReason.CODEX_SEMANTIC_INACTIVITY: "Codex was busy without getting anywhere",
    FailureReason.CODEX_RESUME_OVERSIZED: "Codex cannot load a session that long",
    FailureReason.AGENT_ERROR: "an older daemon's word for any of those below",
    FailureReason.AUTH: "the CLI is not logged in, or not for this model",
    FailureReason.QUOTA: "the provider's quota or balance is used up",
    FailureReason.RATE_LIMIT: "the provider is overloaded, or limits this account's rate",
    FailureReason.SERVER_ERROR: "the provider failed",
    FailureReason.NETWORK: "the connection to the provider broke",
    FailureReason.PROCESS: "the CLI's process failed",
    FailureReason.EMPTY_OUTPUT: "nothing came, or nothing that can be read",
    FailureReason.AGENT_TIMEOUT: "the CLI's own time limit",
    FailureReason.CONTEXT_OVERFLOW: "the conversation is longer than the model's context",
    FailureReason.MISSING_CONFIG: "a key or a setting is missing",
    FailureReason.MODEL: "the provider does not have that model",
    FailureReason.VERSION: "the CLI is too old",
    FailureReason.MISSING_EXECUTABLE: "the CLI is not installed",
    FailureReason.UNKNOWN: "none of these; its log says more",
}
ACTS = {
    Category.PLATFORM: "callboard",
    Category.SETUP: "the machine's or agent's owner",
    Category.PROVIDER: "the model's vendor",
    Category.CONVERSATION: "a new conversation",
    Category.RUN: "whoever reads the log",
}


def text() -> str:
    states = [[f"`{s.value}`", STATES[s], "yes" if s in TERMINAL else ""] for s in TaskStatus]
    moves = [[f"`{m.value}`", _sources(m), f"`{MOVES[m][1].value}`", BY[m]] for m in Move]
    reasons = [[f"`{r.value}`", MEANS[r], ACTS[FAILURES[r].category], *_again(FAILURES[r])] for r in FailureReason]
    return f"""# A task's states, its moves, and why it fails

Made from `callboard_wire/states.py` and `callboard_wire/failures.py` by `infra/states.py`.

## States

{_table(["state", "is", "the end"], states)}

## Moves

`GET /api/tasks/{{id}}` and `callboard task history` list a task's. Each is one conditional write or transaction;
whatever is not in this table is refused.

{_table(["move", "from", "to", "made by"], moves)}

## Why a task failed

`tried again` is how many attempts there are in all where the task itself does not ask for fewer or more
(`max_attempts`, {DEFAULT_ATTEMPTS} unless said otherwise; 1 means never again). A session is kept for the next run
unless the reason retires it.

{_table(["reason", "what happened", "who has to act", "tried again", "session"], reasons)}
"""


def _sources(move: Move) -> str:
    return ", ".join(f"`{s.value}`" for s in TaskStatus if s in MOVES[move][0]) or "–"


def _again(failure: Failure) -> list[str]:
    session = "retired" if failure.poisons_session else "kept"
    if not failure.retryable:
        return ["no", session]
    when = "when its machine is back" if failure.waits_for_runtime else _delays(failure)
    return [f"{failure.attempts or DEFAULT_ATTEMPTS} attempts, {when}", session]


def _delays(failure: Failure) -> str:
    pauses = [f"{delay:g} s" if delay else "at once" for delay in failure.delays]
    return ", then ".join(pauses)


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    TARGET.write_text(text())
    print(f"{TARGET.name}: {len(TaskStatus)} states, {len(Move)} moves, {len(FailureReason)} reasons")
