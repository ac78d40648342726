from __future__ import annotations

from typing import Any

import pytest

from callboard_adapters.base import SessionId
from callboard_adapters.errors import LaunchRefused
from callboard_adapters.messages import MessageType, RunStatus, TokenUsage
from callboard_adapters.options import ExecOptions
from callboard_adapters.pi import PiAdapter
from callboard_adapters.pi_markup import MarkupFilter, without_markup
from callboard_wire.failures import FailureReason
from tests.unit.adapters.speaking import Speaking

SESSION = {"type": "session", "version": 3, "id": "01a2-uuid", "cwd": "/work-dir"}
USAGE = {"input": 10, "output": 4, "cacheRead": 3, "cacheWrite": 1, "cost": {"total": 0.0125}}


def begin() -> list[dict[str, Any]]:
    return [SESSION, {"type": "agent_start"}, {"type": "turn_start"}]


def message(text: str = "", *, stop: str = "stop", calls: int = 0, **more: Any) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    blocks += [{"type": "toolCall", "id": f"c{n}", "name": "bash", "arguments": {}} for n in range(calls)]
    return {"role": "assistant", "content": blocks, "model": "p/m", "usage": USAGE, "stopReason": stop, **more}


def turn(said: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"type": "message_end", "message": said}, {"type": "turn_end", "message": said, "toolResults": []}]


def delta(kind: str, text: str, partial: Any = "whole") -> dict[str, Any]:
    part = {"type": kind, "contentIndex": 0, "delta": text, "partial": {"content": [partial]}}
    return {"type": "message_update", "assistantMessageEvent": part, "message": {"content": [partial]}}


END = {"type": "agent_end", "messages": []}


# ── the end ──────────────────────────────────────────────────────────────────


def test_an_error_turn_fails_the_run_although_pi_exits_0():
    refused = message(stop="error", errorMessage="401 invalid key")
    outcome = Speaking(PiAdapter).event(*begin(), *turn(refused), END).finish(0)
    assert (outcome.status, outcome.error) == (RunStatus.FAILED, "401 invalid key")
    assert (outcome.failure.reason, outcome.failure.http_status) == (FailureReason.AUTH, 401)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("429 You exceeded your current quota, please check your plan", FailureReason.QUOTA),
        ("429 slow down", FailureReason.RATE_LIMIT),
        ("400 prompt is too long: 250000 tokens > 200000 maximum", FailureReason.CONTEXT_OVERFLOW),
        ("503 come back later", FailureReason.SERVER_ERROR),
        ("terminated", FailureReason.NETWORK),
        ("something else", FailureReason.UNKNOWN),
    ],
)
def test_pi_s_sentence_is_read_for_its_reason(said, reason):
    run = Speaking(PiAdapter).event(*begin(), *turn(message(stop="error", errorMessage=said)), END)
    assert run.finish(0).failure.reason is reason


def test_a_retry_takes_the_end_back_and_a_good_turn_after_it_completes():
    run = Speaking(PiAdapter).event(*begin(), *turn(message(stop="error", errorMessage="500 broke")), END)
    assert not run.turn_ended
    run.event(
        {"type": "auto_retry_start", "attempt": 1, "maxAttempts": 3, "delayMs": 2000, "errorMessage": "500 broke"}
    )
    [status] = run.of(MessageType.STATUS)
    assert (status.status, "attempt 1 of 3" in status.content) == ("retrying", True)
    run.event({"type": "turn_start"}, *turn(message("Hello")), {"type": "auto_retry_end", "success": True}, END)
    assert run.turn_ended
    assert (run.finish(0).status, run.finish(0).output) == (RunStatus.COMPLETED, "Hello")


def test_retries_that_all_failed_fail_the_run():
    run = Speaking(PiAdapter).event(*begin(), {"type": "auto_retry_end", "success": False, "finalError": "gave up"})
    assert (run.finish(0).status, run.finish(0).error) == (RunStatus.FAILED, "gave up")


def test_a_compaction_after_the_answer_is_waited_for():
    run = Speaking(PiAdapter).event(*begin(), *turn(message("Hello")), END, {"type": "compaction_start"})
    assert not run.turn_ended
    run.event({"type": "compaction_end", "willRetry": False})
    assert run.turn_ended
    assert run.finish(0).output == "Hello"


def test_the_last_turn_is_the_answer_and_narration_before_a_tool_is_not():
    run = Speaking(PiAdapter).event(
        *begin(),
        *turn(message("I will look.", stop="toolUse", calls=1)),
        {"type": "turn_start"},
        *turn(message("Found it.")),
        END,
    )
    assert run.finish(0).output == "Found it."
    assert run.text() == "I will look.Found it."


@pytest.mark.parametrize(
    "events", [[], [SESSION], [*begin()], [*begin(), *turn(message("x", stop="toolUse", calls=1))]]
)
def test_a_stream_without_its_end_completes_nothing(events):
    outcome = Speaking(PiAdapter).event(*events).finish(0)
    assert outcome.status is RunStatus.FAILED
    assert outcome.failure.reason in (FailureReason.EMPTY_OUTPUT, FailureReason.PROCESS)


def test_an_unknown_model_is_told_from_stderr():
    said = 'Error: Model "a/b" not found. Use --list-models to see available models.'
    assert Speaking(PiAdapter).finish(1, stderr=said).failure.reason is FailureReason.MODEL


# ── what is said ─────────────────────────────────────────────────────────────


def test_each_turn_s_tokens_count_once_though_they_are_said_three_times():
    said = message("x")
    run = Speaking(PiAdapter).event(*begin(), *turn(said), {"type": "agent_end", "messages": [said]})
    assert run.finish(0).usage == {"p/m": TokenUsage(10, 4, 3, 1, 125_000_000)}


def test_tokens_of_a_turn_that_was_killed_in_its_tool_are_counted():
    said = message("x", stop="toolUse", calls=1)
    run = Speaking(PiAdapter).event(*begin(), {"type": "message_end", "message": said})
    assert run.finish(signal=15).usage == {"p/m": TokenUsage(10, 4, 3, 1, 125_000_000)}


def test_deltas_are_told_once_and_the_whole_message_not_again():
    run = Speaking(PiAdapter).event(
        *begin(), delta("thinking_delta", "hm"), delta("text_delta", "Hel"), delta("text_delta", "lo")
    )
    run.event(*turn(message("Hello")))
    assert (run.text(), run.text(MessageType.THINKING)) == ("Hello", "hm")


def test_a_message_whose_deltas_have_another_name_is_told_from_its_end():
    said = {**message("Hello"), "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Hello"}]}
    run = Speaking(PiAdapter).event(*begin(), delta("text_piece", "Hel"), *turn(said))
    assert (run.text(), run.text(MessageType.THINKING)) == ("Hello", "hm")


def test_a_delta_that_holds_the_words_of_the_frame_is_read_whole():
    tricky = ',"partial":{"x":1}'
    assert Speaking(PiAdapter).event(*begin(), delta("text_delta", tricky, tricky)).text() == tricky


def test_a_repeated_message_costs_no_more_than_its_delta():
    line = (
        b'{"type":"message_update","assistantMessageEvent":{"type":"text_delta","contentIndex":0,"delta":"hi",'
        b'"partial":{"content":[' + b"x" * 1000
    )
    assert Speaking(PiAdapter).line(line).text() == "hi"  # the rest is not even looked at


def test_a_tool_call_is_a_pair():
    run = Speaking(PiAdapter).event(
        {"type": "tool_execution_start", "toolCallId": "c1", "toolName": "bash", "args": {"command": "ls"}},
        {"type": "tool_execution_end", "toolCallId": "c1", "result": {"content": [{"type": "text", "text": "a"}]}},
        {"type": "tool_execution_end", "toolCallId": "c2", "result": "no", "isError": True},
    )
    assert run.of(MessageType.TOOL_USE)[0].input == {"command": "ls"}
    assert [(m.call_id, m.output, m.status) for m in run.of(MessageType.TOOL_RESULT)] == [
        ("c1", "a", "completed"),
        ("c2", "no", "failed"),
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('<|tool_call>call:bash{command:<|"|>ls {<|"|>}<tool_call|>Done.', "Done."),
        ("<|channel>thought\nhm<channel|>Answer", "\nhmAnswer"),
        ('response:bash{"a":{"b":1}} Done.', " Done."),
        ("recall:foo{b}", "recall:foo{b}"),
        ("call:unclosed{ abc", "call:unclosed{ abc"),
        ("a < b and <b>bold</b> and call: me", "a < b and <b>bold</b> and call: me"),
    ],
)
def test_tool_markup_in_text_is_taken_out_wherever_it_is_cut(text, shown):
    assert without_markup(text) == shown
    for at in range(len(text)):
        marks = MarkupFilter()
        assert marks.feed(text[:at]) + marks.feed(text[at:]) + marks.flush() == shown
    marks = MarkupFilter()
    assert "".join(map(marks.feed, text)) + marks.flush() == shown


# ── sessions and the launch ──────────────────────────────────────────────────


def resuming(session: str, **world: Any) -> Speaking:
    return Speaking(PiAdapter, options=ExecOptions(cwd="/work-dir", resume_session_id=session), **world)


def after(run: Speaking, flag: str) -> str:
    args = list(run.launch.args)
    return args[args.index(flag) + 1]


def test_a_missing_session_file_is_a_lost_session_and_is_not_quietly_made_anew():
    run = resuming("/sessions/s-1.jsonl")
    assert after(run, "--session") == "s-1"
    run.stderr("No session found matching 's-1'")
    outcome = run.finish(1, stderr="No session found matching 's-1'")
    assert (outcome.status, outcome.resume_rejected, outcome.session_id) == (RunStatus.FAILED, True, "")


def test_a_session_file_that_exists_stays_the_session_s_name():
    run = resuming("/sessions/s-1.jsonl", files={"/sessions/s-1.jsonl": b"{}"})
    assert after(run, "--session") == "/sessions/s-1.jsonl"
    run.event(*begin(), *turn(message("x")), END)
    assert [o.value for o in run.outputs if isinstance(o, SessionId)] == ["/sessions/s-1.jsonl"]
    assert (run.finish(0).session_id, run.finish(0).resume_rejected) == ("/sessions/s-1.jsonl", False)


def test_an_id_is_resumed_by_its_file_so_that_the_folder_does_not_matter():
    path = "/home/somebody/.pi/agent/sessions/--elsewhere--/2026_01a2-uuid.jsonl"
    run = resuming("01a2-uuid", files={path: b"{}"})
    assert after(run, "--session") == path
    run.event(*begin(), *turn(message("x")), END)
    assert run.finish(0).session_id == "01a2-uuid"


def test_an_id_pi_does_not_know_is_rejected_by_pi_s_own_words():
    run = resuming("01a2-uuid")
    assert after(run, "--session") == "01a2-uuid"
    assert run.stderr("No session found matching '01a2-uuid'").finish(1).resume_rejected
    assert not resuming("01a2-uuid").stderr("401 unauthorized").finish(1).resume_rejected


@pytest.mark.parametrize("prompt", ["", " \n\t"])
def test_an_empty_prompt_is_refused_instead_of_an_idle_success(prompt):
    with pytest.raises(LaunchRefused):
        Speaking(PiAdapter, prompt=prompt)


@pytest.mark.parametrize(
    ("custom", "kept"),
    [
        (["--mode", "rpc", "--tools", "read"], ["--tools", "read"]),
        (["--mode=text", "-p", "--print"], []),
        (["@secret.txt", "do this too", "--verbose"], ["--verbose"]),
        (["--verbose", "word", "-nt", "word"], ["--verbose", "-nt"]),
        (["--plan", "fast", "more"], ["--plan", "fast"]),  # an extension's flag keeps one word
        (["--system-prompt", "@file", "x"], ["--system-prompt", "@file"]),
        (["--session", "x", "-c", "-r", "--no-session", "--fork", "y"], []),
        (["--list-models", "x", "--export", "y"], []),
    ],
)
def test_nothing_of_the_extra_arguments_becomes_part_of_the_prompt(custom, kept):
    run = Speaking(PiAdapter, options=ExecOptions(cwd="/work-dir", custom_args=custom))
    assert list(run.launch.args)[3:] == kept
    assert run.launch.notices


def test_model_and_thinking_level_are_passed_whole():
    run = Speaking(PiAdapter, options=ExecOptions(cwd="/work-dir", model="a/b/c:high", thinking_level="xhigh"))
    assert (after(run, "--model"), after(run, "--thinking")) == ("a/b/c:high", "xhigh")
    assert run.launch.stdin == b"hello"


def test_a_message_that_was_broken_off_is_the_partial_answer():
    outcome = Speaking(PiAdapter).event(*begin(), delta("text_delta", "Half an ")).finish(143)
    assert (outcome.status, outcome.output) == (RunStatus.FAILED, "Half an ")
