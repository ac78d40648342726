from __future__ import annotations

import pytest

from callboard_adapters import FailureDetail, RunStatus, Watchdog
from callboard_adapters.base import Outcome, ProcessExit, StopCause
from callboard_adapters.outcome import Stopped, conclude, watchdog_stop
from callboard_wire.failures import FailureReason

DONE = Outcome(RunStatus.COMPLETED, "answer", session_id="s")
CANCEL = Stopped(StopCause.CANCEL, "cancelled by the caller")


def left(cause: StopCause | None = None, turn_ended: bool = False, code: int | None = 0) -> ProcessExit:
    return ProcessExit(code, None if code is not None else 15, cause, turn_ended, "")


def test_a_finished_turn_is_undone_neither_by_a_late_cancel_nor_by_the_exit():
    got = conclude(DONE, left(StopCause.CANCEL, turn_ended=True, code=None), CANCEL)
    assert (got.status, got.output, got.failure) == (RunStatus.COMPLETED, "answer", None)


def test_an_agent_that_answers_a_cancel_with_success_is_cancelled_all_the_same():
    got = conclude(DONE, left(StopCause.CANCEL), CANCEL)
    assert (got.status, got.failure, got.session_id) == (RunStatus.CANCELLED, None, "s")


@pytest.mark.parametrize(
    ("dog", "provider", "reason"),
    [
        (Watchdog.HARD, "claude", FailureReason.TIMEOUT),
        (Watchdog.HANDSHAKE, "claude", FailureReason.AGENT_TIMEOUT),
        (Watchdog.IDLE, "claude", FailureReason.IDLE_WATCHDOG),
        (Watchdog.TOOL, "claude", FailureReason.IDLE_WATCHDOG),
        (Watchdog.SEMANTIC_INACTIVITY, "claude", FailureReason.AGENT_TIMEOUT),
        (Watchdog.SEMANTIC_INACTIVITY, "codex", FailureReason.CODEX_SEMANTIC_INACTIVITY),
    ],
)
def test_each_clock_is_a_timeout_with_its_own_reason(dog, provider, reason):
    got = conclude(Outcome(RunStatus.FAILED), left(StopCause.WATCHDOG), watchdog_stop(dog, 3, provider))
    assert (got.status, got.failure.reason, got.failure.watchdog) == (RunStatus.TIMEOUT, reason, dog)
    assert "3 s" in got.error


def test_a_timeout_repeats_what_the_provider_had_been_answering():
    refused = Outcome(
        RunStatus.FAILED, error="said 500", failure=FailureDetail(FailureReason.SERVER_ERROR, http_status=500)
    )
    got = conclude(refused, left(StopCause.WATCHDOG), watchdog_stop(Watchdog.IDLE, 3, "x"))
    assert got.error.endswith("before that: said 500")
    assert got.failure.reason is FailureReason.IDLE_WATCHDOG


def test_a_failure_always_has_a_sentence_and_a_reason():
    got = conclude(Outcome(RunStatus.FAILED), left(code=3), None)
    assert (got.error, got.failure.reason) == ("the agent ended with exit status 3", FailureReason.PROCESS)


def test_a_completed_run_carries_no_leftover_error():
    got = conclude(Outcome(RunStatus.COMPLETED, error="warning"), left(), None)
    assert (got.error, got.failure) == ("", None)
