"""Built from the fact sheet: nobody has recorded this CLI here."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callboard_adapters.antigravity import AntigravityAdapter
from callboard_adapters.base import SessionId
from callboard_adapters.dialects.transcript import LogFacts, answers
from callboard_adapters.errors import LaunchRefused
from callboard_adapters.messages import MessageType, RunStatus
from callboard_adapters.options import ExecOptions
from callboard_wire.failures import FailureReason
from tests.unit.adapters.speaking import Speaking

ONE, OTHER = "11111111-2222-3333-4444-555555555555", "99999999-2222-3333-4444-555555555555"
LOG = "/tmp/scratch/agy.log"
STARTED = f"I0101 10:00:00 printmode.go:1] Print mode: conversation={ONE}, sending message\n"
FOLDER = "I0101 10:00:00 main.go:9] CLI app data directory: /data/agy\n"
TRANSCRIPT = f"/data/agy/brain/{ONE}/.system_generated/logs/transcript.jsonl"


def agy(log: str = STARTED, *, files: dict[str, bytes] | None = None, **more: Any) -> Speaking:
    return Speaking(AntigravityAdapter, files={LOG: log.encode(), **(files or {})}, version="1.0.14", **more)


def said(*contents: str) -> bytes:
    records = [{"type": "USER_INPUT", "content": "q"}]
    records += [{"type": "PLANNER_RESPONSE", "source": "MODEL", "status": "DONE", "content": c} for c in contents]
    return b"\n".join(json.dumps(r).encode() for r in records)


def test_the_lines_of_stdout_are_the_answer_with_their_blank_lines():
    run = agy().line(b"Hello", b"", b"  world\r")
    outcome = run.finish(0)
    assert (outcome.status, outcome.output, outcome.session_id) == (RunStatus.COMPLETED, "Hello\n\n  world", ONE)
    assert run.text() == "Hello\n\n  world\n"
    assert outcome.usage == {}


@pytest.mark.parametrize("stderr", ["", "the answer, on the wrong pipe"])
def test_exit_0_without_a_byte_is_a_failure_that_names_the_version(stderr):
    """B022"""
    outcome = agy("").finish(0, stderr=stderr)
    assert (outcome.status, outcome.failure.reason) == (RunStatus.FAILED, FailureReason.EMPTY_OUTPUT)
    assert "1.0.14" in outcome.error
    assert stderr in outcome.error


def test_an_answer_that_was_not_printed_is_read_from_the_transcript():
    run = agy(FOLDER + STARTED, files={TRANSCRIPT: said("One.", "Two.")})
    outcome = run.finish(0)
    assert (outcome.status, outcome.output) == (RunStatus.COMPLETED, "One.\n\nTwo.")
    assert run.text() == "One.\nTwo.\n"


def test_only_what_came_after_the_last_input_is_the_answer():
    other = {"type": "PLANNER_RESPONSE", "source": "MODEL", "status": "RUNNING", "content": "half"}
    whole = said("old") + b"\n{broken\n" + said("new") + b"\n" + json.dumps(other).encode()
    assert answers(whole) == ["new"]


def test_a_provider_error_in_the_log_fails_a_run_that_exits_0():
    log = STARTED + "E0101 10:00:01 x.go:1] agent executor error: 429 quota exceeded\n"
    outcome = agy(log).line(b"partial").finish(0)
    assert (outcome.status, outcome.error) == (RunStatus.FAILED, "429 quota exceeded")
    assert outcome.failure.reason is FailureReason.QUOTA


def test_its_own_timeout_is_a_timeout_although_it_exits_0():
    outcome = agy(STARTED + "E0101 printmode.go:2] Print mode: timed out after 99 polls (printed=0)\n").finish(0)
    assert (outcome.status, outcome.failure.reason) == (RunStatus.TIMEOUT, FailureReason.TIMEOUT)


def test_a_failing_exit_is_a_failure_with_its_stderr():
    outcome = agy().finish(1, stderr="please run /login")
    assert (outcome.status, outcome.failure.reason) == (RunStatus.FAILED, FailureReason.AUTH)
    assert agy().finish(signal=15).failure.reason is FailureReason.PROCESS


def test_another_conversation_than_the_one_asked_for_means_it_is_gone():
    options = ExecOptions(cwd="/work-dir", resume_session_id=OTHER)
    outcome = agy(options=options).line(b"hi").finish(0)
    assert (outcome.resume_rejected, outcome.session_id) == (True, ONE)
    same = agy(options=ExecOptions(cwd="/work-dir", resume_session_id=ONE)).line(b"hi").finish(0)
    assert (same.resume_rejected, same.session_id) == (False, ONE)


def test_the_log_is_looked_into_for_the_session_id_while_it_runs():
    run = agy()
    run.adapter.receive(b"Hello")
    run.tick("log")
    assert [o.value for o in run.outputs if isinstance(o, SessionId)] == [ONE]


def test_log_facts_of_nothing_are_nothing():
    assert LogFacts.read(b"") == LogFacts()
    assert LogFacts.read(b"\xff\xfe conversation=nonsense") == LogFacts()


# ── the launch ───────────────────────────────────────────────────────────────


def test_an_unknown_model_is_refused_before_the_launch():
    commands = {"models": (0, "gemini-9\tGemini 9\ngemini-9-flash\tFlash\n")}
    options = ExecOptions(cwd="/work-dir", model="gemini-8")
    with pytest.raises(LaunchRefused) as refused:
        agy(options=options, commands=commands)
    assert refused.value.failure_reason is FailureReason.MODEL
    assert "--model" in agy(options=options, commands={"models": (0, "")}).launch.args  # an empty list proves nothing
    assert "--model" in agy(options=options, commands={"models": (1, "gemini-9\n")}).launch.args


@pytest.mark.parametrize(("timeout", "given"), [(None, "1440m0s"), (0, "1440m0s"), (0.5, "1m1s"), (1200.0, "21m0s")])
def test_the_five_minute_limit_is_always_overridden(timeout, given):
    args = list(agy(options=ExecOptions(cwd="/work-dir", timeout=timeout)).launch.args)
    assert args[args.index("--print-timeout") + 1] == given


@pytest.mark.parametrize(
    "custom",
    [
        ["-p", "x", "--print=x", "-print", "x", "--prompt", "x"],
        ["--conversation", "x", "-conversation=x", "-c", "--continue"],
        ["-i", "--prompt-interactive", "--dangerously-skip-permissions"],
        ["--model", "x", "--log-file=/x", "--settings", "y", "--print-timeout", "1s"],
    ],
)
def test_flags_the_protocol_depends_on_never_reach_the_cli(custom):
    plain = list(agy().launch.args)
    run = agy(options=ExecOptions(cwd="/work-dir", custom_args=[*custom, "--verbose"]))
    assert list(run.launch.args) == [*plain, "--verbose"]


def test_what_it_cannot_do_is_told():
    options = ExecOptions(cwd="/work-dir", max_turns=3, thinking_level="high", mcp_config={"mcpServers": {"a": {}}})
    warnings = [m for m in agy(options=options).launch.notices if m.type is MessageType.LOG]
    assert len(warnings) == 3
