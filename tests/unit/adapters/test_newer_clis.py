"""What a CLI newer than its adapter may leave out, rename or mangle, case by case; the broad net is
`tests/contract/adapters/test_changed_recordings.py`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callboard_adapters.base import Reply
from callboard_adapters.claude import ClaudeAdapter
from callboard_adapters.codebuddy import CodebuddyAdapter
from callboard_adapters.copilot import CopilotAdapter
from callboard_adapters.dialects.acp_names import common_name
from callboard_adapters.dialects.acp_tools import Announces, Tools
from callboard_adapters.echo import EchoAdapter
from callboard_adapters.messages import MessageType, RunStatus, TokenUsage
from callboard_adapters.opencode import OpencodeAdapter
from callboard_adapters.options import ExecOptions
from callboard_adapters.pi import PiAdapter
from callboard_wire.failures import FailureReason
from tests.unit.adapters.speaking import Speaking
from tests.unit.adapters.test_codex_talk import Talk, text_item
from tests.unit.adapters.test_pi import END, begin, delta, message, turn

INIT = {"type": "system", "subtype": "init", "session_id": "s-1", "model": "m"}
USAGE = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 1}


def said(text: str, **more: Any) -> dict[str, Any]:
    body = {"role": "assistant", "model": "m", "id": "msg", "content": [{"type": "text", "text": text}], **more}
    return {"type": "assistant", "session_id": "s-1", "message": body}


def result(text: str = "done", **more: Any) -> dict[str, Any]:
    return {"type": "result", "subtype": "success", "is_error": False, "session_id": "s-1", "result": text, **more}


def claude(*events: dict[str, Any]) -> Speaking:
    return Speaking(ClaudeAdapter, env={"IS_SANDBOX": "1"}).event(*events)


# ── stream JSON ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("evidence", [{"terminal_reason": "api_error"}, {"api_error_status": 401}])
def test_a_refusal_without_is_error_is_no_success(evidence):
    refused = {k: v for k, v in result("Not logged in").items() if k != "is_error"} | evidence
    outcome = claude(INIT, refused).finish(1)
    assert (outcome.status, outcome.error) == (RunStatus.FAILED, "Not logged in")


@pytest.mark.parametrize("field", ["stop_reason", "terminal_reason"])
def test_a_reason_that_is_no_word_costs_no_answer(field):
    outcome = claude(INIT, said("done"), result(**{field: {"kind": "end_turn"}})).finish()
    assert (outcome.status, outcome.output) == (RunStatus.COMPLETED, "done")


def test_one_block_of_an_unknown_shape_costs_none_of_the_others():
    blocks = [
        {"type": "text", "text": "before"},
        None,
        {"type": "text", "words": "lost?"},
        {"type": "text", "text": "!"},
    ]
    run = claude(INIT, said("", content=blocks, usage=USAGE))
    assert run.text() == "before!"
    assert "lost?" in run.text(MessageType.LOG)
    assert run.finish(1).usage == {"m": TokenUsage(10, 5, 7, 1)}


@pytest.mark.parametrize(
    "event",
    [
        {"type": "assistant", "message": {"role": "assistant", "parts": "some words"}},
        {"type": "assistant", "message": {"content": [{"type": "thinking", "thought": "some words"}]}},
        {"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "t", "tool": "some words"}]}},
        {"type": "user", "message": {"content": {"type": "tool_result", "content": "some words"}}},
        {"type": "user", "message": {"content": [{"type": "tool_output", "content": "some words"}]}},
        {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t", "said": "some words"}]}},
    ],
)
def test_words_in_an_unknown_place_are_logged(event):
    assert "some words" in claude(INIT, event).text(MessageType.LOG)


@pytest.mark.parametrize(
    ("table", "used"),
    [
        ({"inputTokens": 10, "outputTokens": 5, "cachedTokens": 7}, TokenUsage(10, 5, 7, 1)),  # renamed: the total
        (
            {"inputTokens": 20, "outputTokens": 9, "cacheReadInputTokens": 7},
            TokenUsage(20, 9, 7),
        ),  # more than the total
        ({"inputTokens": "10", "outputTokens": "5", "cacheReadInputTokens": "77"}, TokenUsage(10, 5, 77)),  # as strings
    ],
)
def test_the_usage_is_the_table_s_unless_the_total_knows_of_more(table, used):
    outcome = claude(INIT, said("done"), result(modelUsage={"m": table}, usage=USAGE)).finish()
    assert outcome.usage == {"m": used}


def test_a_message_without_an_id_that_is_told_twice_is_billed_once():
    nameless = said("a", usage=USAGE)
    del nameless["message"]["id"]
    assert claude(INIT, nameless, nameless).finish(1).usage == {"m": TokenUsage(10, 5, 7, 1)}


def test_a_provider_that_answered_again_is_not_blamed_for_a_later_death():
    retry = {"type": "system", "subtype": "api_retry", "attempt": 1, "error_status": 500, "error": "server_error"}
    outcome = claude(INIT, retry, said("working")).finish(None, signal=9)
    assert outcome.failure.reason is FailureReason.PROCESS
    assert "500" not in outcome.error


def test_whatever_a_control_request_asks_it_is_answered():
    asked = [
        {"type": "control_request", "request_id": "a", "request": None},
        {"type": "control_request", "request_id": "b", "request": {"subtype": "can_use_tool", "input": ["x"]}},
    ]
    answers = [json.loads(o.data)["response"] for o in claude(INIT, *asked).outputs if isinstance(o, Reply)]
    assert [(a["request_id"], a["subtype"]) for a in answers] == [("a", "error"), ("b", "success")]
    assert answers[1]["response"] == {"behavior": "allow", "updatedInput": ["x"]}


def test_the_session_is_known_from_whichever_event_names_it_first():
    assert claude(said("hello")).finish(1).session_id == "s-1"


@pytest.mark.parametrize(
    "event",
    [
        {"type": "error", "error": {"detail": "No conversation found with session ID: x"}},
        {"type": "error", "reason": "No conversation found with session ID: x"},
    ],
)
def test_a_refused_resume_is_found_wherever_the_error_event_says_it(event):
    run = Speaking(CodebuddyAdapter, options=ExecOptions(cwd="/work-dir", resume_session_id="x")).event(event)
    assert run.finish().resume_rejected


def test_an_event_that_is_told_twice_counts_once():
    """A result twice has been billed twice."""
    told = {**said("done", usage=USAGE), "uuid": "u-1"}
    last = result(model_usage_since_last_result={"m": {"inputTokens": 10, "outputTokens": 5}})
    run = claude(INIT, told, told, last, last)
    assert (run.text(), run.finish().usage) == ("done", {"m": TokenUsage(10, 5)})


@pytest.mark.parametrize("table", [{"m": {"inputTokens": "x"}}, {"m": "x"}, ["m"], {"m": {"inputTokens": -5}}])
def test_echo_bills_nothing_for_a_table_it_cannot_read(table):
    """Found by the fuzzer."""
    assert Speaking(EchoAdapter).event(INIT, result(modelUsage=table)).finish().usage == {}


def test_blocks_of_one_message_under_one_uuid_are_all_heard():
    """codebuddy 2.117 gives every event of a message the message's uuid."""
    call = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}}
    run = claude(INIT, {**said("first"), "uuid": "u"}, {**said("", content=[call]), "uuid": "u"})
    assert (run.text(), len(run.of(MessageType.TOOL_USE))) == ("first", 1)


# ── streams of their own ─────────────────────────────────────────────────────


def test_pi_an_error_message_is_an_error_whatever_the_stop_reason_is_called():
    refused = message(stop="failed", errorMessage="401 invalid key")
    outcome = Speaking(PiAdapter).event(*begin(), *turn(refused), END).finish()
    assert (outcome.status, outcome.error) == (RunStatus.FAILED, "401 invalid key")


def test_pi_a_turn_whose_end_was_not_told_ended_with_its_message():
    ended = {"type": "message_end", "message": message("done")}
    outcome = Speaking(PiAdapter).event(*begin(), ended, {"type": "turn_ended", "message": None}, END).finish()
    assert (outcome.status, outcome.output) == (RunStatus.COMPLETED, "done")


def test_pi_a_delta_that_was_not_understood_makes_the_message_be_told_whole():
    lost, told = delta("text_piece", "one "), delta("text_delta", "two")
    run = Speaking(PiAdapter).event(*begin(), lost, told, *turn(message("one two")), END)
    assert run.text() == "twoone two"
    assert run.finish().output == "one two"


def test_opencode_a_tool_that_ended_under_another_word_has_a_result():
    part = {"tool": "bash", "callID": "c", "state": {"status": "done", "input": {"command": "ls"}, "output": "a.txt"}}
    run = Speaking(OpencodeAdapter).event({"type": "tool_use", "sessionID": "s", "part": part})
    assert [m.output for m in run.of(MessageType.TOOL_RESULT)] == ["a.txt"]


@pytest.mark.parametrize(("code", "status"), [(0, "completed"), (3, "failed"), (None, "completed")])
def test_opencode_a_command_s_exit_code_is_its_result_s_status(code, status):
    state = {"status": "completed", "input": {}, "output": "a.txt", "metadata": {"exit": code}}
    event = {"type": "tool_use", "sessionID": "s", "part": {"tool": "bash", "callID": "c", "state": state}}
    [ended] = Speaking(OpencodeAdapter).event(event).of(MessageType.TOOL_RESULT)
    assert (ended.status, ended.output) == (status, "a.txt")


def test_opencode_a_part_that_is_told_twice_counts_once():
    text = {"type": "text", "sessionID": "s", "part": {"id": "prt_2", "type": "text", "text": "done"}}
    tokens = {"input": 10, "output": 4, "cache": {"read": 2, "write": 0}}
    end = {"type": "step_finish", "sessionID": "s", "part": {"id": "prt_3", "reason": "stop", "tokens": tokens}}
    run = Speaking(OpencodeAdapter).event({"type": "step_start", "sessionID": "s"}, text, text, end, end)
    outcome = run.finish()
    assert (outcome.output, sum(u.tokens for u in outcome.usage.values())) == ("done", 16)


def test_opencode_words_before_the_start_of_their_step_are_its_words():
    text = {"type": "text", "sessionID": "s", "part": {"text": "done"}}
    end = {"type": "step_finish", "sessionID": "s", "part": {"reason": "stop", "tokens": {"input": 10, "output": 4}}}
    assert Speaking(OpencodeAdapter).event(text, {"type": "step_start"}, end).finish().output == "done"


@pytest.mark.parametrize("twice", [0, 1, 2])
def test_copilot_an_event_that_is_told_twice_counts_once(twice):
    events = [
        {"id": "1", "type": "assistant.message_delta", "data": {"messageId": "m", "deltaContent": "Hel"}},
        {"id": "2", "type": "assistant.message", "data": {"messageId": "m", "content": "Hello"}},
        {"id": "3", "type": "tool.execution_complete", "data": {"toolCallId": "t", "result": {"content": "a"}}},
    ]
    run = Speaking(CopilotAdapter).event(*events[: twice + 1], *events[twice:])
    assert (run.text(), len(run.of(MessageType.TOOL_RESULT))) == ("Hello", 1)


def test_pi_a_message_that_is_told_twice_is_shown_once():
    ended = {"type": "message_end", "message": message("done")}
    assert Speaking(PiAdapter).event(*begin(), ended, ended).text() == "done"


def test_copilot_deltas_without_their_message_are_the_answer():
    pieces = [{"type": "assistant.message_delta", "data": {"messageId": "m", "deltaContent": t}} for t in ("Hel", "lo")]
    run = Speaking(CopilotAdapter).event(*pieces, {"type": "result", "sessionId": "s", "exitCode": 0})
    assert (run.finish().status, run.finish().output) == (RunStatus.COMPLETED, "Hello")


@pytest.mark.parametrize(("code", "status"), [(0, RunStatus.COMPLETED), (1, RunStatus.FAILED)])
def test_copilot_a_result_without_an_exit_code_is_judged_by_the_process(code, status):
    whole = {"type": "assistant.message", "data": {"messageId": "m", "content": "Hello"}}
    assert Speaking(CopilotAdapter).event(whole, {"type": "result", "sessionId": "s"}).finish(code).status is status


# ── conversations ────────────────────────────────────────────────────────────


def test_codex_a_message_whose_end_was_lost_stands_before_the_last_and_is_not_the_answer():
    talk = Talk().begin()
    talk.note("item/agentMessage/delta", itemId="m1", delta="I will look.")
    talk.note("item/completed", item=text_item("Done.", "m2"))
    talk.note("turn/completed", turn={"id": "tu-1", "status": "completed"})
    assert [m.content for m in talk.messages(MessageType.TEXT)] == ["I will look.", "Done."]
    assert talk.conversation.turn.shown.answer == "Done."


@pytest.mark.parametrize("item_id", [None, "another"])
def test_codex_a_piece_under_no_id_or_a_wrong_one_is_told_once_with_its_message(item_id):
    talk = Talk().begin()
    talk.note("item/agentMessage/delta", itemId=item_id, delta="Do")
    talk.note("item/completed", item=text_item("Done.", "m2"))
    talk.note("turn/completed", turn={"id": "tu-1", "status": "completed"})
    assert [m.content for m in talk.messages(MessageType.TEXT)] == ["Done."]


def test_codex_a_piece_that_comes_after_its_message_is_no_answer():
    talk = Talk().begin()
    talk.note("item/completed", item=text_item("Done.", "m2"))
    talk.note("item/agentMessage/delta", itemId="m2", delta="e.")
    talk.note("turn/completed", turn={"id": "tu-1", "status": "completed"})
    assert talk.conversation.turn.shown.answer == "Done."


def test_codex_the_bill_of_the_turn_before_names_no_turn_of_ours():
    talk = Talk(resume="th-1")
    talk.answer("initialize", {})
    talk.answer("thread/resume", {"thread": {"id": "th-1"}})
    talk.hear(method="thread/tokenUsage/updated", params={"threadId": "th-1", "turnId": "old", "tokenUsage": {}})
    talk.answer("turn/start", {"turn": None})
    talk.note("turn/started", turn={"id": "tu-1"})
    talk.note("item/completed", item=text_item("Done."))
    talk.note("turn/completed", turn={"id": "tu-1", "status": "completed"})
    assert (talk.ended, talk.conversation.turn.shown.answer) == ("completed", "Done.")


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("item/finished", {"item": {"type": "agentMessage", "text": "some words"}}),
        ("item/completed", {"item": {"type": "agentMessage", "words": "some words"}}),
        ("item/completed", {"thing": {"text": "some words"}}),
        ("item/completed", {"item": {"type": "reasoning", "id": "r", "gist": ["some words"]}}),
        ("item/started", {"item": {"type": "commandExecution", "id": "c", "argv": "some words"}}),
        ("item/completed", {"item": {"type": "commandExecution", "id": "c", "command": "x", "out": "some words"}}),
    ],
)
def test_codex_words_in_an_unknown_place_are_logged(method, params):
    talk = Talk().begin()
    talk.note(method, **params)
    assert any("some words" in m.content for m in talk.messages(MessageType.LOG))


def test_codex_a_notification_without_params_is_logged_with_what_it_has():
    talk = Talk().begin()
    talk.hear(method="item/completed", arguments={"item": {"text": "some words"}})
    talk.hear(method=None, params={"item": {"text": "other words"}})
    assert all(any(w in m.content for m in talk.messages(MessageType.LOG)) for w in ("some words", "other words"))


def test_acp_what_a_tool_had_said_without_a_known_end_is_kept():
    book = Tools(Announces.EVERYTHING, common_name, lambda call: None)
    book.frame({"toolCallId": "t", "title": "terminal: ls", "content": [{"type": "text", "text": "$ ls"}]})
    book.frame({"toolCallId": "t", "state": "completed", "content": [{"type": "text", "text": "a.txt"}]})
    [ended] = [o for o in book.close("the turn ended") if getattr(o, "type", None) is MessageType.TOOL_RESULT]
    assert ended.output == "a.txt\nthe turn ended"


@pytest.mark.parametrize(
    "content", [[{"type": "words", "content": {"text": "a.txt"}}], [{"type": "text", "say": "a.txt"}]]
)
def test_acp_a_result_in_an_unknown_shape_is_shown_as_it_came(content):
    book = Tools(Announces.EVERYTHING, common_name, lambda call: None)
    outputs = book.frame({"toolCallId": "t", "title": "x", "status": "completed", "content": content})
    assert "a.txt" in outputs[-1].output
