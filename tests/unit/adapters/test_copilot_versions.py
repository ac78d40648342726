"""copilot in versions other than the one whose recordings we have: what 1.0.48 and 1.0.85 were seen to do."""

from __future__ import annotations

import json

import pytest

from callboard_adapters.copilot import CopilotAdapter
from callboard_adapters.copilot_usage import from_session_file
from callboard_adapters.messages import MessageType, RunStatus, TokenUsage
from callboard_adapters.options import ExecOptions
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
