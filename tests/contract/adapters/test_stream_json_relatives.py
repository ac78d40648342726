"""What the output of claude's relatives codebuddy, qwen, amp and cursor must come out as, through real processes.

The numbers are those of the stub model the first two were recorded with; the lists in their first event are shortened.
Amp and cursor work on their vendors' servers alone: but for amp's failures their recordings are made up, and say so.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path

import pytest

from callboard_adapters import (
    BackendConfig,
    ExecOptions,
    Message,
    MessageType,
    Result,
    RunStatus,
    TokenUsage,
    create_backend,
    registry,
)
from callboard_adapters.conformance import CASES, Recording
from callboard_wire.failures import FailureReason
from tests.contract.adapters.test_conformance import conforms, recordings

RECORDINGS = Path(__file__).parents[2] / "fixtures" / "transcripts"
PROVIDERS = ("codebuddy", "qwen", "amp", "cursor")
MODEL = "stub-model"
HELLO, RAN, RECALLED = "Hello from the stub model.", "Finished. The tool was run.", "History markers: text recall"
ONE_CALL, TWO_CALLS = TokenUsage(1234, 56, 1000), TokenUsage(3579, 123, 3000)
WITH_WRITES = TokenUsage(3579, 123, 3000, 500)
WITH_HIDDEN_CALL = TokenUsage(2468, 112, 2000)  # qwen reads the answer once more, for its memories


async def play(provider: str, name: str, folder: Path) -> tuple[list[Message], Result]:
    recording = Recording.load(RECORDINGS / provider / name)
    cli = recording.fake_cli(folder, registry.adapter_class(provider).capabilities)
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    backend = create_backend(provider, BackendConfig(executable=cli, env=env))
    options = ExecOptions(cwd=folder, timeout=20, resume_session_id=recording.resume)
    session = await backend.execute(recording.prompt, options)
    messages = []
    async for message in session.messages:
        messages.append(message)
        if message.type is MessageType.TOOL_USE and "sleep(300)" in str(message.input):
            with contextlib.suppress(ProcessLookupError):  # it may have died by its recording already
                os.kill(session.pid, signal.SIGTERM)
    return messages, await session.result()


@pytest.mark.parametrize(
    ("provider", "name", "output", "usage"),
    [
        ("codebuddy", "text", HELLO, ONE_CALL),
        ("codebuddy", "text-npm", HELLO, ONE_CALL),
        ("codebuddy", "thinking", HELLO, ONE_CALL),
        ("codebuddy", "tool", RAN, TWO_CALLS),
        ("codebuddy", "tool-npm", RAN, TWO_CALLS),
        ("codebuddy", "tool-permission", RAN, TWO_CALLS),
        ("codebuddy", "write", RAN, TWO_CALLS),
        ("codebuddy", "resume", RECALLED, ONE_CALL),
        ("codebuddy", "resume-npm", RECALLED, ONE_CALL),
        ("qwen", "text", HELLO, WITH_HIDDEN_CALL),
        ("qwen", "500once", HELLO, WITH_HIDDEN_CALL),
        ("qwen", "thinking", HELLO, WITH_HIDDEN_CALL),
        ("qwen", "tool", RAN, TWO_CALLS),
        ("qwen", "write", RAN, TWO_CALLS),
        ("qwen", "resume", RECALLED, ONE_CALL),
        ("amp", "tool", RAN, WITH_WRITES),
        ("cursor", "tool", RAN, WITH_WRITES),
    ],
)
async def test_a_completed_recording_gives_its_answer_its_own_tokens_and_its_session(
    tmp_path, provider, name, output, usage
):
    messages, result = await play(provider, name, tmp_path)
    assert (result.status, result.output, result.error) == (RunStatus.COMPLETED, output, "")
    assert list(result.usage.values()) == [usage]
    first = json.loads((RECORDINGS / provider / name / "stdout.jsonl").read_bytes().splitlines()[0])
    assert result.session_id == first["session_id"]
    assert not [m for m in messages if m.type is MessageType.ERROR or m.level == "warn"]


@pytest.mark.parametrize(
    ("provider", "name", "reason", "status", "words"),
    [
        ("codebuddy", "401", FailureReason.AUTH, 401, "invalid API key"),
        ("codebuddy", "500once", FailureReason.SERVER_ERROR, 500, "500"),
        ("codebuddy", "nologin", FailureReason.AUTH, None, "Authentication required"),
        ("qwen", "401", FailureReason.AUTH, 401, "invalid API key"),
        ("qwen", "nologin", FailureReason.MISSING_CONFIG, None, "Missing API key"),
        ("amp", "nologin", FailureReason.AUTH, None, "AMP_API_KEY"),
        ("amp", "badkey", FailureReason.AUTH, None, "Invalid or missing API key"),
        ("amp", "error", FailureReason.QUOTA, None, "credit balance"),
        ("cursor", "nologin", FailureReason.AUTH, None, "Authentication required"),
        ("cursor", "error", FailureReason.QUOTA, None, "usage limit"),
    ],
)
async def test_a_provider_s_error_is_a_failure_and_its_text_no_answer(tmp_path, provider, name, reason, status, words):
    messages, result = await play(provider, name, tmp_path)
    assert (result.status, result.failure_reason, result.output) == (RunStatus.FAILED, reason, "")
    assert result.failure.http_status == status
    assert words in result.error
    assert result.usage == {}
    assert not [m for m in messages if m.type is MessageType.TEXT]
    assert "authToken" not in str(messages)


@pytest.mark.parametrize("provider", ["codebuddy", "qwen"])
async def test_an_unknown_session_is_rejected_and_its_id_not_kept(tmp_path, provider):
    _, result = await play(provider, "resume-bogus", tmp_path)
    assert (result.status, result.resume_rejected, result.session_id) == (RunStatus.FAILED, True, "")


@pytest.mark.parametrize("provider", ["codebuddy", "qwen"])
async def test_an_exit_after_somebody_else_s_signal_completes_nothing(tmp_path, provider):
    """Codebuddy exits 0 then."""
    messages, result = await play(provider, "sigterm-tool-group", tmp_path)
    assert (result.status, result.failure_reason) == (RunStatus.FAILED, FailureReason.PROCESS)
    assert result.output == ""
    assert result.usage == {MODEL: ONE_CALL}
    assert [m.input for m in messages if m.type is MessageType.TOOL_USE] == [
        {"command": "python3 -c 'import time; time.sleep(300)'"}
    ]


@pytest.mark.parametrize(
    ("provider", "tool"), [("codebuddy", "Bash"), ("qwen", "run_shell_command"), ("amp", "Bash"), ("cursor", "shell")]
)
async def test_a_tool_call_is_told_with_its_result_and_before_the_answer(tmp_path, provider, tool):
    messages, _ = await play(provider, "tool", tmp_path)
    said = [m for m in messages if m.type not in (MessageType.STATUS, MessageType.THINKING)]
    assert [m.type.value for m in said] == ["text", "tool-use", "tool-result", "text"]
    use, result = said[1], said[2]
    assert (use.tool, use.call_id, result.status) == (tool, result.call_id, "completed")
    assert "hello-from-tool" in result.output


WITH_A_GRACE = ("never_exits", "hung_and_deaf")
"""Cases that wait for a real grace to run out: seconds each, and the same driver for every provider."""


@pytest.mark.parametrize("case", [c for c in CASES if c.__name__ not in WITH_A_GRACE], ids=lambda case: case.__name__)
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_conforms(tmp_path, provider, case):
    await conforms(provider, ["tool"], tmp_path, [case])


ENDED_FROM_OUTSIDE = [("codebuddy", "sigterm-tool-group")]
"""Left alone these wait for more input until somebody ends them: it had exited with 0 at the signal."""


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("provider", "name"), [(p, n) for p in PROVIDERS for n in recordings(p) if (p, n) not in ENDED_FROM_OUTSIDE]
)
async def test_every_recording_conforms(tmp_path, provider, name):
    await conforms(provider, [name], tmp_path)
