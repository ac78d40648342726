"""What the six ACP vendors do differently from each other."""

from __future__ import annotations

import json

import pytest

from callboard_adapters import ExecOptions, LaunchRefused, MessageType, RunStatus, TokenUsage
from callboard_adapters.base import FileContent, ProcessExit, StopCause, Usage
from callboard_adapters.kiro import posts_a_comment
from callboard_wire.failures import FailureReason
from tests.contract.adapters.acp_play import EXITED, Talk, play
from tests.fakes import acp_sheets
from tests.fakes.acp_agent import heard
from tests.fakes.acp_sheets import ANSWER, kiro, text, traecli

NO_USAGE = {"result": {"stopReason": "end_turn"}}
END = {"result": {"stopReason": "end_turn", "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}}}

# kiro and traecli: from the sheets, not from recordings --------------------------------


@pytest.mark.parametrize("provider", ["kiro", "traecli"])
async def test_a_turn_as_the_sheets_describe_it(tmp_path, provider):
    done = await play(provider, tmp_path, getattr(acp_sheets, provider)(), deaf=provider == "traecli")
    assert (done.result.status, done.result.output, done.result.session_id) == (RunStatus.COMPLETED, ANSWER, "s1")
    [use], [result] = done.of(MessageType.TOOL_USE), done.of(MessageType.TOOL_RESULT)
    assert (use.call_id, use.input, result.status) == ("t1", {"command": "ls"}, "completed")
    assert "a.txt" in result.output
    [usage] = done.result.usage.values()
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == (40, 20, 60)
    assert usage.cost_usd_ticks == (5000 if provider == "traecli" else None)


@pytest.mark.parametrize("provider", ["kiro", "traecli"])
async def test_a_loaded_sessions_history_is_not_shown(tmp_path, provider):
    done = await play(provider, tmp_path, getattr(acp_sheets, provider)(), resume_session_id="s1", model="m2")
    assert done.text == ANSWER
    methods = [m.get("method") for m in heard(tmp_path)]
    assert methods == ["initialize", "session/load", "session/set_model", "session/prompt"]
    assert list(done.result.usage) == ["m2"]


@pytest.mark.parametrize(
    ("provider", "arguments"),
    [
        ("grok", ["--no-auto-update", "agent", "--always-approve", "--mine", "stdio"]),
        ("hermes", ["acp", "--mine"]),
        ("kimi", ["acp", "--mine"]),
        ("kiro", ["acp", "--trust-all-tools", "--mine"]),
        ("qoder", ["--yolo", "--acp", "--mine"]),
        ("traecli", ["acp", "serve", "--yolo", "--mine"]),
    ],
)
def test_the_command_line_is_the_vendors_with_the_users_arguments_and_without_the_protocols_own(provider, arguments):
    mine = ["--mine", *(a for a in arguments if a not in ("--mine",))]
    talk = Talk(provider, {}).start(custom_args=mine)
    assert talk.args == arguments
    assert any("dropped" in m.content for m in talk.messages(MessageType.LOG))


# kiro --------------------------------------------------------------------------------


def test_kiro_gets_the_prompt_under_both_of_its_names():
    [prompt] = [m for m in Talk("kiro", kiro()).start().sent if m.get("method") == "session/prompt"]
    assert prompt["params"]["prompt"] == prompt["params"]["content"] == [{"type": "text", "text": "Fix it"}]


LATE = {"error": {"code": -32603, "message": "Internal error", "data": "The model failed to generate a response."}}
COMMENT = "multica issue comment add 7 --body 'Done'"


def call(command: str, status: str, call_id: str = "t9") -> list[dict]:
    use = {"sessionUpdate": "tool_call", "toolCallId": call_id, "title": "Running", "rawInput": {"command": command}}
    return [
        {"update": use},
        {"update": {"sessionUpdate": "tool_call_update", "toolCallId": call_id, "status": status, "rawOutput": "x"}},
    ]


@pytest.mark.parametrize(
    ("steps", "status"),
    [
        ([*call(COMMENT, "completed"), LATE], RunStatus.COMPLETED),
        ([*call(COMMENT, "completed"), *call(COMMENT, "failed", "t8"), LATE], RunStatus.FAILED),
        ([*call(COMMENT, "failed"), *call(COMMENT, "completed", "t8"), LATE], RunStatus.COMPLETED),
        ([*call("ls", "completed"), LATE], RunStatus.FAILED),
        ([call(COMMENT, "completed")[0], LATE], RunStatus.FAILED),
        ([*call(COMMENT, "completed"), {"error": {"code": -32603, "message": "Internal error"}}], RunStatus.FAILED),
        ([*call(COMMENT, "completed"), {"error": {**LATE["error"], "message": "Throttled"}}], RunStatus.FAILED),
    ],
)
def test_kiros_late_internal_error_is_forgiven_only_after_the_work_was_reported(steps, status):
    talk = Talk("kiro", kiro(**{"session/prompt": [text("Reporting."), *steps]})).start()
    assert talk.end().status is status


@pytest.mark.parametrize(
    ("command", "posts"),
    [
        ("callboard issue comment add 7", True),
        ("/opt/bin/multica issue comment add 7 --body x", True),
        ("A=1 B='2 3' ./callboard issue comment add 7", True),
        ("bash -c \"FOO=1 callboard issue comment add 7 --body 'it works'\"", True),
        ("callboard issue comment list 7", False),
        ("echo callboard issue comment add", False),
        ("bash -c \"bash -c 'callboard issue comment add'\"", False),
        ("callboard issue comment add 'unfinished", False),
        ("", False),
    ],
)
def test_a_comment_command_is_known_in_its_usual_wrappings(command, posts):
    assert posts_a_comment(command) is posts


# grok --------------------------------------------------------------------------------


def auth(*methods: str, default: str = "") -> dict[str, list[dict]]:
    offered = {
        "protocolVersion": 1,
        "authMethods": [{"id": m} for m in methods],
        "_meta": {"defaultAuthMethodId": default},
    }
    return kiro(initialize=[{"result": offered}], authenticate=[{"result": {}}])


@pytest.mark.parametrize(
    ("methods", "default", "key", "chosen"),
    [
        (("xai.api_key", "cached_token"), "", True, "xai.api_key"),
        (("xai.api_key", "cached_token"), "", False, "cached_token"),
        (("xai.api_key", "grok.com"), "xai.api_key", False, "xai.api_key"),  # the key is in its config.toml
        (("grok.com",), "grok.com", False, "grok.com"),
        ((), "", False, None),
    ],
)
def test_grok_is_told_which_login_to_use(methods, default, key, chosen):
    talk = Talk("grok", auth(*methods, default=default), {"XAI_API_KEY": "k"} if key else {}).start()
    asked = [m["params"] for m in talk.sent if m.get("method") == "authenticate"]
    assert asked == ([{"methodId": chosen, "_meta": {"headless": True}}] if chosen else [])
    assert talk.end().output == ANSWER


@pytest.mark.parametrize("methods", [("grok.com",), ("something-new",)])
def test_grok_without_a_usable_login_fails_before_it_makes_a_session(methods):
    talk = Talk("grok", auth(*methods)).start()
    assert talk.methods() == ["initialize"]
    assert talk.end().failure.reason is FailureReason.AUTH


def test_groks_bill_is_per_model_and_with_its_cost():
    per_model = {
        "a": {"inputTokens": 10, "outputTokens": 2, "totalTokens": 12},
        "b": {"inputTokens": 50, "cachedReadTokens": 40, "outputTokens": 5, "totalTokens": 55, "costUsdTicks": 1200},
    }
    usage = {"inputTokens": 60, "cachedReadTokens": 40, "outputTokens": 7, "totalTokens": 67, "costUsdTicks": 1200}
    meta = {"modelId": "a", "inputTokens": 50, "usage": {**usage, "modelUsage": per_model}}
    says = kiro(**{"session/prompt": [text("x"), {"result": {"stopReason": "end_turn", "_meta": meta}}]})
    outcome = Talk("grok", says).start().end()
    assert outcome.usage == {"a": TokenUsage(10, 2), "b": TokenUsage(10, 5, 40, 0, 1200)}
    meta["usage"]["modelUsage"] = {"a": per_model["a"]}
    assert Talk("grok", says).start().end().usage == {"a": TokenUsage(20, 7, 40, 0, 1200)}


def test_groks_calls_are_billed_when_the_run_is_cut_off():
    done = {"input_tokens": 1234, "output_tokens": 56, "cache_read_input_tokens": 1000}
    event = {"sessionId": "s1", "update": {"sessionUpdate": "response_completed", "usage": done}}
    step = {"send": {"method": "_x.ai/session_notification", "params": event}, "times": 2}
    replayed = {"send": {"method": "_x.ai/session_notification", "params": {**event, "_meta": {"isReplay": True}}}}
    talk = Talk("grok", kiro(**{"session/prompt": [replayed, step]})).start()
    assert talk.killed().usage == {"auto": TokenUsage(2468, 112, 2000)}
    assert len([o for o in talk.said if isinstance(o, Usage)]) == 2


def test_a_stream_that_grok_asks_for_again_begins_the_answer_anew():
    retry = {"sessionUpdate": "retry_state", "type": "retrying", "attempt": 1, "max_retries": 15, "reason": "cut"}
    step = {"send": {"method": "_x.ai/session_notification", "params": {"sessionId": "s1", "update": retry}}}
    talk = Talk("grok", kiro(**{"session/prompt": [text("Hello fr"), step, text("Hello."), END]})).start()
    assert talk.end().output == "Hello."


def test_a_grok_that_asked_its_model_again_until_the_time_was_over_says_why():
    retry = {"sessionUpdate": "retry_state", "type": "retrying", "attempt": 9, "max_retries": 15, "reason": "HTTP 503"}
    step = {"send": {"method": "_x.ai/session_notification", "params": {"sessionId": "s1", "update": retry}}}
    talk = Talk("grok", kiro(**{"session/prompt": [step]})).start()
    outcome = talk.end(ProcessExit(None, 15, StopCause.WATCHDOG, False, ""))
    assert "HTTP 503" in outcome.error
    assert outcome.failure.reason is FailureReason.SERVER_ERROR


def test_groks_effort_is_a_flag_and_never_another_option():
    assert Talk("grok", {}).start(thinking_level="high").args[3:5] == ["--effort", "high"]
    with pytest.raises(LaunchRefused):
        Talk("grok", {}).start(thinking_level="--yolo")


# hermes ------------------------------------------------------------------------------


def provenance(session: str, **lineage: str) -> list[dict]:
    origin = {"acpSessionId": session, **lineage}
    return [{"result": {"_meta": {"hermes": {"sessionProvenance": origin}}, "models": None}}]


def hermes(**others: list[dict]) -> dict[str, list[dict]]:
    about = {"agentInfo": {"name": "hermes-agent", "version": "0.19.0"}, "protocolVersion": 1}
    return kiro(**{"initialize": [{"result": about}], **others})


def test_hermes_silent_new_session_is_a_lost_one_and_is_not_prompted():
    talk = Talk("hermes", hermes(**{"session/resume": provenance("other")})).start(resume_session_id="old")
    assert "session/prompt" not in talk.methods()
    assert (talk.end().resume_rejected, talk.end().session_id) == (True, "")


def test_a_hermes_session_that_went_on_under_another_id_is_followed():
    resumed = provenance("new", rootHermesSessionId="old", sessionKind="compressed")
    prompt = [{**text("Yes."), "session": "new"}, END]
    talk = Talk("hermes", hermes(**{"session/resume": resumed, "session/prompt": prompt})).start(
        resume_session_id="old"
    )
    outcome = talk.end()
    assert (outcome.status, outcome.session_id, outcome.output) == (RunStatus.COMPLETED, "new", "Yes.")


def test_hermes_refusing_a_resumed_prompt_without_a_word_means_the_session_is_lost():
    says = hermes(**{"session/resume": [{"result": {}}], "session/prompt": [{"result": {"stopReason": "refusal"}}]})
    assert Talk("hermes", says).start(resume_session_id="old").end().resume_rejected
    assert not Talk("hermes", says).start().end().resume_rejected, "a new one has nothing to lose"


@pytest.mark.parametrize(
    ("said", "answer", "reason"),
    [
        ("HTTP 401: invalid API key", NO_USAGE, FailureReason.AUTH),
        ("API call failed after 3 retries: HTTP 500: boom", NO_USAGE, FailureReason.SERVER_ERROR),
        ("Context length exceeded (20 tokens). Cannot compress further.", NO_USAGE, FailureReason.CONTEXT_OVERFLOW),
        ("Request payload too large (413). Cannot compress further.", NO_USAGE, FailureReason.CONTEXT_OVERFLOW),
        ("⚠️ No reply: the model returned empty content after retries", END, FailureReason.EMPTY_OUTPUT),
        ("(empty)", END, FailureReason.EMPTY_OUTPUT),
        ("⚠️  The model declined to respond (safety refusal)", NO_USAGE, FailureReason.AGENT_BLOCKED),
        ("Half an ans", NO_USAGE, FailureReason.NETWORK),
    ],
)
def test_what_hermes_says_for_its_provider_is_a_failure_and_no_answer(said, answer, reason):
    talk = Talk("hermes", hermes(**{"session/prompt": [text(said), answer]})).start()
    outcome = talk.end()
    assert (outcome.status, outcome.failure.reason, outcome.output) == (RunStatus.FAILED, reason, "")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            "2026-11-30 20:28:46 [WARNING] agent.loop: Model declined to respond (finish_reason=content_filter).",
            FailureReason.AGENT_BLOCKED,
        ),
        ("⚠️  Response truncated (finish_reason='length') - model hit max output tokens", FailureReason.EMPTY_OUTPUT),
        (
            "2026-11-30 20:28:46 [WARNING] agent.x: Streaming failed after partial delivery, not retrying: overloaded",
            FailureReason.RATE_LIMIT,
        ),
        (
            "2026-11-30 20:28:46 [WARNING] agent.x: Streaming failed after partial delivery, not retrying: peer closed",
            FailureReason.NETWORK,
        ),
        ("2026-11-30 20:28:46 [INFO] root: Response truncated (finish_reason='length') he said", FailureReason.NETWORK),
    ],
)
def test_why_hermes_answer_did_not_reach_its_end_is_on_its_stderr(line, reason):
    talk = Talk("hermes", hermes(**{"session/prompt": [text("Half an ans"), NO_USAGE]})).start()
    talk.do(talk.adapter.receive_stderr(line.encode()))
    assert talk.end().failure.reason is reason


def test_work_that_hermes_hands_to_the_background_is_warned_of_once():
    """Measured on 0.19: it promises that the result comes as a new message, and over ACP none comes."""
    said = json.dumps({"status": "dispatched", "mode": "background", "count": 1, "note": "Do not wait."})
    ends = [
        {
            "update": {
                "sessionUpdate": "tool_call_update",
                "toolCallId": call_id,
                "status": "completed",
                "rawOutput": said,
            }
        }
        for call_id in ("a", "b")
    ]
    talk = Talk("hermes", hermes(**{"session/prompt": [*ends, text("It runs."), END]})).start()
    assert len([m for m in talk.messages(MessageType.LOG) if m.level == "warn" and "background" in m.content]) == 1
    assert talk.end().output == "It runs."


def test_what_hermes_had_said_when_it_was_cut_off_is_kept():
    talk = Talk("hermes", hermes(**{"session/prompt": [text("I will run it.")]})).start().cancel()
    assert talk.stopped().output == "I will run it."


def test_a_good_hermes_turn_may_speak_of_http_errors():
    talk = Talk("hermes", hermes(**{"session/prompt": [text("The HTTP 500: it came from line 3."), END]})).start()
    assert talk.end().output == "The HTTP 500: it came from line 3."


def test_another_program_of_the_hermes_family_need_not_state_its_usage():
    talk = Talk("hermes", kiro(**{"session/prompt": [text("Fine."), NO_USAGE]})).start()
    assert talk.end().output == "Fine."


# kimi --------------------------------------------------------------------------------

WIRE = "/home/somebody/.kimi-code/sessions/wd/s1/agents/main/wire.jsonl"


def logged(*records: dict) -> FileContent:
    data = b"".join(json.dumps(r).encode() + b"\n" for r in records)
    return FileContent(WIRE, len(data), data + b'{"type":"usage.rec')


def ended_as(answer: dict, *records: dict):
    talk = Talk("kimi", kiro(**{"session/prompt": [answer]})).start()
    [request] = talk.adapter.after_exit(EXITED)
    assert request.patterns == ["/home/somebody/.kimi-code/sessions/*/s1/agents/*/wire.jsonl"]
    talk.do(talk.adapter.files(request.purpose, [logged(*records)]))
    return talk.end()


def turn_ended(reason: str, **error: object) -> dict:
    return {"type": "turn.ended", "agentId": "main", "reason": reason, **({"error": error} if error else {})}


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            {"code": "provider.api_error", "message": "500 boom", "details": {"statusCode": 500}},
            FailureReason.SERVER_ERROR,
        ),
        ({"code": "provider.api_error", "message": "429", "details": {"statusCode": 429}}, FailureReason.RATE_LIMIT),
        (
            {"code": "x", "name": "APIProviderQuotaExhaustedError", "message": "m", "details": {"statusCode": 429}},
            FailureReason.QUOTA,
        ),
        ({"code": "context.overflow", "message": "Compaction failed"}, FailureReason.CONTEXT_OVERFLOW),
        ({"code": None, "message": 7}, FailureReason.UNKNOWN),
    ],
)
def test_kimis_log_tells_a_failed_turn_from_an_ended_one(error, reason):
    outcome = ended_as(NO_USAGE, turn_ended("failed", **error))
    assert (outcome.status, outcome.failure.reason) == (RunStatus.FAILED, reason)
    assert outcome.error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            {"code": "provider.api_error", "name": "APIProviderQuotaExhaustedError", "message": "429 no more"},
            FailureReason.QUOTA,
        ),
        ({"code": "context.overflow", "message": "Compaction failed"}, FailureReason.CONTEXT_OVERFLOW),
        ({"code": "provider.filtered", "message": "blocked"}, FailureReason.AGENT_BLOCKED),
        (None, FailureReason.UNKNOWN),
    ],
)
def test_an_older_kimi_tells_why_its_turn_failed_in_another_log(error, reason):
    talk = Talk("kimi", kiro(**{"session/prompt": [NO_USAGE]})).start()
    [wire] = talk.adapter.after_exit(EXITED)
    [log] = talk.adapter.files(wire.purpose, [logged({"type": "turn.prompt"})])
    assert log.patterns == ["/home/somebody/.kimi-code/sessions/*/s1/logs/kimi-code.log"]
    shown = f"error={json.dumps(json.dumps(error))}" if error else 'error="{cut off'
    line = f"2026-11-30T20:17:49.186Z WARN  acp: turn ended with failed reason  {shown}\n".encode()
    talk.adapter.files(log.purpose, [FileContent("/x/logs/kimi-code.log", len(line), line)])
    outcome = talk.end()
    assert (outcome.status, outcome.failure.reason) == (RunStatus.FAILED, reason)


def test_kimis_usage_is_the_sum_of_its_records_per_model():
    def used(model: str, output: int) -> dict:
        return {
            "type": "usage.record",
            "model": model,
            "usage": {"inputOther": 10, "output": output, "inputCacheRead": 3},
        }

    outcome = ended_as(NO_USAGE, used("k3", 1), used("k3", 2), used("small", 4), turn_ended("completed"))
    assert outcome.status is RunStatus.COMPLETED, "its log says that the silence was meant"
    assert outcome.usage == {"k3": TokenUsage(20, 3, 6), "small": TokenUsage(10, 4, 3)}


def test_what_kimi_logged_before_a_resume_is_not_billed_again():
    talk = Talk("kimi", kiro())
    [before] = talk.adapter.before_launch(ExecOptions(resume_session_id="s1"))
    assert before.max_bytes == 0
    talk.adapter.files(before.purpose, [FileContent(WIRE, 700, b"")])
    [after] = talk.start(resume_session_id="s1").adapter.after_exit(EXITED)
    assert after.offsets == {WIRE: 700}


def test_an_id_that_is_a_path_is_not_looked_for_on_disk():
    for session_id in ("../../etc", "a/b", "*", ".."):
        assert not Talk("kimi", {}).adapter.before_launch(ExecOptions(resume_session_id=session_id))


@pytest.mark.parametrize("retried", [{"type": "turn.step.retrying"}, {"type": "llm.request", "attempt": "2/10"}])
def test_after_a_cut_stream_kimis_log_tells_where_the_answer_begins(retried):
    def part(step: str, said: str) -> dict:
        event = {"type": "content.part", "stepUuid": step, "part": {"type": "text", "text": said}}
        return {"type": "context.append_loop_event", "event": event}

    talk = Talk("kimi", kiro(**{"session/prompt": [text("Hello frHello."), NO_USAGE]})).start()
    [first] = talk.adapter.after_exit(EXITED)
    [second] = talk.adapter.files(first.purpose, [logged(retried, turn_ended("completed"))])
    assert second.patterns == [WIRE]
    talk.adapter.files(second.purpose, [logged(part("1", "Hello fr"), part("2", "Hel"), part("2", "lo."))])
    assert talk.end().output == "Hello."


def test_traecli_of_the_sheets_calls_its_tools_by_name():
    talk = Talk("traecli", traecli()).start()
    [use] = talk.messages(MessageType.TOOL_USE)
    assert (use.tool, use.input) == ("terminal", {"command": "ls"})


def test_grok_reads_the_files_of_a_folder_that_nobody_has_trusted_at_a_terminal():
    """1.0.41 ignored AGENTS.md and every skill in a new folder, without a word."""
    launch = Talk("grok", {}).adapter.launch("Fix it", ExecOptions())
    assert launch.env["GROK_FOLDER_TRUST"] == "0"
