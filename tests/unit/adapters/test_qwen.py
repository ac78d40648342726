from __future__ import annotations

import json
from typing import Any

import pytest

from callboard_adapters.errors import LaunchRefused
from callboard_adapters.messages import MessageType, RunStatus, TokenUsage
from callboard_adapters.options import ExecOptions
from callboard_adapters.qwen import QwenAdapter
from callboard_wire.failures import FailureReason
from tests.unit.adapters.speaking import Speaking

INIT = {"type": "system", "subtype": "init", "session_id": "s-1", "model": "m"}
USAGE = {"input_tokens": 2234, "output_tokens": 56, "cache_read_input_tokens": 1000}


def said(text: str, **message: Any) -> dict[str, Any]:
    body = {"id": text, "model": "m", "content": [{"type": "text", "text": text}], **message}
    return {"type": "assistant", "session_id": "s-1", "message": body}


def result(text: str | None, **more: Any) -> dict[str, Any]:
    body = {"type": "result", "subtype": "success", "uuid": "u", "session_id": "s-1", "is_error": False}
    return {**body, "result": text, **more}


def failed(message: str) -> dict[str, Any]:
    body = {"type": "result", "subtype": "error_during_execution", "session_id": "s-2", "is_error": True}
    return {**body, "error": {"message": message}}


def speaking(resume: str | None = None, **options: Any) -> Speaking:
    return Speaking(QwenAdapter, options=ExecOptions(cwd="/work-dir", resume_session_id=resume, **options))


@pytest.mark.parametrize(
    ("text", "reason", "status"),
    [
        ("[API Error: 401 invalid API key]", FailureReason.AUTH, 401),
        ("[API Error: 500 broken]", FailureReason.SERVER_ERROR, 500),
        ("[API Error: 400 maximum context length is 200000 tokens]", FailureReason.CONTEXT_OVERFLOW, 400),
        ("[API Error: terminated (cause: UND_ERR_SOCKET: other side closed)]", FailureReason.NETWORK, None),
        ("[API Error: fetch failed (cause: ECONNREFUSED: connect)]", FailureReason.NETWORK, None),
        ("[API Error: Too big (HTTP 413) (cause: request_too_large: 413 no)]", FailureReason.CONTEXT_OVERFLOW, 413),
        ("Missing API key for OpenAI-compatible auth. Set OPENAI_API_KEY", FailureReason.MISSING_CONFIG, None),
    ],
)
def test_an_error_in_the_answers_place_is_told_as_one_and_classified(text, reason, status):
    run = speaking().event(INIT, said(text), failed(text))
    assert run.text() == ("" if text.startswith("[") else text)
    outcome = run.finish(1)
    assert (outcome.status, outcome.output, outcome.error) == (RunStatus.FAILED, "", text)
    assert (outcome.failure.reason, outcome.failure.http_status) == (reason, status)


def test_an_error_that_is_called_a_success_is_none():
    outcome = speaking().event(INIT, result("[API Error: 429 slow down]")).finish(0)
    assert (outcome.status, outcome.failure.reason) == (RunStatus.FAILED, FailureReason.RATE_LIMIT)


def test_an_answer_that_quotes_such_an_error_stays_an_answer():
    text = "It printed [API Error: 429 slow down], so I waited."
    outcome = speaking().event(INIT, said(text), result(text)).finish(0)
    assert (outcome.status, outcome.output) == (RunStatus.COMPLETED, text)


def test_what_failed_after_some_text_is_an_error_and_the_text_stays_text():
    error = "[API Error: the model is overloaded]"
    run = speaking().event(INIT, said(f"Hello fr{error}", usage={"input_tokens": 0, "output_tokens": 0}), failed(error))
    assert (run.text(), run.text(MessageType.ERROR)) == ("Hello fr", error)
    outcome = run.finish(1)
    assert (outcome.output, outcome.error) == ("", error)
    assert outcome.failure.reason is FailureReason.RATE_LIMIT


@pytest.mark.parametrize("text", ["", "Hello fr"])
def test_what_an_old_version_calls_a_success_although_it_failed_is_a_failure(text):
    """0.21.10, after an error event and after a dropped stream."""
    error = "[API Error: terminated (cause: UND_ERR_SOCKET: other side closed)]"
    run = speaking().event(INIT, said(text + error, usage={"input_tokens": 0, "output_tokens": 0}))
    outcome = run.event(result(text + error)).finish(0)
    assert (run.text(), run.text(MessageType.ERROR)) == (text, error)
    assert (outcome.status, outcome.output, outcome.error) == (RunStatus.FAILED, "", error)
    assert outcome.failure.reason is FailureReason.NETWORK


def test_an_error_after_which_the_model_went_on_is_no_end():
    run = speaking().event(INIT, said("[API Error: 500 broken]"), said("Hello", usage=USAGE), result("Hello"))
    assert (run.finish(0).status, run.finish(0).output) == (RunStatus.COMPLETED, "Hello")


def test_such_an_error_among_a_tools_arguments_is_no_error():
    call = {"type": "tool_use", "id": "t", "name": "grep", "input": {"for": "[API Error: 500]"}}
    run = speaking().event(INIT, said("", id="m-1", content=[call], usage={}), said("Found it.", usage=USAGE))
    outcome = run.event(result("Found it.")).finish(0)
    assert [m.type for m in run.messages if m.type in (MessageType.TOOL_USE, MessageType.ERROR)] == [
        MessageType.TOOL_USE
    ]
    assert (outcome.status, outcome.output) == (RunStatus.COMPLETED, "Found it.")


@pytest.mark.parametrize("text", ["[API Error: 429] is what it prints.", "It prints [API Error: 429 slow down]"])
def test_an_answer_about_such_an_error_that_was_billed_is_an_answer(text):
    run = speaking().event(INIT, said(text, usage=USAGE), result(text))
    assert (run.text(), run.finish(0).status, run.finish(0).output) == (text, RunStatus.COMPLETED, text)


@pytest.mark.parametrize(
    ("code", "stderr", "reason"),
    [
        (53, "Reached max session turns for this session.", FailureReason.ITERATION_LIMIT),
        (53, "", FailureReason.ITERATION_LIMIT),
        (55, "budget exceeded", FailureReason.ITERATION_LIMIT),
        (52, "settings.json holds no object", FailureReason.MISSING_CONFIG),
        (1, "something else", FailureReason.PROCESS),
    ],
)
def test_an_exit_without_a_result_is_told_by_its_status(code, stderr, reason):
    outcome = speaking().event(INIT, said("x", usage=USAGE)).finish(code, stderr=stderr)
    assert (outcome.status, outcome.failure.reason) == (RunStatus.FAILED, reason)
    assert outcome.usage == {"m": TokenUsage(1234, 56, 1000)}


def test_a_background_agent_that_came_home_is_part_of_the_run():
    task = {"task_id": "a", "tool_use_id": "t", "description": "look"}
    over = {**task, "status": "completed", "usage": {"total_tokens": 2290}}
    run = speaking().event(INIT, {"type": "system", "subtype": "task_started", "data": task})
    run.event(said("started"), {"type": "system", "subtype": "task_notification", "data": over}, said("done"))
    outcome = run.event(result("done")).finish(0)
    assert (outcome.status, outcome.output) == (RunStatus.COMPLETED, "done")
    assert run.of(MessageType.LOG) == []


def test_a_retry_without_numbers_is_announced_without_them():
    run = speaking().event(INIT, {"type": "system", "subtype": "retry", "data": {"reason": "retry"}})
    assert [m.content for m in run.of(MessageType.STATUS)][-1] == "the provider said no answer: it is asked again"


def test_a_fresh_run_counts_the_hidden_call_and_a_resumed_one_not_the_past():
    whole = {"input_tokens": 8936, "output_tokens": 224, "cache_read_input_tokens": 4000}
    events = (INIT, said("x", usage=USAGE), result("x", usage=whole))
    assert speaking().event(*events).finish().usage == {"m": TokenUsage(4936, 224, 4000)}
    assert speaking("s-1").event(*events).finish().usage == {"m": TokenUsage(1234, 56, 1000)}


def test_a_total_smaller_than_its_parts_is_not_believed():
    run = speaking().event(INIT, said("x", usage=USAGE), result("x", usage={"input_tokens": 0}))
    assert run.finish().usage == {"m": TokenUsage(1234, 56, 1000)}


def test_an_announced_retry_reaches_the_user():
    data = {"attempt": 2, "maxRetries": 7, "delayMs": 60_000}
    run = speaking().event(INIT, {"type": "system", "subtype": "retry", "data": data})
    (retry,) = [m for m in run.of(MessageType.STATUS) if m.status == "retrying"]
    assert "attempt 2 of 7, next in 60.0 s" in retry.content


def test_a_dead_id_is_rejected_by_what_stderr_says_and_by_nothing_else():
    gone = speaking("s-9").finish(1, stderr="No saved session found with ID s-9. Run `qwen --resume`")
    assert (gone.resume_rejected, gone.session_id) == (True, "")
    no_key = speaking("s-9").event(failed("Missing API key")).finish(1)
    assert not no_key.resume_rejected


# ── a result that was cut when the process left ──────────────────────────────


def cut(event: dict[str, Any]) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode()[:-40]


def test_a_cut_result_that_began_as_a_success_leaves_the_answer_that_was_told():
    run = speaking().event(INIT, said("big " * 50, usage=USAGE)).line(cut(result("big " * 50)))
    outcome = run.finish(0)
    assert (outcome.status, outcome.output) == (RunStatus.COMPLETED, "big " * 50)
    assert outcome.usage == {"m": TokenUsage(1234, 56, 1000)}


@pytest.mark.parametrize("code", [1, 53])
def test_a_cut_result_and_a_bad_exit_are_a_failure(code):
    run = speaking().event(INIT, said("big")).line(cut(result("big " * 50)))
    assert run.finish(code).status is RunStatus.FAILED


def test_a_cut_result_that_began_as_an_error_is_a_failure():
    run = speaking().event(INIT, said("big")).line(cut(failed("x" * 100)))
    assert run.finish(0).status is RunStatus.FAILED


# ── the command line ─────────────────────────────────────────────────────────


def test_the_prompt_goes_by_stdin_and_approval_is_given():
    launch = speaking(model="q", max_turns=3, mcp_config={}).launch
    assert launch.stdin == b"hello"
    assert not launch.keep_stdin
    assert " ".join(launch.args) == (
        "--output-format stream-json --yolo --model q --max-session-turns 3 --mcp-config /tmp/scratch/mcp.json"
    )
    assert json.loads(launch.files[0].content) == {"mcpServers": {}}


@pytest.mark.parametrize("flag", ["--outputFormat", "--output-format", "--approvalMode", "-o"])
def test_a_flag_of_the_protocol_is_dropped_in_every_spelling_its_parser_takes(flag):
    launch = speaking(custom_args=[flag, "text", "--proxy", "p"]).launch
    assert list(launch.args)[3:] == ["--proxy", "p"]
    assert flag in launch.notices[0].content


def test_an_empty_prompt_is_refused():
    with pytest.raises(LaunchRefused):
        Speaking(QwenAdapter, prompt=" \n")
