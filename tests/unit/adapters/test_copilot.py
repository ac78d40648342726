from __future__ import annotations

import json
from typing import Any

import pytest

from callboard_adapters.base import SessionId
from callboard_adapters.copilot import CopilotAdapter
from callboard_adapters.messages import MessageType, RunStatus, TokenUsage
from callboard_adapters.options import ExecOptions
from callboard_wire.failures import FailureReason
from tests.unit.adapters.speaking import Speaking

UNIQUE = "00000000-0000-4000-8000-000000000000"


def event(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data}


def said(content: str, message: str = "m1", calls: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    requests = [{"toolCallId": c, "name": "bash", "arguments": {"command": "ls"}} for c in calls]
    return event("assistant.message", messageId=message, model="m-a", content=content, toolRequests=requests, **more)


def result(code: int = 0) -> dict[str, Any]:
    return {"type": "result", "sessionId": UNIQUE, "exitCode": code, "usage": {"premiumRequests": 1.5}}


def record(tokens: tuple[int, int, int, int], call: str) -> bytes:
    names = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
    usage = {"model": "m-a", **dict(zip(names, tokens, strict=True)), "accounting": {"usageId": call}}
    return json.dumps(event("session.usage_record", usage=usage)).encode() + b"\n"


def shutdown(tokens: tuple[int, int, int, int]) -> bytes:
    names = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
    metrics = {"m-a": {"usage": dict(zip(names, tokens, strict=True))}}
    return json.dumps(event("session.shutdown", modelMetrics=metrics)).encode() + b"\n"


RESUMED = json.dumps(event("session.resume")).encode() + b"\n"


def with_file(data: bytes, resume: str | None = None) -> dict[str, TokenUsage]:
    run = Speaking(
        CopilotAdapter,
        options=ExecOptions(cwd="/work-dir", resume_session_id=resume),
        files={f"/home/somebody/.copilot/session-state/{UNIQUE}/events.jsonl": data},
    )
    return dict(run.event(said("x"), result()).finish().usage)


# ── the end ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("stderr", ["", "Total usage: 3 requests"])
def test_an_empty_stream_with_exit_0_fails_and_says_to_log_in(stderr):
    """B026"""
    outcome = Speaking(CopilotAdapter).finish(0, stderr=stderr)
    assert (outcome.status, outcome.failure.reason) == (RunStatus.FAILED, FailureReason.EMPTY_OUTPUT)
    assert "log" in outcome.error or stderr in outcome.error
    assert "/login" in Speaking(CopilotAdapter).finish(0).error


def test_statistics_in_text_mode_are_no_answer_and_json_is_asked_for():
    """B026"""
    run = Speaking(CopilotAdapter).line(b"Total usage est: 1 Premium request", b"API time spent: 2s")
    args = list(run.launch.args)
    assert args[args.index("--output-format") + 1] == "json"
    outcome = run.finish(0)
    assert (outcome.status, outcome.output) == (RunStatus.FAILED, "")


def test_an_exit_code_of_zero_after_an_abort_is_no_success():
    run = Speaking(CopilotAdapter).event(said("Hal"), event("abort", reason="user_initiated"), result(0))
    assert run.finish(0).status is RunStatus.ABORTED


def test_a_result_with_exit_code_1_fails_although_the_process_exits_0():
    outcome = Speaking(CopilotAdapter).event(event("assistant.turn_start"), result(1)).finish(0)
    assert (outcome.status, "exit code 1" in outcome.error) == (RunStatus.FAILED, True)


@pytest.mark.parametrize(
    ("failure", "error", "reason"),
    [
        ({"statusCode": 401}, {"errorType": "authentication", "message": "no", "statusCode": 401}, FailureReason.AUTH),
        (
            {
                "statusCode": 429,
                "errorMessage": '{"message":"exceeded your current quota","code":"insufficient_quota"}',
            },
            {"errorType": "rate_limit", "message": "slow down", "statusCode": 429},
            FailureReason.QUOTA,
        ),
        ({"statusCode": 429}, {"errorType": "rate_limit", "message": "slow down"}, FailureReason.RATE_LIMIT),
        (
            {"statusCode": 400, "errorMessage": '{"message":"prompt is too long"}'},
            {"errorType": "query", "message": "Execution failed", "statusCode": 400},
            FailureReason.CONTEXT_OVERFLOW,
        ),
        ({}, {"errorType": "query", "message": "Could not connect to local model provider"}, FailureReason.NETWORK),
    ],
)
def test_the_provider_s_code_says_more_than_copilot_s_kind(failure, error, reason):
    run = Speaking(CopilotAdapter).event(
        event("model.call_failure", **failure), event("session.error", **error), result(1)
    )
    assert (run.finish(1).status, run.finish(1).failure.reason) == (RunStatus.FAILED, reason)


def test_an_error_that_an_answer_came_after_is_history():
    run = Speaking(CopilotAdapter).event(event("session.error", message="x"), said("Hello"), result(0))
    assert (run.finish(0).status, run.finish(0).output) == (RunStatus.COMPLETED, "Hello")


def test_a_killed_run_keeps_its_id_and_what_was_said():
    run = Speaking(CopilotAdapter).event(event("assistant.message_delta", messageId="m1", deltaContent="Hal"))
    outcome = run.finish(signal=9)
    assert (outcome.status, outcome.session_id, outcome.output) == (RunStatus.FAILED, UNIQUE, "Hal")
    assert outcome.failure.reason is FailureReason.PROCESS


def test_narration_with_a_tool_call_is_not_the_answer():
    run = Speaking(CopilotAdapter).event(said("I will look.", calls=("c1",)), said("Found it.", "m2"), result())
    assert run.finish().output == "Found it."
    assert Speaking(CopilotAdapter).event(said("I will look.", calls=("c1",)), result()).finish().output == ""


# ── what is said ─────────────────────────────────────────────────────────────


def test_text_is_told_with_and_without_deltas_and_never_twice():
    run = Speaking(CopilotAdapter).event(
        event("assistant.message_delta", messageId="m1", deltaContent="Hel"), said("Hello"), said("World", "m2")
    )
    assert run.text() == "HelloWorld"


@pytest.mark.parametrize(
    "events",
    [
        [event("assistant.reasoning_delta", reasoningId="r", deltaContent="hm"), said("x", reasoningText="hm")],
        [said("x", reasoningText="hm"), event("assistant.reasoning", reasoningId="r", content="hm")],
        [event("assistant.reasoning", reasoningId="r", content="hm")],
    ],
)
def test_a_thought_is_told_once(events):
    assert Speaking(CopilotAdapter).event(*events).text(MessageType.THINKING) == "hm"


def test_a_tool_is_one_pair_and_a_command_that_fails_is_a_failed_one():
    run = Speaking(CopilotAdapter).event(
        said("", calls=("c1",)),
        event("tool.execution_start", toolCallId="c1", toolName="bash", arguments={"command": "ls"}),
        event("tool.execution_complete", toolCallId="c1", success=True, result={"content": "a"}),
        event("tool.execution_start", toolCallId="c2", toolName="bash", arguments={}),
        event(
            "tool.execution_complete",
            toolCallId="c2",
            success=True,
            result={"content": "b"},
            shellExecution={"exitCode": 3},
        ),
        event("tool.execution_complete", toolCallId="c3", success=False, error={"message": "not found"}),
    )
    assert [m.call_id for m in run.of(MessageType.TOOL_USE)] == ["c1", "c2"]
    assert [(m.output, m.status) for m in run.of(MessageType.TOOL_RESULT)] == [
        ("a", "completed"),
        ("b", "failed"),
        ("Error: not found", "failed"),
    ]


def test_a_sub_agent_s_words_carry_its_call_and_are_not_the_answer():
    run = Speaking(CopilotAdapter).event(
        said("Answer.", "m1"), said("from below", "m2", parentToolCallId="c1"), result()
    )
    assert [m.parent_call_id for m in run.of(MessageType.TEXT)] == ["", "c1"]
    assert run.finish().output == "Answer."


def test_a_retry_is_told_as_one_with_what_the_provider_said():
    run = Speaking(CopilotAdapter).event(
        event("model.call_failure", statusCode=500, errorMessage='{"message":"broke"}'),
        event("assistant.turn_retry", reason="api_error"),
        event("session.info", infoType="model_retry", message="Retrying..."),
    )
    [status] = run.of(MessageType.STATUS)
    assert (status.status, "500 broke" in status.content) == ("retrying", True)


# ── tokens ───────────────────────────────────────────────────────────────────


def test_input_is_told_without_what_the_cache_served():
    assert with_file(record((100, 10, 80, 5), "a")) == {"m-a": TokenUsage(15, 10, 80, 5)}


def test_a_call_that_was_recorded_twice_counts_once():
    twice = record((100, 10, 80, 5), "a") * 2 + record((10, 1, 0, 0), "b")
    assert with_file(twice) == {"m-a": TokenUsage(25, 11, 80, 5)}


def test_a_resume_bills_only_what_came_after_it():
    data = record((100, 10, 80, 5), "a") + shutdown((100, 10, 80, 5)) + RESUMED + record((7, 2, 0, 0), "b")
    assert with_file(data, UNIQUE) == {"m-a": TokenUsage(7, 2, 0, 0)}
    totals_only = shutdown((100, 10, 80, 5)) + RESUMED + shutdown((130, 14, 90, 5))
    assert with_file(totals_only, UNIQUE) == {"m-a": TokenUsage(20, 4, 10, 0)}


def test_older_versions_print_their_usage_and_one_source_is_taken():
    call = event("assistant.usage", model="m-a", inputTokens=100, outputTokens=10, cacheReadTokens=80)
    whole = json.loads(shutdown((300, 30, 200, 10)))
    run = Speaking(CopilotAdapter).event(call, said("x", outputTokens=9), whole, result())
    assert run.finish().usage == {"m-a": TokenUsage(90, 30, 200, 10)}
    resumed = Speaking(CopilotAdapter, options=ExecOptions(cwd="/work-dir", resume_session_id="s"))
    assert resumed.event(call, said("x", outputTokens=9), whole, result()).finish().usage == {
        "m-a": TokenUsage(20, 10, 80, 0)
    }
    assert Speaking(CopilotAdapter).event(said("x", outputTokens=9), result()).finish().usage == {
        "m-a": TokenUsage(0, 9, 0, 0)
    }


# ── sessions and the launch ──────────────────────────────────────────────────


def test_the_id_is_chosen_beforehand_and_told_with_the_first_event():
    run = Speaking(CopilotAdapter)
    args = list(run.launch.args)
    assert args[args.index("--session-id") + 1] == UNIQUE
    run.event(event("session.skills_loaded"))
    assert [o.value for o in run.outputs if isinstance(o, SessionId)] == [UNIQUE]


def test_a_session_copilot_does_not_know_is_rejected():
    run = Speaking(CopilotAdapter, options=ExecOptions(cwd="/work-dir", resume_session_id="gone"))
    outcome = run.stderr("Error: No session, task, or name matched 'gone'.").finish(1, stderr="No session, task…")
    assert (outcome.status, outcome.resume_rejected, outcome.session_id) == (RunStatus.FAILED, True, "")
    login = Speaking(CopilotAdapter, options=ExecOptions(cwd="/work-dir", resume_session_id="s"))
    outcome = login.finish(1, stderr="Error: No authentication information found.")
    assert (outcome.resume_rejected, outcome.failure.reason) == (False, FailureReason.AUTH)


def test_the_prompt_goes_through_stdin_where_the_version_takes_it():
    run = Speaking(CopilotAdapter, prompt="first\nsecond")
    assert run.launch.stdin == b"first\nsecond"
    assert "-p" not in run.launch.args
    older = Speaking(CopilotAdapter, prompt="hello", version="1.0.48")
    assert older.launch.stdin == b"hello"
    assert "--session-id" not in older.launch.args
    oldest = Speaking(CopilotAdapter, prompt="hello", version="1.0.7")
    assert list(oldest.launch.args)[:2] == ["-p", "hello"]
    assert "--session-id" not in oldest.launch.args


def test_mcp_has_three_states():
    files = {
        "/home/somebody/.copilot/mcp-config.json": b'{"mcpServers": {"theirs": {}, "ours": {}}}',
        "/work-dir/.mcp.json": b"{broken",
    }
    inherit = Speaking(CopilotAdapter, files=files)
    assert not any("mcp" in a for a in inherit.launch.args)
    empty = Speaking(CopilotAdapter, files=files, options=ExecOptions(cwd="/work-dir", mcp_config={}))
    flags = [a for a in empty.launch.args if "mcp" in a or a in ("ours", "theirs")]
    assert flags == ["--disable-builtin-mcps", "--disable-mcp-server", "ours", "--disable-mcp-server", "theirs"]
    assert empty.launch.files == []
    config = {"mcpServers": {"ours": {"command": "srv", "env": {"TOKEN": "secret"}}}}
    managed = Speaking(CopilotAdapter, files=files, options=ExecOptions(cwd="/work-dir", mcp_config=config))
    [file] = managed.launch.files
    assert (file.mode, file.after, json.loads(file.content)) == (0o600, "remove", config)
    assert f"@{file.path}" in managed.launch.args
    assert not any("secret" in a for a in managed.launch.args)


@pytest.mark.parametrize(
    "custom",
    [
        ["-p", "x", "--prompt=x"],
        ["-px"],
        ["--output-format", "text", "-s", "--silent", "--stream=off"],
        ["-r", "--resume=x", "--continue", "--connect", "x", "--session-id", "y"],
        ["--allow-all", "--yolo", "--allow-all-tools", "--no-ask-user", "--acp"],
        ["-C", "/tmp", "--mode", "plan", "--plan"],
    ],
)
def test_flags_the_protocol_depends_on_never_reach_the_cli(custom):
    run = Speaking(CopilotAdapter, options=ExecOptions(cwd="/work-dir", custom_args=[*custom, "--agent", "a"]))
    assert list(run.launch.args)[-4:] == ["--session-id", UNIQUE, "--agent", "a"]
    assert run.launch.notices


@pytest.mark.parametrize(
    ("level", "version", "passed"),
    [("high", "1.0.102", True), ("high", "1.0.77", False), ("ultra", "1.0.102", False)],
)
def test_a_thinking_level_is_passed_where_it_can_be(level, version, passed):
    options = ExecOptions(cwd="/work-dir", thinking_level=level)
    run = Speaking(CopilotAdapter, options=options, version=version)
    assert ("--reasoning-effort" in run.launch.args) is passed
    assert bool(run.launch.notices) is not passed
