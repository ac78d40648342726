"""What the recorded output of opencode, pi, copilot and openclaw must come out as, through real processes.

The numbers are those of the stub model it was recorded with. Two CLIs could not be recorded; theirs are made up from
the fact sheets and say so.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from callboard_adapters import (
    BackendConfig,
    ExecOptions,
    Message,
    MessageType,
    Result,
    RunStatus,
    create_backend,
    registry,
)
from callboard_adapters.conformance import Recording
from callboard_adapters.messages import TokenUsage, Watchdog
from callboard_wire.failures import FailureReason

RECORDINGS = Path(__file__).parents[2] / "fixtures" / "transcripts"
HELLO, RAN, RECALLED = "Hello from the stub model.", "Finished. The tool was run.", "History markers: text recall"
ONE, TWO = (1234, 56, 1000, 0), (3579, 123, 3000, 0)
ANSWERS = [("text", HELLO, ONE), ("500once", HELLO, ONE), ("thinking", HELLO, ONE), ("resume", RECALLED, ONE)]
ANSWERS += [("tool", RAN, TWO), ("write", RAN, TWO)]
PROVIDERS = ("opencode", "pi", "copilot", "openclaw")
COST = {"pi": {ONE: 14_460_000, TWO: 41_250_000}, "openclaw": {ONE: 14_460_000, TWO: 41_250_000}}
NO_TOKENS_RECORDED = {("copilot", "500once"), ("copilot", "thinking")}  # their session's file was not kept


async def run(provider: str, cli: Path, folder: Path, prompt: str, **options: Any) -> tuple[list[Message], Result]:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    backend = create_backend(provider, BackendConfig(executable=cli, env=env))
    session = await backend.execute(prompt, ExecOptions(**{"cwd": folder, "timeout": 20, **options}))
    messages = []
    async for message in session.messages:
        messages.append(message)
        if message.type is MessageType.TOOL_USE and "sleep(300)" in str(message.input):
            with contextlib.suppress(ProcessLookupError):  # it may have died by its recording already
                os.kill(session.pid, signal.SIGTERM)
    return messages, await session.result()


async def play(provider: str, name: str, folder: Path, **how: Any) -> tuple[list[Message], Result]:
    recording = Recording.load(RECORDINGS / provider / name)
    cli = recording.fake_cli(folder, registry.adapter_class(provider).capabilities, **how)
    if provider == "pi" and recording.resume and recording.side_files:
        for path, content in recording.side_files.items():
            (folder / path).parent.mkdir(parents=True)
            (folder / path).write_bytes(content)
    return await run(provider, cli, folder, recording.prompt, resume_session_id=recording.resume)


# ── recorded ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("name", "output", "tokens"), ANSWERS)
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_completed_recording_gives_its_answer_and_its_own_tokens(tmp_path, provider, name, output, tokens):
    messages, result = await play(provider, name, tmp_path)
    assert (result.status, result.output, result.error) == (RunStatus.COMPLETED, output, "")
    if (provider, name) not in NO_TOKENS_RECORDED:
        [used] = result.usage.values()
        assert used == TokenUsage(*tokens, COST.get(provider, {}).get(tokens))
    assert result.session_id
    assert not result.resume_rejected
    assert "".join(m.content for m in messages if m.type is MessageType.TEXT).count(output) == 1


async def test_a_run_that_openclaw_s_gateway_did_has_its_answer_its_tokens_and_its_cost(tmp_path):
    """Recorded through a real gateway with the model of the other recordings: its answer is one level deeper."""
    _, result = await play("openclaw", "gateway", tmp_path)
    assert (result.status, result.output) == (RunStatus.COMPLETED, "Hello from the loopback model.")
    assert result.usage == {"loopback-model": TokenUsage(*ONE, COST["openclaw"][ONE])}
    assert result.session_id


@pytest.mark.parametrize("provider", ["opencode", "pi", "copilot"])
async def test_a_tool_call_is_told_with_its_result(tmp_path, provider):
    messages, _ = await play(provider, "tool", tmp_path)
    [use] = [m for m in messages if m.type is MessageType.TOOL_USE]
    [result] = [m for m in messages if m.type is MessageType.TOOL_RESULT]
    assert (use.call_id, use.tool, result.status) == (result.call_id, "bash", "completed")
    assert "echo hello-from-tool" in use.input["command"]
    assert "hello-from-tool" in result.output


@pytest.mark.parametrize(
    ("provider", "name", "reason", "words"),
    [
        ("opencode", "401", FailureReason.AUTH, "invalid API key"),
        ("opencode", "nologin", FailureReason.NETWORK, "Cannot connect"),
        ("pi", "401", FailureReason.AUTH, "401"),
        ("pi", "nologin", FailureReason.MODEL, "not found"),
        ("copilot", "401", FailureReason.AUTH, "HTTP 401"),
        ("copilot", "nologin", FailureReason.AUTH, "/login"),
        ("openclaw", "401", FailureReason.AUTH, "temporarily disabled"),
        ("openclaw", "after-401", FailureReason.AUTH, "temporarily disabled"),
        ("openclaw", "nologin", FailureReason.AUTH, "authentication source"),
    ],
)
async def test_a_refused_login_fails_with_the_provider_s_words_and_no_answer(tmp_path, provider, name, reason, words):
    messages, result = await play(provider, name, tmp_path)
    assert (result.status, result.failure_reason, result.output) == (RunStatus.FAILED, reason, "")
    assert words in result.error
    assert result.usage == {}
    assert not [m for m in messages if m.type is MessageType.TEXT]


@pytest.mark.parametrize("provider", ["opencode", "pi", "copilot"])
async def test_an_unknown_session_is_rejected_and_its_id_not_kept(tmp_path, provider):
    _, result = await play(provider, "resume-bogus", tmp_path)
    assert (result.status, result.resume_rejected, result.session_id) == (RunStatus.FAILED, True, "")


async def test_openclaw_s_unknown_session_is_known_by_its_empty_history(tmp_path):
    _, result = await play("openclaw", "resume-bogus", tmp_path)
    assert (result.status, result.resume_rejected) == (RunStatus.COMPLETED, True)
    assert result.session_id == "multica-never-seen"


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_run_that_somebody_killed_completes_nothing(tmp_path, provider):
    recording = Recording.load(RECORDINGS / provider / "sigterm-tool-group")
    how = {"die_after": len(recording.lines) - 1, "killed": True} if recording.lines else {}
    _, result = await play(provider, "sigterm-tool-group", tmp_path, **how)
    assert result.status in (RunStatus.FAILED, RunStatus.ABORTED)  # copilot has the time to say so itself
    assert result.failure_reason is FailureReason.PROCESS


# ── made up from the fact sheets and from reports ────────────────────────────


def cli(folder: Path, name: str, body: str) -> Path:
    path = folder / name
    version = "2026.9.6" if name == "openclaw" else "1.0.14"
    head = f"#!{sys.executable} -IS\nimport json, os, sys, time\nargs = sys.argv[1:]\n"
    head += f'if args == ["--version"]: print("{version}"); sys.exit(0)\n'
    path.write_text(head + "def say(**event): print(json.dumps(event), flush=True)\n" + dedent(body))
    path.chmod(0o755)
    return path


STEP = """
    def step(text, reason):
        say(type="step_start", sessionID="s", part={})
        say(type="text", sessionID="s", part={"text": text})
        say(type="step_finish", sessionID="s", part={"reason": reason, "tokens": {"input": 3, "output": 1}})
"""
TOOL = """
    say(type="step_start", sessionID="s", part={})
    state = {"status": "completed", "input": {"command": "ls"}, "output": "a"}
    say(type="tool_use", sessionID="s", part={"tool": "bash", "callID": "c", "state": state})
"""


async def test_opencode_that_never_exits_is_finished_in_its_grace(tmp_path):
    """B042 (b)"""
    fake = cli(tmp_path, "opencode", f"{STEP}\n    sys.stdin.read()\n    step('Done.', 'stop')\n    time.sleep(600)\n")
    _, result = await run("opencode", fake, tmp_path, "hello")
    assert (result.status, result.output) == (RunStatus.COMPLETED, "Done.")
    assert result.duration_ms < 15_000


@pytest.mark.parametrize("provider", ["opencode", "deveco"])
async def test_a_cli_that_waits_for_an_approval_is_stopped_with_a_reason_that_says_so(tmp_path, provider):
    """B021"""
    fake = cli(tmp_path, provider, f"{TOOL}\n    time.sleep(600)\n")
    _, result = await run(provider, fake, tmp_path, "hello", idle_watchdog_timeout=1.0)
    assert (result.status, result.failure_reason) == (RunStatus.TIMEOUT, FailureReason.IDLE_WATCHDOG)
    assert result.failure.watchdog is Watchdog.IDLE
    assert "approval" in result.error


async def test_a_prompt_larger_than_an_argument_reaches_opencode(tmp_path):
    fake = cli(tmp_path, "opencode", f"{STEP}\n    step(str(len(sys.stdin.read())), 'stop')\n")
    _, result = await run("opencode", fake, tmp_path, "x" * 300_000)
    assert result.output == "300000"


async def test_opencode_s_configuration_reaches_it_in_its_environment(tmp_path):
    body = f"{STEP}\n    step(os.environ['OPENCODE_CONFIG_CONTENT'] + os.environ['PWD'], 'stop')\n"
    _, result = await run("opencode", cli(tmp_path, "opencode", body), tmp_path, "hello")
    assert result.output.endswith(str(tmp_path))
    assert json.loads(result.output.removesuffix(str(tmp_path)))["permission"]["question"] == "deny"


async def test_deveco_answers_as_its_sheet_says(tmp_path):
    """Built from the fact sheet: prompt last, stdin at its end, opencode's events."""
    body = f"{STEP}\n    assert sys.stdin.read() == ''\n    step(args[0] + ' ' + args[-1], 'stop')\n"
    _, result = await run("deveco", cli(tmp_path, "deveco", body), tmp_path, "first\nsecond")
    assert (result.status, result.output, result.session_id) == (RunStatus.COMPLETED, "run first\nsecond", "s")
    assert result.usage == {"unknown": TokenUsage(3, 1)}


AGY = """
    log = args[args.index("--log-file") + 1]
    id = "11111111-2222-3333-4444-555555555555"
    def note(text):
        with open(log, "a") as file: file.write(text + "\\n")
    sys.stdin.read()
    note("I CLI app data directory: " + os.environ["HOME"] + "/data")
    note("I Print mode: conversation=" + id + ", sending message")
"""


async def test_antigravity_answers_as_its_sheet_says(tmp_path):
    """Built from the fact sheet: text on stdout, the session id in the log; the log is gone afterwards."""
    body = f"{AGY}\n    print('The log is')\n    print(log)\n"
    _, result = await run("antigravity", cli(tmp_path, "agy", body), tmp_path, "hello")
    assert (result.status, result.session_id) == (RunStatus.COMPLETED, "11111111-2222-3333-4444-555555555555")
    assert not Path(result.output.splitlines()[1]).exists()
    assert result.usage == {}


async def test_antigravity_s_unprinted_answer_is_found_in_its_transcript(tmp_path):
    body = f"""{AGY}
    folder = os.environ["HOME"] + "/data/brain/" + id + "/.system_generated/logs"
    os.makedirs(folder)
    with open(folder + "/transcript.jsonl", "w") as file:
        record = {{"type": "PLANNER_RESPONSE", "source": "MODEL", "status": "DONE", "content": "Found."}}
        file.write(json.dumps(record) + "\\n")
    """
    messages, result = await run("antigravity", cli(tmp_path, "agy", body), tmp_path, "hello")
    assert (result.status, result.output) == (RunStatus.COMPLETED, "Found.")
    assert [m.content for m in messages if m.type is MessageType.TEXT] == ["Found.\n"]


@pytest.mark.parametrize("body", ["", "print('on the wrong pipe', file=sys.stderr)"])
async def test_antigravity_that_prints_nothing_fails_with_its_version(tmp_path, body):
    """B022"""
    _, result = await run("antigravity", cli(tmp_path, "agy", body + "\n"), tmp_path, "hello")
    assert (result.status, result.failure_reason) == (RunStatus.FAILED, FailureReason.EMPTY_OUTPUT)
    assert "1.0.14" in result.error


@pytest.mark.parametrize("provider", ["deveco", "copilot", "openclaw", "antigravity"])
async def test_a_cli_that_reads_its_input_to_the_end_first_does_not_hang(tmp_path, provider):
    """B011"""
    name = registry.adapter_class(provider).capabilities.executable
    _, result = await run(provider, cli(tmp_path, name, "    sys.stdin.read()\n    sys.exit(3)\n"), tmp_path, "hello")
    assert (result.status, result.exit_code) == (RunStatus.FAILED, 3)


async def test_openclaw_s_files_hold_secrets_privately_and_are_gone_afterwards(tmp_path):
    body = """
    import stat
    paths = [os.environ["OPENCLAW_CONFIG_PATH"], args[args.index("--message-file") + 1]]
    said = [oct(stat.S_IMODE(os.stat(p).st_mode)) + " " + p + " " + open(p).read() for p in paths]
    print(json.dumps({"payloads": [{"text": "\\n".join(said)}], "meta": {"durationMs": 1}}))
    """
    (tmp_path / ".openclaw").mkdir()
    (tmp_path / ".openclaw" / "openclaw.json").write_text("{}")
    config = {"mcpServers": {"a": {"command": "x", "env": {"TOKEN": "canary"}}}}
    fake = cli(tmp_path, "openclaw", body)
    _, result = await run("openclaw", fake, tmp_path, "hello there", mcp_config=config)
    settings, message = result.output.splitlines()
    assert settings.startswith("0o600 ")
    assert "canary" in settings
    assert message.startswith("0o600 ")
    assert message.endswith("hello there")
    assert not any(Path(line.split()[1]).exists() for line in (settings, message))
