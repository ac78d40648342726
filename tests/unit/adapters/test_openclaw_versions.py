"""OpenClaw in versions other than the one whose recordings we have: what 2026.5.7 and 2026.7.35 were seen to do."""

from __future__ import annotations

import pytest

from callboard_adapters.messages import MessageType, RunStatus
from callboard_wire.failures import FailureReason
from tests.unit.adapters.test_openclaw import PLAIN, document, lines, openclaw

FILE = "/home/somebody/.openclaw/agents/main/sessions/s-1.jsonl"
SAID = b'{"type":"message","message":{"role":"user","content":[{"type":"text","text":"hello"}]}}\n'
ANSWERED = b'{"type":"message","message":{"role":"assistant","content":[{"type":"text","text":"role: user"}]}}\n'


@pytest.mark.parametrize(
    ("texts", "final", "answer"),
    [
        (("I will run a command.", "Finished."), "Finished.", "Finished."),
        (("First half,", " second half."), "First half, second half.", "First half, second half."),
        (("One.", "Two."), "Two other words", "One.\n\nTwo."),  # it names something else: nothing is left out
        (("One.", "Two."), None, "One.\n\nTwo."),
        ((), "Only there", ""),
    ],
)
def test_what_was_said_before_a_tool_call_is_no_part_of_the_answer(texts, final, answer):
    """2026.5.7 has a payload for each; `finalAssistantVisibleText` is the last one."""
    run = openclaw().line(*lines(document(*texts, finalAssistantVisibleText=final)))
    assert (run.finish().output, run.text()) == (answer, "".join(texts))


@pytest.mark.parametrize(
    ("history", "rejected"),
    [(SAID + ANSWERED, True), (SAID + ANSWERED + SAID + ANSWERED, False), (b"", False), (None, False)],
)
def test_a_conversation_whose_file_begins_with_this_turn_was_lost(history, rejected):
    """2026.5.7 does not count the history in its document."""
    files = PLAIN if history is None else {**PLAIN, FILE: history}
    run = openclaw("s-1", files=files, version="2026.5.7")
    outcome = run.line(*lines(document("x", agentMeta={"sessionFile": FILE}))).finish()
    assert (outcome.status, outcome.resume_rejected, outcome.session_id) == (RunStatus.COMPLETED, rejected, "s-1")


def test_what_openclaw_adds_to_an_answer_that_was_cut_off_is_no_part_of_it():
    """2026.9.6, at the model's limit of tokens."""
    added = "⚠️ Reply truncated at the model's output token limit. The text above is partial — ask to continue it."
    run = openclaw().line(*lines(document("Hello from the lo", added, finalAssistantVisibleText="Hello from the lo")))
    assert (run.finish().output, run.text()) == ("Hello from the lo", "Hello from the lo")
    assert run.of(MessageType.LOG)[-1].content == added


def test_a_document_that_counts_its_history_is_believed_over_the_file():
    budget = {"messageCount": 2, "unwindowedMessageCount": 2}
    agent = {"sessionFile": FILE, "contextBudgetStatus": budget}
    run = openclaw("s-1", files={**PLAIN, FILE: SAID}).line(*lines(document("x", agentMeta=agent)))
    assert not run.finish().resume_rejected


def test_an_error_told_again_in_a_payload_is_no_answer():
    """2026.7.35 does not mark that payload as an error."""
    problem = {"kind": "incomplete_turn", "message": "Agent couldn't generate a response."}
    told = "⚠️ Agent couldn't generate a response. Please try again."
    run = openclaw().line(*lines(document("Half of it.", told, error=problem)))
    outcome = run.finish(1)
    assert (outcome.status, outcome.output, run.text()) == (RunStatus.FAILED, "Half of it.", "Half of it.")
    assert outcome.failure.reason is FailureReason.EMPTY_OUTPUT


def test_what_stderr_says_of_an_empty_answer_is_understood_where_no_document_comes():
    said = (
        "[agent/embedded] incomplete turn detected: runId=callboard-2acb0f9bb548 stages=model:594ms\n"
        "FailoverError: loopback/m ended with an incomplete terminal response"
    )
    outcome = openclaw(version="2026.5.7").finish(1, stderr=said)
    assert (outcome.status, outcome.failure.reason) == (RunStatus.FAILED, FailureReason.EMPTY_OUTPUT)


@pytest.mark.parametrize("closed", [True, False])
def test_half_a_character_in_a_document_is_no_text(closed):
    said = lines(document("half \ud83d alone"))
    outcome = openclaw().line(*(said if closed else [*said[:-1], b"} [a log line]"])).finish()
    assert (outcome.status, outcome.output) == (RunStatus.COMPLETED, "half \ufffd alone")
