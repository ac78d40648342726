"""What the recorded output of grok, hermes, kimi and qoder must come out as. The numbers are those of the stub model
they were recorded with; in memory, so that every recording is played (as processes: `test_acp_conformance`)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from callboard_adapters import MessageType, RunStatus, TokenUsage, create_backend
from callboard_adapters.base import Outcome, SessionId
from callboard_adapters.conformance import Recording
from callboard_adapters.conformance.pure import PureRun
from callboard_adapters.options import BackendConfig, ExecOptions
from callboard_adapters.registry import adapter_class
from callboard_wire.failures import FailureReason

RECORDINGS = Path(__file__).parents[2] / "fixtures" / "transcripts"
HELLO = "Hello from the stub model."
RAN = "Finished. The tool was run."
RECALLED = "History markers: text recall"
ONE_CALL, TWO_CALLS = TokenUsage(1234, 56, 1000, 0), TokenUsage(3579, 123, 3000, 0)
AUTH, CONFIG = FailureReason.AUTH, FailureReason.MISSING_CONFIG


def play(provider: str, name: str) -> tuple[PureRun, Outcome]:
    run = PureRun.of(adapter_class(provider), Recording.load(RECORDINGS / provider / name))
    outcome = run.play()
    assert isinstance(outcome, Outcome)
    return run, outcome


def said(run: PureRun, kind: MessageType) -> str:
    return "".join(m.content for m in run.messages if m.type is kind)


def recorded_session(provider: str, name: str) -> str:
    lines = map(json.loads, (RECORDINGS / provider / name / "stdin.jsonl").read_bytes().splitlines())
    return next(m["params"]["sessionId"] for m in lines if m.get("method") == "session/prompt")


@pytest.mark.parametrize(
    ("provider", "name", "output", "usage"),
    [
        ("grok", "text", HELLO, ONE_CALL),
        ("grok", "thinking", HELLO, ONE_CALL),
        ("grok", "500once", HELLO, ONE_CALL),
        ("grok", "resume", RECALLED, ONE_CALL),
        ("grok", "tool", RAN, TWO_CALLS),
        ("hermes", "text", HELLO, ONE_CALL),
        ("hermes", "thinking", HELLO, ONE_CALL),
        ("hermes", "500once", HELLO, ONE_CALL),
        ("hermes", "resume", RECALLED, ONE_CALL),
        ("hermes", "tool", RAN, TWO_CALLS),
        ("hermes", "write", RAN, TWO_CALLS),
        ("kimi", "text", HELLO, ONE_CALL),
        ("kimi", "thinking", HELLO, None),  # its log was not recorded
        ("kimi", "500once", HELLO, None),
        ("kimi", "resume", RECALLED, None),
        ("kimi", "tool", RAN, TWO_CALLS),
        ("kimi", "write", RAN, TWO_CALLS),
    ],
)
def test_a_completed_recording_gives_its_answer_usage_and_session(provider, name, output, usage):
    run, outcome = play(provider, name)
    assert (outcome.status, outcome.output, outcome.error) == (RunStatus.COMPLETED, output, "")
    assert list(outcome.usage.values()) == ([usage] if usage else [])
    assert outcome.session_id == recorded_session(provider, name)
    assert run.turn_ended
    assert said(run, MessageType.TEXT).strip().endswith(output)


@pytest.mark.parametrize("provider", ["grok", "hermes", "kimi"])
def test_thoughts_are_shown_once_and_are_no_answer(provider):
    run, outcome = play(provider, "thinking")
    assert said(run, MessageType.THINKING) == "Let me think about this carefully."
    assert "think" not in outcome.output


@pytest.mark.parametrize("provider", ["grok", "hermes"])
def test_the_history_a_resumed_session_replays_is_not_shown_as_live(provider):
    run, _ = play(provider, "resume")
    assert said(run, MessageType.TEXT) == RECALLED


@pytest.mark.parametrize(("provider", "name"), [("grok", "tool"), ("hermes", "tool"), ("kimi", "tool")])
def test_a_tool_call_is_one_use_with_its_command_and_one_result_with_its_output(provider, name):
    run, _ = play(provider, name)
    [use] = [m for m in run.messages if m.type is MessageType.TOOL_USE]
    [result] = [m for m in run.messages if m.type is MessageType.TOOL_RESULT]
    assert use.call_id == result.call_id
    assert use.tool in ("terminal", "run_terminal_command")
    assert use.input["command"] == "echo hello-from-tool"
    assert "hello-from-tool" in result.output
    assert result.status == "completed"


@pytest.mark.parametrize(
    ("provider", "name", "reasons"),
    [
        ("grok", "401", [AUTH]),
        ("grok", "nologin", [AUTH]),
        ("hermes", "401", [AUTH]),
        ("hermes", "nologin", [CONFIG]),
        ("kimi", "401", [AUTH]),
        ("kimi", "nologin", [AUTH]),
        ("qoder", "text", [AUTH]),
        ("qoder", "text-badtoken", [AUTH]),
        ("qoder", "resume-bogus", [AUTH]),
    ],
)
def test_a_refused_login_fails_with_its_reason_and_never_blames_the_session(provider, name, reasons):
    run, outcome = play(provider, name)
    assert outcome.status is RunStatus.FAILED
    assert outcome.failure.reason in reasons
    assert outcome.error
    assert not outcome.resume_rejected
    assert outcome.usage == {}
    assert said(run, MessageType.ERROR)
    assert HELLO not in said(run, MessageType.TEXT)


@pytest.mark.parametrize("provider", ["grok", "hermes", "kimi"])
def test_a_session_that_is_gone_is_rejected_and_its_id_not_kept(provider):
    run, outcome = play(provider, "resume-bogus")
    assert (outcome.status, outcome.resume_rejected, outcome.session_id) == (RunStatus.FAILED, True, "")
    assert outcome.error
    assert not any(isinstance(m, SessionId) for m in run.messages)


@pytest.mark.parametrize("provider", ["grok", "hermes", "kimi"])
def test_a_run_whose_process_was_killed_completed_nothing(provider):
    run, outcome = play(provider, "sigterm-tool-group")
    assert outcome.status is RunStatus.FAILED
    assert outcome.failure.reason is FailureReason.PROCESS
    [use] = [m for m in run.messages if m.type is MessageType.TOOL_USE]
    assert "time.sleep(300)" in use.input["command"]


@pytest.mark.parametrize("provider", ["grok", "hermes", "kimi"])
async def test_a_cancelled_turn_is_cancelled_in_the_protocols_own_words(tmp_path, provider):
    recording = Recording.load(RECORDINGS / provider / "cancel")
    cli = recording.fake_cli(tmp_path, adapter_class(provider).capabilities)
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", **recording.env}
    backend = create_backend(provider, BackendConfig(executable=cli, env=env))
    session = await backend.execute(recording.prompt, ExecOptions(cwd=tmp_path, timeout=20))
    async for message in session.messages:
        if message.type is MessageType.TEXT and "word4" in message.content:
            await session.cancel()
    result = await session.result()
    assert result.status is RunStatus.CANCELLED
    assert result.session_id == recorded_session(provider, "cancel")
    assert result.exit_signal is None, "it left by itself"


def test_groks_retries_are_announced_and_are_no_answer():
    run, _ = play("grok", "500once")
    [retry] = [m for m in run.messages if m.type is MessageType.STATUS]
    assert retry.status == "retrying"
    assert "500 Internal Server Error" in retry.content


def test_an_error_that_hermes_sends_as_the_agents_words_is_shown_as_an_error():
    run, outcome = play("hermes", "401")
    assert said(run, MessageType.ERROR) == "HTTP 401: stub says: invalid API key"
    assert said(run, MessageType.TEXT) == ""
    assert outcome.output == ""
    assert outcome.failure.http_status == 401
