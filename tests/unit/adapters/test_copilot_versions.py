"""copilot in versions other than the one whose recordings we have: what 1.0.48 and 1.0.85 were seen to do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callboard_adapters.copilot import CopilotAdapter
from callboard_adapters.copilot_usage import from_session_file
from callboard_adapters.messages import MessageType, RunStatus, TokenUsage
from callboard_adapters.options import ExecOptions
from callboard_wire.failures import FailureReason
from tests.unit.adapters.speaking import Speaking
from tests.unit.adapters.test_copilot import RESUMED, UNIQUE, event, record, result, said, shutdown

STARTED = json.dumps(event("session.start", sessionId=UNIQUE)).encode() + b"\n"
FIRST, SECOND, BOTH = (100, 10, 80, 0), (130, 14, 90, 0), (230, 24, 170, 0)


@pytest.mark.parametrize("told", [14, 0])
@pytest.mark.parametrize("after", [SECOND, BOTH])
def test_a_resumed_run_bills_itself_alone_whether_the_shutdown_counts_the_session_or_the_run(after, told):
    """1.0.85 counts the session, 1.0.48 the run; what the messages told says which."""
    if not told and after == SECOND:
        after = FIRST  # without a word from the messages only totals that did not grow betray themselves
    usage = from_session_file(STARTED + shutdown(FIRST) + RESUMED + shutdown(after), told).usage
    assert usage == {"m-a": TokenUsage(20, 10, 80) if after == FIRST else TokenUsage(40, 14, 90)}


def test_a_resumed_run_that_was_killed_is_not_billed_the_run_before():
    assert from_session_file(STARTED + shutdown(FIRST) + RESUMED).usage == {}


def test_what_was_recorded_call_by_call_needs_no_totals():
    data = STARTED + shutdown(FIRST) + RESUMED + record((7, 2, 0, 0), "b") + shutdown(SECOND)
    assert from_session_file(data, 2).usage == {"m-a": TokenUsage(7, 2)}


@pytest.mark.parametrize(
    ("data", "rejected"), [(STARTED, True), (STARTED + RESUMED, False), (RESUMED, False), (b"", False)]
)
def test_a_session_that_was_made_under_the_asked_id_is_a_rejected_resume(data, rejected):
    """1.0.48 says nothing of it: the session's own file begins with this run."""
    run = Speaking(
        CopilotAdapter,
        options=ExecOptions(cwd="/work-dir", resume_session_id=UNIQUE),
        files={f"/home/somebody/.copilot/session-state/{UNIQUE}/events.jsonl": data},
        version="1.0.48",
    )
    outcome = run.event(said("x"), result()).finish(0)
    assert (outcome.status, outcome.resume_rejected, outcome.session_id) == (RunStatus.COMPLETED, rejected, UNIQUE)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("hello\n<exited with exit code 3>", "failed"),
        ("hello\n<shellId: 0 completed with exit code 3>\n", "failed"),
        ("hello\n<exited with exit code 0>", "completed"),
        ("it said <exited with exit code 3> and went on", "completed"),
        ("", "completed"),
    ],
)
def test_the_exit_status_is_read_from_the_text_where_no_field_has_it(text, status):
    done = event("tool.execution_complete", toolCallId="c1", success=True, result={"content": text})
    [shown] = Speaking(CopilotAdapter).event(done).of(MessageType.TOOL_RESULT)
    assert (shown.output, shown.status) == (text, status)


# ── what only the session's file tells ───────────────────────────────────────


def finished(reason: str) -> bytes:
    used = {"model": "m-a", "inputTokens": 7, "outputTokens": 2, "finishReason": reason}
    return json.dumps(event("session.usage_record", usage=used)).encode() + b"\n"


def with_session(data: bytes, *events: dict[str, Any]) -> Speaking:
    path = f"/home/somebody/.copilot/session-state/{UNIQUE}/events.jsonl"
    return Speaking(CopilotAdapter, files={path: data}).event(*events, result())


@pytest.mark.parametrize("reason", ["content_filter", "refusal"])
def test_an_answer_the_provider_filtered_is_a_failure_although_the_stream_shows_nothing_of_it(reason):
    outcome = with_session(finished("tool_calls") + finished(reason), said("I will not help with")).finish(0)
    assert (outcome.status, outcome.failure.reason) == (RunStatus.FAILED, FailureReason.AGENT_BLOCKED)
    assert (outcome.output, outcome.usage) == ("I will not help with", {"m-a": TokenUsage(14, 4)})


def test_only_the_last_call_of_this_run_decides_and_a_cut_answer_says_so():
    data = STARTED + finished("content_filter") + RESUMED + finished("stop")
    assert with_session(data, said("x")).finish(0).status is RunStatus.COMPLETED
    run = with_session(finished("length"), said("Hello from the lo"))
    assert run.finish(0).status is RunStatus.COMPLETED
    assert "cut off" in run.of(MessageType.LOG)[-1].content


NOTHING = "The model returned no content because the response was blocked by content filtering."


def test_copilot_s_own_sentence_in_place_of_an_answer_is_no_answer():
    run = Speaking(CopilotAdapter).event(said(NOTHING), result())
    outcome = run.finish(0)
    assert (outcome.status, outcome.output, outcome.error) == (RunStatus.FAILED, "", NOTHING)
    assert outcome.failure.reason is FailureReason.AGENT_BLOCKED
    assert (run.text(), run.of(MessageType.ERROR)[0].content) == ("", NOTHING)


def test_a_model_that_says_that_sentence_has_answered():
    delta = event("assistant.message_delta", messageId="m1", deltaContent=NOTHING)
    outcome = Speaking(CopilotAdapter).event(delta, said(NOTHING), result()).finish(0)
    assert (outcome.status, outcome.output) == (RunStatus.COMPLETED, NOTHING)


def test_what_ends_a_sub_agent_does_not_end_the_run():
    """As 1.0.102 marks them: with `agentId` beside the data."""
    run = Speaking(CopilotAdapter).event(
        {**event("subagent.started", toolCallId="c1", agentName="explore"), "agentId": "a1"},
        said("Done."),
        {**event("session.error", errorType="query", message="no luck"), "agentId": "a1"},
        {**event("abort", reason="limit"), "agentId": "a1"},
        {**event("assistant.idle", aborted=True), "agentId": "a1"},
        {**event("subagent.failed", toolCallId="c1", agentName="explore", error="no luck"), "agentId": "a1"},
        result(),
    )
    outcome = run.finish(0)
    assert (outcome.status, outcome.output) == (RunStatus.COMPLETED, "Done.")
    [told] = run.of(MessageType.LOG)
    assert (told.parent_call_id, "no luck" in told.content) == ("c1", True)
