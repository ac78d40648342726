"""pi in versions other than the one whose recordings we have: what 1.6.0 was seen to do, and what its manual says."""

from __future__ import annotations

import pytest

from callboard_adapters.messages import MessageType, RunStatus, TokenUsage
from callboard_adapters.pi import PiAdapter
from callboard_wire.failures import FailureReason
from tests.unit.adapters.speaking import Speaking
from tests.unit.adapters.test_pi import END, USAGE, begin, message, turn

ONE = TokenUsage(10, 4, 3, 1, 125_000_000)
SETTLED = {"type": "agent_settled", "aborted": False}


def test_the_run_is_over_when_the_agent_has_settled_and_nothing_of_it_is_unknown():
    appended = {"type": "entry_appended", "entry": {"type": "context_edit"}}
    run = Speaking(PiAdapter).event(*begin(), *turn(message("Done.")), END, appended, SETTLED)
    assert run.turn_ended
    assert (run.finish(0).status, run.finish(0).output) == (RunStatus.COMPLETED, "Done.")
    assert run.of(MessageType.LOG) == []


def test_a_failed_run_that_has_settled_has_failed():
    refused = message(stop="error", errorMessage="401 invalid key")
    run = Speaking(PiAdapter).event(*begin(), *turn(refused), END, SETTLED)
    assert run.turn_ended
    assert (run.finish(0).status, run.finish(0).error) == (RunStatus.FAILED, "401 invalid key")


def test_tokens_that_a_tool_or_a_compaction_used_are_the_run_s_too():
    asked = {"type": "message_end", "message": {"role": "toolResult", "toolCallId": "c0", "usage": USAGE}}
    made_room = {"type": "compaction_end", "reason": "threshold", "result": {"summary": "s", "usage": USAGE}}
    run = Speaking(PiAdapter).event(*begin(), *turn(message(calls=1, stop="toolUse")), asked, asked, made_room)
    assert sum(run.finish(0).usage.values(), TokenUsage()) == ONE + ONE + ONE


@pytest.mark.parametrize("kind", ["auto_retry_start", "summarization_retry_scheduled"])
def test_a_retry_of_any_kind_is_told_as_one(kind):
    event = {"type": kind, "attempt": 1, "maxAttempts": 3, "delayMs": 2000, "errorMessage": "529 overloaded"}
    [told] = Speaking(PiAdapter).event(*begin(), event).of(MessageType.STATUS)
    assert told.status == "retrying"
    assert "529 overloaded" in told.content


@pytest.mark.parametrize("raw", ["refusal", "content_filter"])
def test_a_refusal_is_known_by_the_provider_s_own_word(raw):
    said = "The model refused to complete the request"
    refused = message("I will not", stop="error", errorMessage=said, rawStopReason=raw)
    outcome = Speaking(PiAdapter).event(*begin(), *turn(refused), END, SETTLED).finish(0)
    assert (outcome.status, outcome.error) == (RunStatus.FAILED, said)
    assert (outcome.failure.reason, outcome.failure.provider_code) == (FailureReason.AGENT_BLOCKED, raw)
