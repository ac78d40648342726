"""From the adapter's view of the end to the one `Result`: the precedence every provider shares.

1. The turn had ended (`TurnEnded`) before anything stopped the run: the adapter's outcome stands, whatever became of
   the process afterwards. A good answer is not undone by a cancel that came too late or by a crash while exiting.
2. The driver stopped the run: cancelled, timeout, or failed with the driver's reason. An answer the agent still gave
   to a cancel request does not make it completed: it was told to stop.
3. The process ended by itself: the adapter's outcome.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from callboard_adapters import failures
from callboard_adapters.base import Outcome, ProcessExit, StopCause
from callboard_adapters.messages import FailureDetail, RunStatus, Watchdog
from callboard_wire.failures import FailureReason

_WATCHDOG_REASONS = {
    Watchdog.HARD: FailureReason.TIMEOUT,
    Watchdog.HANDSHAKE: FailureReason.AGENT_TIMEOUT,
    Watchdog.FIRST_PROGRESS: FailureReason.AGENT_TIMEOUT,
    Watchdog.SEMANTIC_INACTIVITY: FailureReason.AGENT_TIMEOUT,
    Watchdog.IDLE: FailureReason.IDLE_WATCHDOG,
    Watchdog.TOOL: FailureReason.IDLE_WATCHDOG,
}
_WATCHDOG_WORDS = {
    Watchdog.HARD: "the run timed out after {:g} s",
    Watchdog.HANDSHAKE: "the CLI was not ready: handshake timed out after {:g} s",
    Watchdog.FIRST_PROGRESS: "no progress at all: the first word timed out after {:g} s",
    Watchdog.SEMANTIC_INACTIVITY: "no progress: the run timed out after {:g} s without text, thought or tool call",
    Watchdog.IDLE: "the run was silent: idle watchdog timed out after {:g} s",
    Watchdog.TOOL: "a tool was silent: tool watchdog timed out after {:g} s",
}


@dataclass(frozen=True, slots=True)
class Stopped:
    """Why the driver ended the run: a cause, a sentence, and for a clock or the adapter's `Stop` the failure."""

    cause: StopCause
    error: str
    failure: FailureDetail | None = None


def asks(answer: str) -> bool:
    """Whether an answer ends with a question to whoever reads it: the work may be over and is not done."""
    return answer.rstrip(" \t\r\n*_`\"'”’»)]").endswith(("?", "？", "؟"))


def watchdog_stop(dog: Watchdog, limit: float, provider: str) -> Stopped:
    """The stop for a clock that ran out after `limit` seconds."""
    reason = _WATCHDOG_REASONS[dog]
    if provider == "codex" and dog in (Watchdog.FIRST_PROGRESS, Watchdog.SEMANTIC_INACTIVITY):
        reason = FailureReason.CODEX_SEMANTIC_INACTIVITY  # retried on a fresh thread: the stalled one stays stalled
    text = _WATCHDOG_WORDS[dog].format(limit)
    return Stopped(StopCause.WATCHDOG, text, FailureDetail(reason, text, watchdog=dog))


def conclude(outcome: Outcome, exit: ProcessExit, stopped: Stopped | None) -> Outcome:
    """The outcome as the caller gets it: with its final status, an error sentence and a classified failure."""
    if stopped is not None and not exit.turn_ended:
        return _stopped(outcome, stopped)
    if outcome.status in (RunStatus.COMPLETED, RunStatus.CANCELLED):
        return replace(outcome, error="", failure=None)
    error = outcome.error or f"the agent ended with {exit}"
    failure = outcome.failure or failures.classify(error, exit)
    return replace(outcome, error=error, failure=failure)


def _tells_more(outcome: Outcome, failure: FailureDetail) -> bool:
    """The adapter knows better than "the process was ended": what it waited for, what the provider refused."""
    if not outcome.error or outcome.error == failure.detail:
        return False
    if failure.watchdog is Watchdog.HANDSHAKE:
        return True
    said = outcome.failure
    return said is not None and (
        bool(said.http_status or said.provider_code)
        or said.reason not in (FailureReason.PROCESS, FailureReason.UNKNOWN)
    )


def _stopped(outcome: Outcome, stopped: Stopped) -> Outcome:
    # A session that was refused is refused, whoever ended the process after that.
    if stopped.cause in (StopCause.CANCEL, StopCause.CLOSED):
        return replace(outcome, status=RunStatus.CANCELLED, error=stopped.error, failure=None)
    status = RunStatus.TIMEOUT if stopped.cause is StopCause.WATCHDOG else RunStatus.FAILED
    failure = stopped.failure or FailureDetail(FailureReason.PROCESS, stopped.error)
    # A run that waited for a provider which kept refusing says so: "silent for 30 min" alone helps nobody.
    error = f"{stopped.error}; before that: {outcome.error}" if _tells_more(outcome, failure) else stopped.error
    return replace(outcome, status=status, error=error, failure=failure)
