"""What codex's recorded output must come out as. The numbers are those of the stub model it was recorded with."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from callboard_adapters import BackendConfig, ExecOptions, MessageType, Result, RunStatus, TokenUsage, create_backend
from callboard_adapters.base import FileContent, Outcome, Reply, SessionId, TurnEnded
from callboard_adapters.codex import CodexAdapter
from callboard_adapters.conformance import CASES, Recording, check
from callboard_adapters.conformance.pure import PureRun, context
from callboard_adapters.messages import Message
from callboard_wire.failures import FailureReason

RECORDINGS = Path(__file__).parents[2] / "fixtures" / "transcripts" / "codex"
NAMES = sorted(path.name for path in RECORDINGS.iterdir())
ENDED_FROM_OUTSIDE = ("cancel", "sigterm-tool-group")  # left alone these wait until somebody ends them
MODEL = "stub-model"
ONE_CALL = {MODEL: TokenUsage(1234, 56, 1000)}
TWO_CALLS = {MODEL: TokenUsage(3579, 123, 3000)}
HELLO = "Hello from the stub model."
RAN = "Finished. The tool was run."


def thread_of(name: str) -> str:
    """The id of the thread the recorded run worked in."""
    lines = (RECORDINGS / name / "stdout.jsonl").read_bytes().splitlines()
    answers = [json.loads(line).get("result") or {} for line in lines]
    return [a["thread"]["id"] for a in answers if "thread" in a][-1]


async def play(name: str, folder: Path, *, cancel_at: str = "", **how: Any) -> tuple[list[Message], Result]:
    recording = Recording.load(RECORDINGS / name)
    cli = recording.fake_cli(folder, CodexAdapter.capabilities, **how)
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    backend = create_backend("codex", BackendConfig(executable=cli, env=env))
    options = ExecOptions(cwd=folder, timeout=20, resume_session_id=recording.resume)
    session = await backend.execute(recording.prompt, options)
    messages = []
    async for message in session.messages:
        messages.append(message)
        if cancel_at == message.type:
            await session.cancel()
        if how.get("stop_after") and message.type is MessageType.TOOL_USE:
            os.kill(session.pid, signal.SIGTERM)
    return messages, await session.result()


@pytest.mark.parametrize(
    ("name", "output", "usage"),
    [
        ("text", HELLO, ONE_CALL),
        ("thinking", HELLO, ONE_CALL),  # 7 of the 56 output tokens are thought; they are in there once
        ("500once", HELLO, ONE_CALL),
        ("resume", "History markers: text recall", ONE_CALL),  # the thread's total is twice that
        ("tool", RAN, TWO_CALLS),
        ("write", RAN, TWO_CALLS),
        ("write-full", RAN, TWO_CALLS),
    ],
)
async def test_a_completed_recording_gives_its_answer_usage_and_session(tmp_path, name, output, usage):
    messages, result = await play(name, tmp_path)
    assert (result.status, result.output, result.error) == (RunStatus.COMPLETED, output, "")
    assert result.usage == usage
    assert result.session_id == thread_of(name)
    assert result.cli_version == "codex-cli 0.171.0"
    assert not result.resume_rejected
    assert [m.session_id for m in messages if m.session_id] == [thread_of(name)]


async def test_a_shell_command_is_shown_with_its_words_its_output_and_its_end(tmp_path):
    messages, _ = await play("tool", tmp_path)
    shown = [m for m in messages if m.type in (MessageType.TOOL_USE, MessageType.TOOL_RESULT)]
    use, end = shown
    assert (use.tool, use.call_id) == ("exec_command", "call_8b5511e760374ce28be1")
    assert use.input == {"command": "/bin/bash -lc 'echo hello-from-tool'", "cwd": "/work-dir"}
    assert (end.call_id, end.output, end.status) == (use.call_id, "hello-from-tool\n", "completed")
    texts = [m.content for m in messages if m.type is MessageType.TEXT]
    assert texts == ["I will run a command now.", RAN]


async def test_a_thought_is_told_once_and_is_no_part_of_the_answer(tmp_path):
    messages, result = await play("thinking", tmp_path)
    assert [m.content for m in messages if m.type is MessageType.THINKING] == ["Let me think about this carefully."]
    assert result.output == HELLO


async def test_a_big_answer_is_told_once(tmp_path):
    messages, result = await play("bigline", tmp_path)
    assert result.status is RunStatus.COMPLETED
    assert [m.content for m in messages if m.type is MessageType.TEXT] == [result.output]


async def test_a_read_only_codex_is_named_although_its_turn_completes(tmp_path):
    messages, _ = await play("write", tmp_path)
    assert [m for m in messages if m.level == "warn" and "danger-full-access" in m.content and "readOnly" in m.content]
    messages, _ = await play("write-full", tmp_path / "full")
    assert not [m for m in messages if "readOnly" in m.content]


async def test_a_refused_login_fails_with_its_status_after_codex_gave_up(tmp_path):
    messages, result = await play("401", tmp_path)
    assert (result.status, result.failure_reason) == (RunStatus.FAILED, FailureReason.AUTH)
    assert (result.failure.http_status, result.failure.provider_code) == (401, "httpConnectionFailed")
    assert result.error.startswith("unexpected status 401 Unauthorized")
    retries = [m.content for m in messages if m.status == "retrying"]
    assert [text.split(":")[0] for text in retries] == [f"Reconnecting... {n}/5" for n in range(1, 6)]
    assert [m.type for m in messages].count(MessageType.ERROR) == 1
    assert result.usage == {}


async def test_a_machine_without_a_network_is_told_before_anything_was_done(tmp_path):
    _, result = await play("nologin", tmp_path)
    assert (result.status, result.failure_reason) == (RunStatus.FAILED, FailureReason.NETWORK)
    assert "waiting for network" in result.error


async def test_a_dead_thread_is_reported_and_a_new_one_answers(tmp_path):
    messages, result = await play("resume-bogus", tmp_path)
    assert (result.status, result.resume_rejected) == (RunStatus.COMPLETED, True)
    assert result.session_id == thread_of("resume-bogus")
    assert result.output == "History markers: recall"
    assert [m for m in messages if m.level == "warn" and "no rollout found" in m.content]


async def test_what_a_resumed_thread_repeats_is_not_told_again(tmp_path):
    messages, _ = await play("resume", tmp_path)
    assert [m.content for m in messages if m.type is MessageType.TEXT] == ["History markers: text recall"]


async def test_cancel_is_said_in_codex_words_and_keeps_what_had_arrived(tmp_path):
    run = PureRun.of(CodexAdapter, Recording.load(RECORDINGS / "cancel"))
    run.play()
    sent = run.adapter.cancel()
    assert [json.loads(o.data)["method"] for o in sent if isinstance(o, Reply)] in ([], ["turn/interrupt"])
    messages, result = await play("cancel", tmp_path, cancel_at=MessageType.STATUS)
    assert (result.status, result.session_id) == (RunStatus.CANCELLED, thread_of("cancel"))
    assert result.failure is None
    assert [m.content for m in messages if m.type is MessageType.TEXT] in ([], [result.output])


async def test_sigterm_from_outside_in_the_middle_of_a_tool_completes_nothing(tmp_path):
    messages, result = await play("sigterm-tool-group", tmp_path, stop_after=17)
    assert (result.status, result.failure_reason) == (RunStatus.FAILED, FailureReason.PROCESS)
    assert result.session_id == thread_of("sigterm-tool-group")
    assert [m.tool for m in messages if m.type is MessageType.TOOL_USE] == ["exec_command"]


def test_the_rollout_file_has_the_same_numbers_when_the_pipe_had_none():
    recording = Recording.load(RECORDINGS / "resume")
    run = PureRun.of(CodexAdapter, recording)
    quiet = [line for line in recording.lines if b"tokenUsage" not in line]
    run.play([line + b"\n" for line in _answering(quiet)])
    (request,) = run.adapter.after_exit(_exit())
    assert any(p.endswith(f"/sessions/*/*/*/rollout-*-{recording.resume}.jsonl") for p in request.patterns)
    rollout = (RECORDINGS / "resume" / "rollout.jsonl").read_bytes()
    (usage,) = run.adapter.files(request.purpose, [FileContent("/x", len(rollout), rollout)])
    assert usage.by_model == ONE_CALL


def _answering(lines: list[bytes]) -> list[bytes]:
    """The recorded answers with the ids this client counts from 0."""
    renamed = []
    for line in lines:
        message = json.loads(line)
        if "method" not in message:
            message["id"] -= 1
        renamed.append(json.dumps(message).encode())
    return renamed


def _exit() -> Any:
    from callboard_adapters.base import ProcessExit

    return ProcessExit(0, None, None, True, "")


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ENDED_FROM_OUTSIDE])
def test_played_in_memory_every_turn_ends_and_every_tool_is_paired(name):
    run = PureRun.of(CodexAdapter, Recording.load(RECORDINGS / name))
    outcome = run.play()
    assert isinstance(outcome, Outcome)
    assert run.turn_ended or run.stopped
    used = [m.call_id for m in run.messages if m.type is MessageType.TOOL_USE]
    ended = [m.call_id for m in run.messages if m.type is MessageType.TOOL_RESULT]
    assert used == ended


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_codex_conforms(tmp_path, case):
    report = await check(CodexAdapter, [Recording.load(RECORDINGS / "tool")], tmp_path, [case])
    assert not report.problems, report


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [n for n in NAMES if n not in ENDED_FROM_OUTSIDE])
async def test_every_recording_of_codex_conforms(tmp_path, name):
    report = await check(CodexAdapter, [Recording.load(RECORDINGS / name)], tmp_path)
    assert report.ran
    assert not report.problems, report


def test_the_conversation_is_named_with_its_first_sign_of_work():
    """A thread whose first turn never got anywhere may still be given up for a new one within the run."""
    recording = Recording.load(RECORDINGS / "text")
    adapter = CodexAdapter(context(CodexAdapter, recording))
    adapter.launch("hi", ExecOptions(cwd="/work-dir"))
    said = []
    for line in _answering(list(recording.lines)):
        outputs = adapter.receive(line)
        said.append(
            (json.loads(line).get("method"), [type(o) for o in outputs if isinstance(o, SessionId | TurnEnded)])
        )
    assert [m for m, kinds in said if SessionId in kinds] == ["item/started"]
    assert [m for m, kinds in said if TurnEnded in kinds] == ["turn/completed"]
