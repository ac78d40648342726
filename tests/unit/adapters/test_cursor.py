"""Events as the fact sheet and the published format have them: this CLI cannot be run here."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest

from callboard_adapters import cursor_mcp
from callboard_adapters.base import Alive, SessionId
from callboard_adapters.cursor import CursorAdapter
from callboard_adapters.errors import LaunchRefused
from callboard_adapters.messages import MessageType, RunStatus, TokenUsage
from callboard_adapters.options import ExecOptions
from callboard_wire.failures import FailureReason
from tests.unit.adapters.speaking import Speaking

INIT = {"type": "system", "subtype": "init", "session_id": "q1", "model": "Auto"}
SERVERS = {"mcpServers": {"web": {"url": "https://x/mcp", "headers": {"A": "b"}}, "fs": {"command": "fs", "args": []}}}


def said(text: str) -> dict[str, Any]:
    return {"type": "assistant", "session_id": "q1", "message": {"content": [{"type": "text", "text": text}]}}


def call(subtype: str | None, name: str = "shell", result: Any = None, call_id: str = "c1\nfc_9") -> dict[str, Any]:
    body = {"args": {"command": "ls"}} | ({} if result is None else {"result": result})
    event = {"type": "tool_call", "call_id": call_id, "session_id": "q1", "tool_call": {f"{name}ToolCall": body}}
    return event if subtype is None else {**event, "subtype": subtype}


def result(text: str = "", **more: Any) -> dict[str, Any]:
    return {"type": "result", "subtype": "success", "is_error": False, "result": text, "session_id": "q1", **more}


def speaking(**how: Any) -> Speaking:
    files, env = how.pop("files", None), how.pop("env", None)
    return Speaking(CursorAdapter, options=ExecOptions(cwd="/work-dir", **how), files=files, env=env)


# ── the answer and the end ───────────────────────────────────────────────────


def test_the_answer_is_what_was_said_after_the_last_tool_call():
    run = speaking().event(INIT, said("I will look."), call("started"), call("completed", result={"success": {}}))
    run.event(said("All "), said("good."), result("I will look.All good."))
    assert run.turn_ended
    assert run.text() == "I will look.All good."
    assert run.finish().output == "All good."


def test_an_answer_that_only_the_result_holds_is_told():
    run = speaking().event(INIT, result("done"))
    assert run.text() == "done"
    assert run.finish().output == "done"


def test_a_success_that_is_an_error_fails_with_its_text_and_tells_no_answer():
    run = speaking().event(INIT, result("You've hit your usage limit", is_error=True))
    outcome = run.finish(0)
    assert (outcome.status, outcome.output, run.text()) == (RunStatus.FAILED, "", "")
    assert outcome.failure.reason is FailureReason.QUOTA


@pytest.mark.parametrize(
    "event",
    [
        {"type": "error", "error": "not logged in", "detail": "please run /login"},
        {"type": "system", "subtype": "error", "detail": "not logged in"},
        {"type": "error", "error": {"message": "not logged in"}},
    ],
)
def test_an_error_event_is_the_error_of_a_run_without_a_result(event):
    outcome = speaking().event(INIT, event).finish(1)
    assert (outcome.status, outcome.failure.reason) == (RunStatus.FAILED, FailureReason.AUTH)
    assert "last event" in outcome.error


def test_a_silent_exit_is_a_failure():
    outcome = speaking().finish(0)
    assert (outcome.status, outcome.failure.reason) == (RunStatus.FAILED, FailureReason.PROCESS)


def test_another_session_than_the_requested_one_says_that_it_is_gone():
    run = speaking(resume_session_id="q0").event(INIT, result("x"))
    outcome = run.finish()
    assert (outcome.resume_rejected, outcome.session_id) == (True, "q1")
    assert not speaking(resume_session_id="q1").event(INIT, result("x")).finish().resume_rejected


def test_the_session_is_known_from_the_first_event_that_has_it():
    run = speaking().event({"type": "user", "session_id": "q1", "message": {}}, INIT)
    assert [o.value for o in run.outputs if isinstance(o, SessionId)] == ["q1"]


# ── tools ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("subtype", ["progress", "updated", None])
def test_only_completed_ends_a_tool_call(subtype):
    """B051: a result made of anything else leaves the tool's wide clock while the tool still runs."""
    run = speaking().event(INIT, call("started"), call(subtype))
    assert not run.of(MessageType.TOOL_RESULT)
    assert run.of(MessageType.LOG)
    run.event(call("completed", result={"success": {"exitCode": 0}}))
    (ended,) = run.of(MessageType.TOOL_RESULT)
    assert (ended.call_id, ended.tool, ended.status) == ("c1", "shell", "completed")


@pytest.mark.parametrize(
    ("value", "status"),
    [
        ({"success": {"stdout": "a"}}, "completed"),
        ({"success": {"exitCode": 3}}, "failed"),
        ({"error": {"errorMessage": "no"}}, "failed"),
        ({"rejected": {"reason": "no"}}, "failed"),
        ("a", "completed"),
    ],
)
def test_a_tools_result_says_how_it_went(value, status):
    run = speaking().event(INIT, call("started"), call("completed", result=value))
    (ended,) = run.of(MessageType.TOOL_RESULT)
    assert ended.status == status
    assert ended.output == (value if isinstance(value, str) else json.dumps(value))


def test_a_call_whose_start_was_missed_is_told_whole():
    run = speaking().event(INIT, call("completed", result={"success": {}}))
    assert [m.call_id for m in run.messages if m.type in (MessageType.TOOL_USE, MessageType.TOOL_RESULT)] == ["c1"] * 2


def test_a_tool_of_another_kind_keeps_its_name_and_arguments():
    tool = {"function": {"name": "mcp_fs_read", "arguments": '{"path": "a"}'}}
    run = speaking().event(INIT, {"type": "tool_call", "subtype": "started", "call_id": "c", "tool_call": tool})
    (use,) = run.of(MessageType.TOOL_USE)
    assert (use.tool, use.input) == ("mcp_fs_read", {"path": "a"})


def test_the_stream_of_older_versions_is_read_too():
    run = speaking().event(
        {"type": "tool_use", "tool_name": "read", "tool_id": "x1", "parameters": {"path": "a"}},
        {"type": "tool_result", "tool_id": "x1", "output": "a"},
        {"type": "text", "part": {"text": "hi"}},
        {"type": "step_finish", "model": "m", "part": {"tokens": {"input": 3, "output": 1, "cache": {"read": 2}}}},
        result("hi"),
    )
    assert [m.type.value for m in run.messages] == ["tool-use", "tool-result", "text"]
    outcome = run.finish()
    assert (outcome.output, outcome.usage) == ("hi", {"m": TokenUsage(3, 1, 2)})


# ── thoughts, noise, the unknown ─────────────────────────────────────────────


def test_thoughts_of_two_blocks_do_not_run_into_each_other():
    delta, completed = {"type": "thinking", "subtype": "delta"}, {"type": "thinking", "subtype": "completed"}
    run = speaking().event(INIT, {**delta, "text": "a"}, {**delta, "text": "b"}, completed, {**delta, "text": "c"})
    assert run.text(MessageType.THINKING) == "ab\n\nc"


def test_a_line_that_names_its_pipe_is_read():
    run = speaking().line(b"stdout: " + json.dumps(said("a")).encode(), b"STDERR=" + json.dumps(said("b")).encode())
    assert run.text() == "ab"
    assert run.adapter.noise() == (0, 0)


def test_an_unknown_event_is_shown_once_as_a_warning_and_kept():
    run = speaking().event({"type": "hologram", "n": 1}, {"type": "hologram", "n": 2}, {"type": "tool_call"})
    assert [m.level for m in run.of(MessageType.LOG)] == ["warn", "debug", "warn"]


def test_known_silent_events_are_a_sign_of_life():
    run = speaking().event({"type": "connection"})
    assert any(isinstance(o, Alive) for o in run.outputs)
    assert not run.messages


# ── usage ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "body",
    [
        {"usage": {"inputTokens": 5, "outputTokens": 2, "cacheReadTokens": 1, "cacheWriteTokens": 4}},
        {"inputTokens": 5, "outputTokens": 2, "cacheReadTokens": 1, "cacheWriteTokens": 4},
        {
            "usage": {
                "input_tokens": 5,
                "output_tokens": 2,
                "cached_input_tokens": 1,
                "cache_creation_input_tokens": 4,
            }
        },
        {
            "inputTokens": 0,
            "usage": {"inputTokens": 5, "outputTokens": 2, "cachedInputTokens": 1, "cacheWriteTokens": 4},
        },
    ],
)
def test_usage_is_read_under_any_of_its_names(body):
    assert speaking().event(INIT, result("x", **body)).finish().usage == {"Auto": TokenUsage(5, 2, 1, 4)}


def test_no_usage_is_unknown_and_not_zero():
    assert speaking().event(INIT, result("x", usage={})).finish().usage == {}


# ── the command line and managed servers ─────────────────────────────────────


def test_the_command_line_carries_no_prompt():
    launch = speaking(model="gpt-5", resume_session_id="q1", custom_args=["--force", "--sandbox", "off"]).launch
    assert launch.stdin == b"hello"
    assert " ".join(launch.args) == (
        "-p --output-format stream-json --yolo --workspace /work-dir --model gpt-5 --resume q1 --sandbox off"
    )
    assert not launch.files


def test_managed_servers_are_written_into_the_project_and_approved_for_this_run_alone():
    made = speaking(
        mcp_config=SERVERS, files={"/work-dir/.git/HEAD": b"ref"}, env={"CALLBOARD_ENV_ROOT": "/env"}
    ).launch
    files = {f.path: f for f in made.files}
    assert {f.mode for f in made.files} == {0o600}
    assert {f.after for f in made.files} == {"remove"}
    assert json.loads(files["/work-dir/.cursor/mcp.json"].content) == SERVERS
    approved = json.loads(files["/env/cursor-data/projects/work-dir/mcp-approvals.json"].content)
    text = '{"path":"/work-dir","server":{"url":"https://x/mcp","headers":{"A":"b"}}}'
    assert approved[0] == f"web-{sha256(text.encode()).hexdigest()[:16]}"
    assert approved[1].startswith("fs-")
    trusted = json.loads(files["/env/cursor-data/projects/work-dir/.workspace-trusted"].content)
    assert trusted["workspacePath"] == "/work-dir"
    assert made.env == {"CURSOR_DATA_DIR": "/env/cursor-data"}


def test_a_projects_own_servers_are_not_overwritten():
    with pytest.raises(LaunchRefused, match="exists"):
        speaking(mcp_config={}, files={"/work-dir/.cursor/mcp.json": b"{}"})


def test_what_a_killed_run_left_behind_is_no_obstacle():
    (left,) = [f for f in speaking(mcp_config=SERVERS).launch.files if f.path.endswith("/.cursor/mcp.json")]
    assert speaking(mcp_config=SERVERS, files={left.path: left.content}).launch.files


def test_the_nearest_repository_is_the_project():
    marks = cursor_mcp.git_marks("/a/b/c")
    assert marks[:2] == ["/a/b/c/.git/HEAD", "/a/b/c/.git"]
    assert cursor_mcp.project_root("/a/b/c", ["/a/.git/HEAD", "/a/b/.git"]) == "/a/b"
    assert cursor_mcp.project_root("/a/b/c", []) == "/a/b/c"


def test_the_users_tokens_are_linked_and_never_copied():
    env = {"CURSOR_MCP_AUTH_SOURCE": "/home/me/.cursor"}
    (link,) = speaking(mcp_config=SERVERS, env=env).launch.links
    assert link.target == "/home/me/.cursor/mcp-auth.json"
    with pytest.raises(LaunchRefused, match="absolute"):
        speaking(mcp_config=SERVERS, env={"CURSOR_MCP_AUTH_SOURCE": "tokens"})
