"""What claude's recorded output must come out as. The numbers are those of the stub model it was recorded with."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from callboard_adapters import (
    BackendConfig,
    ExecOptions,
    LaunchRefused,
    MessageType,
    Result,
    RunStatus,
    TokenUsage,
    create_backend,
)
from callboard_adapters.base import CloseStdin, Outcome, ProcessExit, Reply, StopCause, TurnEnded, TurnResumed
from callboard_adapters.claude import ClaudeAdapter
from callboard_adapters.conformance import Recording
from callboard_adapters.conformance.pure import PureRun, context
from callboard_adapters.dialects.stream_json_input import encode
from callboard_wire.failures import FailureReason

RECORDINGS = Path(__file__).parents[2] / "fixtures" / "transcripts" / "claude"
MODEL = "claude-opus-5-5"
ONE_CALL = {MODEL: TokenUsage(1234, 56, 1000, 200, 72_560_000)}
TWO_CALLS = {MODEL: TokenUsage(3579, 123, 3000, 500, 198_760_000)}
HELLO = "Hello from the stub model."
RAN = "Finished. The tool was run."


async def play(name: str, folder: Path, **how: Any) -> tuple[list[Any], Result]:
    recording = Recording.load(RECORDINGS / name)
    cli = recording.fake_cli(folder, ClaudeAdapter.capabilities, **how)
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "IS_SANDBOX": "1"}
    backend = create_backend("claude", BackendConfig(executable=cli, env=env))
    options = ExecOptions(cwd=folder, timeout=20, resume_session_id=recording.resume)
    session = await backend.execute(recording.prompt, options)
    messages = []
    async for message in session.messages:
        messages.append(message)
        if how.get("stop_after") and message.type is MessageType.TOOL_USE:
            os.kill(session.pid, signal.SIGTERM)
    return messages, await session.result()


@pytest.mark.parametrize(
    ("name", "output", "usage"),
    [
        ("text", HELLO, ONE_CALL),
        ("thinking", HELLO, ONE_CALL),
        ("500once", HELLO, ONE_CALL),
        ("resume", "History markers: text recall", ONE_CALL),
        ("tool", RAN, TWO_CALLS),
        ("write", RAN, TWO_CALLS),
        ("tool-permission", RAN, TWO_CALLS),
    ],
)
async def test_a_completed_recording_gives_its_answer_usage_and_session(tmp_path, name, output, usage):
    _, result = await play(name, tmp_path)
    assert (result.status, result.output, result.error) == (RunStatus.COMPLETED, output, "")
    assert result.usage == usage
    first = json.loads((RECORDINGS / name / "stdout.jsonl").read_bytes().splitlines()[0])
    assert result.session_id == first["session_id"]
    assert result.cli_version == "2.1.332 (Claude Code)"


async def test_a_two_megabyte_answer_is_told_once(tmp_path):
    messages, result = await play("bigline", tmp_path)
    assert result.status is RunStatus.COMPLETED
    assert [m.content for m in messages if m.type is MessageType.TEXT] == [result.output]
    assert result.usage == ONE_CALL


async def test_a_refused_login_is_ended_in_seconds_with_its_status(tmp_path):
    messages, result = await play("401", tmp_path)
    assert (result.status, result.failure_reason) == (RunStatus.FAILED, FailureReason.AUTH)
    assert (result.failure.http_status, result.failure.provider_code) == (401, "authentication_failed")
    assert result.usage == {}
    assert [m.status for m in messages if m.type is MessageType.STATUS] == ["running", "retrying", "retrying"]
    assert "CALLBOARD_CLAUDE_AUTH_RETRIES" in result.error


async def test_the_cli_may_be_left_to_retry_a_refused_login(tmp_path):
    """With the setting at 0 all ten retries are announced and the CLI's own result counts."""
    run = PureRun.of(ClaudeAdapter, _with_env("401", CALLBOARD_CLAUDE_AUTH_RETRIES="0"))
    outcome = run.play()
    assert isinstance(outcome, Outcome)
    assert outcome.error == "Failed to authenticate. API Error: 401 stub says: invalid API key"
    assert (outcome.failure.reason, outcome.failure.http_status) == (FailureReason.AUTH, 401)
    assert [m.type for m in run.messages].count(MessageType.TEXT) == 0
    assert len([m for m in run.messages if m.status == "retrying"]) == 10


async def test_not_logged_in_is_an_access_failure_and_no_answer(tmp_path):
    messages, result = await play("nologin", tmp_path)
    assert (result.status, result.output) == (RunStatus.FAILED, "")
    assert result.failure_reason is FailureReason.AUTH
    assert "/login" in result.error
    assert [m.type for m in messages if m.content] == [MessageType.ERROR]


async def test_an_unknown_session_is_rejected_and_its_id_not_kept(tmp_path):
    _, result = await play("resume-bogus", tmp_path)
    assert (result.status, result.resume_rejected, result.session_id) == (RunStatus.FAILED, True, "")
    assert "No conversation found" in result.error


async def test_sigterm_from_outside_in_the_middle_of_a_tool_completes_nothing(tmp_path):
    messages, result = await play("sigterm-tool-group", tmp_path, stop_after=4)
    assert (result.status, result.failure_reason) == (RunStatus.FAILED, FailureReason.PROCESS)
    assert result.session_id == "72bcf085-63df-423a-9495-3bf46cdf65b9"
    assert [m.input for m in messages if m.type is MessageType.TOOL_USE] == [
        {"command": "python3 -c 'import time; time.sleep(300)'"}
    ]
    assert result.usage == {MODEL: TokenUsage(1234, 1, 1000, 200)}


async def test_a_tool_call_is_told_with_its_result_and_before_the_answer(tmp_path):
    messages, _ = await play("tool", tmp_path)
    said = [m for m in messages if m.type is not MessageType.STATUS]
    assert [m.type.value for m in said] == ["text", "tool-use", "tool-result", "text"]
    use, result = said[1], said[2]
    assert (use.tool, use.call_id) == ("Bash", "toolu_46d8320106354afb9438")
    assert "echo hello-from-tool" in use.input["command"]
    assert (result.call_id, result.output, result.status) == (use.call_id, "hello-from-tool", "completed")


def _with_env(name: str, **env: str) -> Recording:
    from dataclasses import replace

    return replace(Recording.load(RECORDINGS / name), env=env)


# ── events that no recording holds ───────────────────────────────────────────


class Said:
    """Feeds events to a fresh adapter and collects what it says."""

    def __init__(self, resume: str | None = None) -> None:
        self.adapter = ClaudeAdapter(context(ClaudeAdapter, Recording("made up", ())))
        self.launch = self.adapter.launch("hi", ExecOptions(resume_session_id=resume))
        self.outputs: list[Any] = []

    def event(self, **event: Any) -> Said:
        self.outputs += self.adapter.receive(encode(event).rstrip())
        return self

    def init(self, session_id: str = "s-1") -> Said:
        return self.event(type="system", subtype="init", session_id=session_id, model=MODEL)

    def assistant(self, *blocks: dict[str, Any], **more: Any) -> Said:
        message = {"model": MODEL, "content": list(blocks), **more.pop("message", {})}
        return self.event(type="assistant", message=message, **more)

    def text(self, text: str, **more: Any) -> Said:
        return self.assistant({"type": "text", "text": text}, **more)

    def result(self, result: str | None, **more: Any) -> Said:
        body = {"subtype": "success", "is_error": False, "session_id": "s-1", **more}
        return self.event(type="result", result=result, **body)

    def finish(self, code: int | None = 0, sig: int | None = None, stderr: str = "") -> Outcome:
        ended = any(isinstance(o, TurnEnded) for o in self.outputs)
        outcome = self.adapter.finish(ProcessExit(code, sig, None, ended, stderr))
        assert isinstance(outcome, Outcome)
        return outcome


def test_a_success_that_is_an_error_fails_with_its_text_and_status():
    outcome = Said().init().result("weekly limit, resets 12pm", is_error=True, api_error_status=429).finish()
    assert (outcome.status, outcome.error) == (RunStatus.FAILED, "weekly limit, resets 12pm")
    assert (outcome.failure.reason, outcome.failure.http_status) == (FailureReason.RATE_LIMIT, 429)
    forbidden = Said().init().result("no", is_error=True, api_error_status=403).finish()
    assert forbidden.failure.reason is FailureReason.AUTH


def test_a_refused_quota_says_when_it_begins_anew():
    said = Said().init()
    resets_at = said.adapter.context.started_at + 3600
    said.event(type="rate_limit_event", rate_limit_info={"status": "rejected", "resetsAt": resets_at})
    failure = said.result("You've hit your limit", is_error=True, api_error_status=429).finish().failure
    assert (failure.reason, failure.retry_after_s) == (FailureReason.RATE_LIMIT, 3600)


def test_a_blank_result_falls_back_to_the_last_answer():
    assert Said().init().text("Hello").result("").finish().output == "Hello"


def test_narration_before_a_tool_call_is_never_the_answer():
    said = Said().init().text("I will look.").assistant({"type": "tool_use", "id": "t", "name": "Bash", "input": {}})
    outcome = said.result("").finish()
    assert (outcome.status, outcome.output) == (RunStatus.COMPLETED, "")


def test_several_text_blocks_of_one_message_are_one_answer():
    same = {"message": {"id": "m-1"}}
    assert Said().init().text("Hello ", **same).text("world", **same).result("").finish().output == "Hello world"


@pytest.mark.parametrize("where", ["terminal_reason", "stop_reason"])
def test_a_full_context_is_a_failure_even_when_it_reports_success(where):
    outcome = Said().init().result("", **{where: "prompt_too_long"}).finish()
    assert (outcome.status, outcome.failure.reason) == (RunStatus.FAILED, FailureReason.CONTEXT_OVERFLOW)
    assert "prompt_too_long" in outcome.error


def test_an_exceeded_window_in_an_assistant_event_fails_the_run():
    said = Said().init().text("…", message={"stop_reason": "model_context_window_exceeded"})
    assert said.result("…").finish().failure.reason is FailureReason.CONTEXT_OVERFLOW


def test_the_turn_limit_has_its_own_reason():
    outcome = Said().init().result(None, subtype="error_max_turns").finish()
    assert (outcome.status, outcome.failure.reason) == (RunStatus.FAILED, FailureReason.ITERATION_LIMIT)


def test_a_second_result_of_a_background_agent_is_the_answer_and_usage_is_not_doubled():
    used = {MODEL: {"inputTokens": 10, "outputTokens": 2}}
    more = {MODEL: {"inputTokens": 30, "outputTokens": 5}}
    said = Said().init().text("started it").result("started it", modelUsage=used)
    said.event(type="system", subtype="task_notification", task_id="b", status="completed", session_id="s-1")
    assert isinstance(said.outputs[-1], TurnResumed)
    outcome = said.text("it is done").result("it is done", modelUsage=more).finish()
    assert (outcome.status, outcome.output) == (RunStatus.COMPLETED, "it is done")
    assert outcome.usage == {MODEL: TokenUsage(30, 5)}


def test_the_end_waits_for_background_work_and_says_so():
    said = Said().init()
    said.event(type="system", subtype="task_started", task_id="b", is_backgrounded=True, description="npm test")
    said.result("started")
    assert not [o for o in said.outputs if isinstance(o, TurnEnded | CloseStdin)]
    assert [o for o in said.adapter.tick("background") if isinstance(o, TurnEnded)]
    outcome = said.finish()
    assert outcome.status is RunStatus.FAILED
    assert "npm test" in outcome.error


def test_background_work_killed_at_the_end_is_flagged():
    said = Said().init()
    said.event(type="system", subtype="task_started", task_id="b", is_backgrounded=True, description="npm test")
    said.result("started").event(type="system", subtype="task_notification", task_id="b", status="stopped")
    assert said.finish().status is RunStatus.FAILED


def test_a_sub_agent_speaks_under_its_call_and_never_answers():
    said = Said().init().text("main answer").text("inner", parent_tool_use_id="t-1")
    block = {"type": "tool_use", "id": "t-2", "name": "Read", "input": {}}
    said.assistant(block, parent_tool_use_id="t-1")
    inner = {"type": "tool_result", "tool_use_id": "t-2", "content": "x"}
    said.event(type="user", message={"content": [inner]}, parent_tool_use_id="t-1")
    assert said.result("").finish().output == "main answer"
    parents = [
        o.parent_call_id for o in said.outputs if getattr(o, "type", None) in ("text", "tool-use", "tool-result")
    ]
    assert parents == ["", "t-1", "t-1", "t-1"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"error": "invalid_request"}, FailureReason.API_INVALID_REQUEST),
        ({"error": "server_error", "api_error": "connection_failed"}, FailureReason.NETWORK),
        ({"error": "server_error"}, FailureReason.SERVER_ERROR),
    ],
)
def test_an_error_without_a_status_is_told_by_its_most_exact_name(fields, reason):
    said = Said().init().text("API Error: no.", message={"id": "m", "model": "<synthetic>"}, **fields)
    more = {"api_error": fields["api_error"]} if "api_error" in fields else {}
    said.result("API Error: no.", is_error=True, terminal_reason="api_error", api_error_status=None, **more)
    outcome = said.finish(1)
    assert (outcome.status, outcome.failure.reason) == (RunStatus.FAILED, reason)


@pytest.mark.parametrize(
    ("text", "error", "reason", "status"),
    [
        ('API Error: 404 {"type":"error","error":{"type":"x"}}', "unknown", FailureReason.MODEL, 404),
        ("API Error: 529 overloaded", "server_error", FailureReason.RATE_LIMIT, 529),
        ("API Error: 400 messages.1: no", "invalid_request", FailureReason.API_INVALID_REQUEST, 400),
        ("API Error: 500 no", "authentication_failed", FailureReason.AUTH, 500),
        (
            "There's an issue with the selected model (m). It may not exist or you may not have access to it.",
            "invalid_request",
            FailureReason.MODEL,
            None,
        ),
    ],
)
def test_older_versions_tell_the_status_in_a_sentence_alone(text, error, reason, status):
    said = Said().init().text(text, message={"id": "m", "model": "<synthetic>"}, error=error)
    failure = said.result(text, is_error=True).finish(1).failure
    assert (failure.reason, failure.http_status) == (reason, status)


@pytest.mark.parametrize("where", ["the message", "the result"])
def test_a_refusal_of_the_model_is_told_as_one(where):
    stop = {"stop_reason": "refusal"}
    said = Said().init().text("I will not", message={"id": "a", **(stop if where == "the message" else {})})
    said.text("API Error: no.", message={"id": "m", "model": "<synthetic>"}, error="invalid_request")
    outcome = said.result("API Error: no.", is_error=True, **(stop if where == "the result" else {})).finish(1)
    assert outcome.failure.reason is FailureReason.AGENT_BLOCKED


def test_a_turn_limit_is_told_by_its_subtype_or_its_terminal_reason():
    for fields in ({"subtype": "error_max_turns"}, {"terminal_reason": "max_turns"}):
        outcome = Said().init().result(None, is_error=True, errors=["that was all"], **fields).finish(1)
        assert outcome.failure.reason is FailureReason.ITERATION_LIMIT


def test_what_the_cli_tells_the_user_is_shown_as_it_stands():
    said = Said().init().event(type="system", subtype="informational", content="stopped once", level="notice")
    said.event(type="system", subtype="model_refusal_no_fallback", content="")
    assert [m.content for m in said.outputs if getattr(m, "type", None) is MessageType.LOG] == ["stopped once"]


def test_a_new_id_on_a_failed_resume_is_a_rejection_and_is_not_stored():
    outcome = Said(resume="s-old").init("s-new").finish(1, stderr="No conversation found with session ID: s-old")
    assert (outcome.resume_rejected, outcome.session_id) == (True, "")


@pytest.mark.parametrize("status", [401, 402, 429, 500, 529])
def test_a_provider_error_on_a_resumed_run_is_no_rejection(status):
    said = Said(resume="s-1").init("s-1").result(f"API Error: {status}", is_error=True, api_error_status=status)
    outcome = said.finish(1)
    assert (outcome.resume_rejected, outcome.session_id) == (False, "s-1")


def test_an_account_switch_is_a_rejection():
    outcome = (
        Said(resume="s-1").init("s-1").result("该会话已绑定另外的账号", is_error=True, api_error_status=400).finish(1)
    )
    assert outcome.resume_rejected


def test_an_interrupted_resumed_run_is_billed_by_its_messages():
    """After an interrupt `usage` is zero and `modelUsage` is the whole session's."""
    usage = {"input_tokens": 7, "output_tokens": 1, "cache_read_input_tokens": 3}
    said = Said(resume="s-1").init("s-1")
    said.text("par", message={"id": "m", "usage": usage}).text("tial", message={"id": "m", "usage": usage})
    said.result(
        "", is_error=True, terminal_reason="aborted_streaming", modelUsage={MODEL: {"inputTokens": 999}}, usage={}
    )
    outcome = said.finish(1)
    assert outcome.status is RunStatus.ABORTED
    assert outcome.usage == {MODEL: TokenUsage(7, 1, 3, 0)}


def test_auxiliary_models_are_counted_where_they_belong():
    used = {MODEL: {"inputTokens": 9}, "small": {"inputTokens": 11, "outputTokens": 3}, "idle": {"inputTokens": 0}}
    assert Said().init().result("x", modelUsage=used).finish().usage == {
        MODEL: TokenUsage(9),
        "small": TokenUsage(11, 3),
    }


def test_no_usage_at_all_is_unknown_and_not_zero():
    assert Said().init().result("x").finish().usage == {}


def test_permission_is_granted_in_the_foreground():
    said = Said().init()
    said.event(
        type="control_request",
        request_id="r-1",
        request={"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "ls", "run_in_background": True}},
    )
    answer = json.loads(next(o.data for o in said.outputs if isinstance(o, Reply)))
    assert answer["type"] == "control_response"
    assert answer["response"]["request_id"] == "r-1"
    assert answer["response"]["response"] == {
        "behavior": "allow",
        "updatedInput": {"command": "ls", "run_in_background": False},
    }


def test_a_question_to_the_user_is_answered_at_once():
    said = Said().init()
    request = {"subtype": "can_use_tool", "tool_name": "AskUserQuestion", "input": {}}
    said.event(type="control_request", request_id="r", request=request)
    answer = json.loads(next(o.data for o in said.outputs if isinstance(o, Reply)))
    assert answer["response"]["response"]["behavior"] == "deny"


def test_an_unknown_control_request_is_refused_and_not_left_waiting():
    said = Said().init().event(type="control_request", request_id="r", request={"subtype": "teleport"})
    answer = json.loads(next(o.data for o in said.outputs if isinstance(o, Reply)))
    assert (answer["response"]["subtype"], answer["response"]["request_id"]) == ("error", "r")


def test_unknown_events_and_blocks_are_shown_once_as_warnings_and_kept():
    said = Said().init()
    for number in range(3):
        said.event(type="hologram", payload=number)
    said.assistant({"type": "smell", "of": "coffee"})
    logs = [(o.level, o.content) for o in said.outputs if getattr(o, "type", None) == "log"]
    assert [level for level, _ in logs] == ["warn", "debug", "debug", "warn"]
    assert '"payload": 2' in logs[2][1]
    assert "coffee" in logs[3][1]
    assert said.text("fine").result("").finish().output == "fine"


def test_redacted_thoughts_and_server_tools_do_not_erase_the_answer():
    said = Said().init().text("Hello").assistant({"type": "redacted_thinking", "data": "x"})
    assert said.result("").finish().output == "Hello"


def test_cancel_interrupts_in_the_protocols_words():
    (reply,) = Said().adapter.cancel()
    assert json.loads(reply.data)["request"] == {"subtype": "interrupt"}


def test_a_cancelled_runs_own_outcome_leaves_the_word_to_the_driver():
    said = Said().init().text("half")
    outcome = said.adapter.finish(ProcessExit(None, 15, StopCause.CANCEL, False, ""))
    assert outcome.session_id == "s-1"


# ── the command line ─────────────────────────────────────────────────────────


def launch(env: dict[str, str] | None = None, **options: Any) -> Any:
    adapter = ClaudeAdapter(context(ClaudeAdapter, Recording("made up", (), env=env or {})))
    return adapter.launch("a prompt\nof two lines", ExecOptions(**options))


def test_the_command_line_carries_neither_the_prompt_nor_a_line_feed():
    made = launch(model="m", thinking_level="high", max_turns=3, resume_session_id="s-1", mcp_config={"mcpServers": {}})
    assert not [a for a in made.args if "prompt" in a and "\n" in a]
    assert json.loads(made.stdin)["message"]["content"] == [{"type": "text", "text": "a prompt\nof two lines"}]
    assert made.stdin.count(b"\n") == 1
    assert made.keep_stdin
    assert " ".join(made.args) == (
        "-p --output-format stream-json --input-format stream-json --verbose --permission-mode bypassPermissions "
        "--disallowedTools AskUserQuestion --strict-mcp-config --model m --effort high --max-turns 3 --resume s-1 "
        "--mcp-config /tmp/scratch/mcp.json"
    )


def test_a_limit_on_an_answers_tokens_is_a_variable_and_the_agents_own_wins():
    name = "CLAUDE_CODE_MAX_OUTPUT_TOKENS"
    assert launch(max_tokens=64_000).env[name] == "64000"
    assert name not in launch(max_tokens=64_000, env={name: "1"}).env
    assert name not in launch().env


@pytest.mark.parametrize(
    ("config", "content"),
    [
        (None, None),
        ({}, {"mcpServers": {}}),
        ({"mcpServers": {"a": {"command": "x"}}}, {"mcpServers": {"a": {"command": "x"}}}),
    ],
)
def test_mcp_has_three_states_and_secrets_stay_in_a_private_file(config, content):
    made = launch(mcp_config=config)
    if content is None:
        assert not made.files
        assert "--strict-mcp-config" not in made.args
        return
    (file,) = made.files
    assert json.loads(file.content) == content
    assert (file.mode, file.after) == (0o600, "remove")


def test_an_id_or_model_cannot_become_a_flag():
    for options in ({"resume_session_id": "--dangerous"}, {"model": "-p"}):
        with pytest.raises(LaunchRefused):
            launch(**options)


def test_the_settings_flag_is_blocked_only_while_we_set_it():
    assert "--settings" in launch(custom_args=["--settings", "mine.json"]).args
    made = launch(custom_args=["--settings", "mine.json"], claude_settings_path="/ours.json")
    assert made.args[made.args.index("--settings") + 1] == "/ours.json"
    assert "mine.json" not in made.args


def test_a_dropped_flag_is_told_without_its_value():
    made = launch(custom_args=["--output-format=text", "--mcp-config", "secret.json", "--add-dir", "/x"])
    assert made.args[-2:] == ["--add-dir", "/x"]
    told = " ".join(n.content for n in made.notices)
    assert "--output-format" in told
    assert "--mcp-config" in told
    assert "secret" not in told


def test_background_tasks_are_switched_off_unless_the_user_decided():
    assert launch().env == {"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1"}
    assert launch(env={"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "0"}).env == {}
