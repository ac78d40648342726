from __future__ import annotations

import json
from typing import Any

import pytest

from callboard_adapters.base import Reply, SessionId, StopCause
from callboard_adapters.codebuddy import CodebuddyAdapter
from callboard_adapters.messages import Message, MessageType, RunStatus, TokenUsage
from callboard_adapters.options import ExecOptions
from callboard_wire.failures import FailureReason
from tests.unit.adapters.speaking import Speaking

INIT = {"type": "system", "subtype": "init", "session_id": "s-1", "model": "m"}
BY_MODEL = {"codebuddy.ai/conversationRequestId": "c", "codebuddy.ai/modelRequestId": "r"}
BY_ITSELF = {"codebuddy.ai/conversationRequestId": "c"}
USAGE = {"input_tokens": 2234, "output_tokens": 56, "cache_read_input_tokens": 1000}
NOTHING_USED = {"m": {"inputTokens": 0, "outputTokens": 0}}


def said(text: str, meta: dict[str, str] = BY_MODEL, **message: Any) -> dict[str, Any]:
    body = {"model": "m", "content": [{"type": "text", "text": text}], **message}
    return {"type": "assistant", "message": body, "_meta": meta}


def result(text: str = "", **more: Any) -> dict[str, Any]:
    return {"type": "result", "subtype": "success", "is_error": False, "session_id": "s-1", "result": text, **more}


def failed(*errors: str, **info: Any) -> dict[str, Any]:
    body = {"subtype": "error_during_execution", "is_error": True, "errors": list(errors)}
    if info:
        body["errors_info"] = [info]
    ended = result(**body)
    del ended["result"]
    return ended


def speaking(resume: str | None = None, **options: Any) -> Speaking:
    return Speaking(CodebuddyAdapter, options=ExecOptions(cwd="/work-dir", resume_session_id=resume, **options))


# ── usage ────────────────────────────────────────────────────────────────────


def test_after_a_compaction_the_results_own_usage_counts_the_calls_no_message_tells():
    used = {"input_tokens": 2245, "output_tokens": 59, "cache_read_input_tokens": 1000}
    run = speaking().event(INIT, said("hi", usage=USAGE), result("hi", usage=used, modelUsage=NOTHING_USED))
    assert run.finish().usage == {"m": TokenUsage(1245, 59, 1000)}


def test_a_call_whose_answer_was_empty_is_counted_by_the_results_own_usage():
    used = {"input_tokens": 6579, "output_tokens": 123, "cache_read_input_tokens": 3000}
    stated = {"m": {"inputTokens": 1234, "outputTokens": 56, "cacheReadInputTokens": 1000}}
    assert speaking().event(INIT, result("hi", usage=used, modelUsage=stated)).finish().usage == {
        "m": TokenUsage(3579, 123, 3000)
    }


def test_a_resumed_run_never_takes_the_sessions_total():
    used = {"input_tokens": 9999, "output_tokens": 999}
    run = speaking("s-1").event(INIT, said("hi", usage=USAGE), result("hi", usage=used, modelUsage=NOTHING_USED))
    assert run.finish().usage == {"m": TokenUsage(1234, 56, 1000)}


def test_a_run_without_a_result_counts_its_messages():
    assert speaking().event(INIT, said("hi", usage=USAGE)).finish().usage == {"m": TokenUsage(1234, 56, 1000)}


# ── what is an answer ────────────────────────────────────────────────────────


def test_its_own_words_in_the_assistants_place_are_an_error_and_no_text():
    run = speaking().event(INIT, said("401 Unauthorized", BY_ITSELF))
    assert run.text() == ""
    assert run.text(MessageType.ERROR) == "401 Unauthorized"


OWN_ID = "0726b334-4071-46c6-a601-b9224c2b0da9"
SNAPSHOT = {"type": "file-history-snapshot", "snapshot": {}}


def test_unsigned_words_under_an_id_of_its_own_are_an_error_once_the_run_fails():
    """2.117 signs nothing."""
    run = speaking().event(
        INIT, said("aborted", {}, id=OWN_ID), SNAPSHOT, said("401 Unauthorized", {}, id="7" + OWN_ID[1:])
    )
    run.event(failed("401 no"))
    assert (run.text(), run.text(MessageType.ERROR)) == ("", "aborted401 Unauthorized")


def test_what_a_model_says_under_such_an_id_before_its_tool_is_text():
    call = {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}
    run = speaking().event(INIT, said("I will look.", {}, id=OWN_ID), said("", {}, id=OWN_ID, content=[call]))
    assert [m.type for m in run.messages if m.type in (MessageType.TEXT, MessageType.ERROR, MessageType.TOOL_USE)] == [
        MessageType.TEXT,
        MessageType.TOOL_USE,
    ]


def test_unsigned_words_are_the_answer_where_the_run_does_not_fail():
    run = speaking().event(INIT, said("Hi", {}, id=OWN_ID), result("Hi"))
    assert (run.text(), run.text(MessageType.ERROR)) == ("Hi", "")


def test_unsigned_words_are_not_lost_when_nothing_follows_them():
    held = speaking().event(INIT, said("aborted", {}, id=OWN_ID))
    assert "aborted" in held.finish(1).error
    assert held.tick("held").text(MessageType.ERROR) == ""  # told once
    assert speaking().event(INIT, said("aborted", {}, id=OWN_ID)).tick("held").text(MessageType.ERROR) == "aborted"


def test_a_cancel_shows_what_was_held():
    run = speaking().event(INIT, said("I will look.", {}, id=OWN_ID))
    assert [o.content for o in run.adapter.cancel() if isinstance(o, Message)] == ["I will look."]


def test_after_an_interrupt_neither_its_own_words_nor_what_came_before_the_tool_are_an_answer():
    call = {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}
    run = speaking().event(INIT, said("I will look.", {}, id="a"), said("", {}, id="a", content=[call]))
    run.adapter.cancel()
    run.event(said("Interrupted by user", {}, id=OWN_ID), result("I will look."))
    assert (run.text(), run.finish(0, cause=StopCause.CANCEL).output) == ("I will look.", "")


def test_an_answer_that_only_the_result_holds_is_told():
    run = speaking().event(INIT, result("Hello"))
    assert run.text() == "Hello"
    assert run.finish().output == "Hello"


def test_what_was_said_before_the_last_tool_is_no_answer_even_where_the_result_repeats_it():
    call = {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}
    run = speaking().event(INIT, said("I will look.", id="a"), said("", id="a", content=[call]))
    outcome = run.event(result("I will look.")).finish()
    assert (outcome.status, outcome.output, run.text()) == (RunStatus.COMPLETED, "", "I will look.")


def test_the_same_words_after_the_tool_are_the_answer():
    call = {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}
    run = speaking().event(INIT, said("Done.", id="a"), said("", id="a", content=[call]), said("Done.", id="b"))
    assert run.event(result("Done.")).finish().output == "Done."


def test_a_sub_agents_own_session_is_not_the_runs():
    inner = {"type": "system", "subtype": "init", "session_id": "s-inner", "model": "small"}
    run = speaking().event(INIT, said("x"), inner)
    assert [o.value for o in run.outputs if isinstance(o, SessionId)] == ["s-1"]
    assert run.finish(1).session_id == "s-1"


def test_a_sub_agents_init_that_comes_before_the_runs_own_names_no_session():
    inner = {"type": "system", "subtype": "init", "session_id": "s-inner", "model": "small"}
    run = speaking().event({**said("x"), "session_id": "s-1"}, inner, INIT)
    assert [o.value for o in run.outputs if isinstance(o, SessionId)] == ["s-1"]
    assert run.adapter.reader.model == "m"


@pytest.mark.parametrize("repeated", ["Hello", " Hello\n", "Hello world"])
def test_an_answer_that_was_told_is_not_told_again(repeated):
    assert speaking().event(INIT, said("Hello"), result(repeated)).text() == "Hello"


def test_a_result_that_repeats_an_earlier_text_tells_nothing_new():
    """After a filtered answer 2.117 adds a sentence of its own; the result is the answer before it."""
    run = speaking().event(INIT, said("I will not", id="a"), said("This topic is outside my scope.", id="b"))
    assert run.event(result("I will not")).text() == "I will notThis topic is outside my scope."


def test_a_tools_result_is_no_part_of_its_own_call():
    block = {"type": "tool_result", "tool_use_id": "t", "content": "x"}
    run = speaking().event(INIT, {"type": "user", "message": {"content": [block]}, "parent_tool_use_id": "t"})
    assert [(m.call_id, m.parent_call_id) for m in run.of(MessageType.TOOL_RESULT)] == [("t", "")]


def test_an_interrupt_is_reported_as_a_success_and_is_none():
    run = speaking().event(INIT, said("Interrupted by user", BY_ITSELF), result(terminal_reason="aborted_streaming"))
    outcome = run.finish()
    assert (outcome.status, outcome.output) == (RunStatus.ABORTED, "")


def test_exit_0_without_a_result_completes_nothing():
    outcome = speaking().event(INIT, said("half")).finish(0)
    assert (outcome.status, outcome.output) == (RunStatus.FAILED, "")
    assert outcome.failure.reason is FailureReason.PROCESS


# ── failures ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("event", "reason", "status"),
    [
        (failed("no", status=401, code=0, category="custom_model_auth"), FailureReason.AUTH, 401),
        (failed("slow down", status=429, code=0, category="quota"), FailureReason.RATE_LIMIT, 429),
        (failed("exceeded your current quota", status=429, category="quota"), FailureReason.QUOTA, 429),
        (failed("busy", status=529, category="model_service"), FailureReason.RATE_LIMIT, 529),
        (failed("aborted", code="ECONNRESET"), FailureReason.NETWORK, None),
        (failed("aborted"), FailureReason.NETWORK, None),
        (failed("502 网络连接失败", status=502, category="network"), FailureReason.NETWORK, 502),
        (failed("502 bad gateway", status=502, category="model_service"), FailureReason.SERVER_ERROR, 502),
        (failed("网络连接失败", category="network"), FailureReason.NETWORK, None),
        (failed("Max turns (2) exceeded"), FailureReason.ITERATION_LIMIT, None),
        (failed("Authentication required. Please use /login command"), FailureReason.AUTH, None),
    ],
)
def test_a_failure_is_classified_by_its_status_before_its_words(event, reason, status):
    failure = speaking().event(INIT, event).finish(0).failure
    assert (failure.reason, failure.http_status) == (reason, status)


def test_a_refused_resume_ends_the_turn_at_once():
    run = speaking("gone").event({"type": "error", "error": "No conversation found with session ID: gone"})
    assert run.turn_ended
    outcome = run.finish(0)
    assert (outcome.status, outcome.resume_rejected, outcome.session_id) == (RunStatus.FAILED, True, "")


def test_a_refused_login_under_another_id_is_no_refused_resume():
    outcome = speaking("s-0").event(INIT, failed("no", status=401)).finish(0)
    assert not outcome.resume_rejected


# ── tools and permissions ────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("raw", "status"),
    [({"exitCode": 0, "signal": None}, "completed"), ({"exitCode": 3}, "failed"), ({"signal": "SIGKILL"}, "failed")],
)
def test_a_command_that_failed_is_a_failed_tool_although_it_says_otherwise(raw, status):
    block = {
        "type": "tool_result",
        "tool_use_id": "t",
        "content": "x",
        "is_error": False,
        "_meta": {"rawResponse": raw},
    }
    (told,) = speaking().event(INIT, {"type": "user", "message": {"content": [block]}}).of(MessageType.TOOL_RESULT)
    assert told.status == status


@pytest.mark.parametrize(("tool", "allowed"), [("Bash", True), ("ExitPlanMode", False), ("AskUserQuestion", False)])
def test_a_permission_is_given_in_its_own_word_too(tool, allowed):
    request = {"subtype": "can_use_tool", "tool_name": tool, "input": {"command": "ls"}}
    run = speaking().event(INIT, {"type": "control_request", "request_id": "r", "request": request})
    answer = json.loads(next(o.data for o in run.outputs if isinstance(o, Reply)))["response"]["response"]
    assert (answer["allowed"], answer["behavior"]) == (allowed, "allow" if allowed else "deny")


# ── the command line ─────────────────────────────────────────────────────────


def test_each_refused_tool_is_an_argument_of_its_own_and_a_flag_follows_them():
    args = list(speaking(custom_args=["--add-dir", "/x"]).launch.args)
    at = args.index("--disallowedTools")
    assert args[at + 1 : at + 5] == ["AskUserQuestion", "EnterPlanMode", "ExitPlanMode", "--permission-mode"]


def test_servers_are_added_without_the_strict_flag_and_an_empty_set_is_said_to_have_no_effect():
    with_servers = speaking(mcp_config={"mcpServers": {"a": {"command": "x"}}}).launch
    (file,) = with_servers.files
    assert with_servers.args[-2:] == ["--mcp-config", file.path]
    assert json.loads(file.content) == {"mcpServers": {"a": {"command": "x"}}}
    assert file.mode == 0o600
    assert "--strict-mcp-config" not in with_servers.args
    assert not with_servers.notices
    assert speaking(mcp_config={}).launch.notices
    assert not speaking().launch.files


def test_an_unknown_thinking_level_is_dropped_and_told():
    assert "--effort" in speaking(thinking_level="minimal").launch.args
    launch = speaking(thinking_level="ultra").launch
    assert "--effort" not in launch.args
    assert "ignored" in launch.notices[0].content
