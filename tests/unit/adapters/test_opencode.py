from __future__ import annotations

import json
import re
from typing import Any

import pytest

from callboard_adapters.base import SessionId, StopCause, TurnEnded
from callboard_adapters.deveco import DevecoAdapter
from callboard_adapters.errors import LaunchRefused
from callboard_adapters.messages import MessageType, RunStatus, TokenUsage
from callboard_adapters.opencode import OpencodeAdapter
from callboard_adapters.options import ExecOptions
from callboard_wire.failures import FailureReason
from tests.unit.adapters.speaking import Speaking

BOTH = pytest.mark.parametrize("adapter", [OpencodeAdapter, DevecoAdapter])
START = {"type": "step_start", "sessionID": "ses_1", "part": {"type": "step-start"}}
TOKENS = {"input": 10, "output": 4, "reasoning": 2, "cache": {"read": 3, "write": 1}}
CONFIG = "OPENCODE_CONFIG_CONTENT"


def text(said: str, **part: Any) -> dict[str, Any]:
    return {"type": "text", "sessionID": "ses_1", "part": {"type": "text", "text": said, **part}}


def tool(status: str = "completed", call: str = "c1", **more: Any) -> dict[str, Any]:
    state = {"status": status, "input": {"command": "ls"}, "output": "a.txt", **more.pop("state", {})}
    return {"type": "tool_use", "sessionID": "ses_1", "part": {"tool": "bash", "callID": call, "state": state, **more}}


def done(reason: str | None = "stop", tokens: dict[str, Any] | None = None, **part: Any) -> dict[str, Any]:
    body = {"type": "step-finish", "tokens": TOKENS if tokens is None else tokens, **part}
    if reason is not None:
        body["reason"] = reason
    return {"type": "step_finish", "sessionID": "ses_1", "part": body}


def error(name: str = "UnknownError", message: str = "m", **data: Any) -> dict[str, Any]:
    return {"type": "error", "sessionID": "ses_1", "error": {"name": name, "data": {"message": message, **data}}}


# ── what ends a run ──────────────────────────────────────────────────────────


@BOTH
def test_a_single_error_object_fails_the_run_with_its_message(adapter):
    """B042 (a)"""
    outcome = Speaking(adapter).event({"type": "error", "error": {"name": "UnknownError", "data": {"message": "m"}}})
    assert outcome.of(MessageType.ERROR)[0].content == "m"
    ended = outcome.finish(1)
    assert (ended.status, ended.error, ended.output) == (RunStatus.FAILED, "m", "")


@BOTH
def test_a_step_that_calls_tools_does_not_end_the_run_and_a_stop_does(adapter):
    """B042 (b)"""
    run = Speaking(adapter).event(START, text("I look."), tool(), done("tool-calls"))
    assert not run.turn_ended
    run.event(START, text("There is one file."), done("stop"))
    assert run.turn_ended
    outcome = run.finish(0)
    assert (outcome.status, outcome.output) == (RunStatus.COMPLETED, "There is one file.")


@BOTH
@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([START, text("Hel")], "in the middle of a step"),
        ([START, tool(), done("tool-calls")], "must go on"),
        ([START, tool(), done("stop")], "must go on"),  # some providers say stop after a tool call
        ([START, done("stop", {"input": 0, "output": 0})], "holds nothing"),
        ([START, text("x"), done("error")], "failed"),
    ],
)
def test_a_stream_that_breaks_off_is_a_network_failure_although_the_cli_exits_0(adapter, events, why):
    outcome = Speaking(adapter).event(*events).finish(0)
    assert (outcome.status, outcome.failure.reason) == (RunStatus.FAILED, FailureReason.NETWORK)
    assert "opencode stream ended" in outcome.error
    assert why in outcome.error


def test_a_tool_the_provider_ran_itself_needs_no_further_step():
    run = Speaking(OpencodeAdapter).event(
        START, tool(metadata={"providerExecuted": True}), text("Found it."), done("stop")
    )
    assert (run.finish().status, run.finish().output) == (RunStatus.COMPLETED, "Found it.")


@pytest.mark.parametrize("reason", [None, "unknown"])
def test_a_step_without_a_known_reason_ends_the_run_only_with_the_process(reason):
    run = Speaking(OpencodeAdapter).event(START, text("x"), done(reason))
    assert not run.turn_ended
    assert run.finish(0).status is RunStatus.COMPLETED


@BOTH
def test_no_event_at_all_is_an_empty_output_and_no_success(adapter):
    outcome = Speaking(adapter).finish(0)
    assert (outcome.status, outcome.failure.reason) == (RunStatus.FAILED, FailureReason.EMPTY_OUTPUT)


def test_a_good_answer_after_an_error_completes_the_run_although_the_cli_exits_1():
    """A full context window: the error is reported, compacted away and answered."""
    run = Speaking(OpencodeAdapter).event(
        error("ContextOverflowError", "prompt is too long"),
        START,
        text("Summary of it all."),
        done("stop"),
        text("Continue if you have next steps", synthetic=True, metadata={"compaction_continue": True}),
    )
    assert not run.turn_ended
    outcome = run.event(START, text("Answer."), done("stop")).finish(1)
    assert (outcome.status, outcome.output) == (RunStatus.COMPLETED, "Answer.")
    assert "Continue" not in run.text()


def test_an_error_after_the_last_step_fails_the_run():
    outcome = Speaking(OpencodeAdapter).event(START, text("x"), done("stop"), error(message="it broke")).finish(1)
    assert (outcome.status, outcome.error) == (RunStatus.FAILED, "it broke")


def test_a_signal_in_the_middle_of_a_step_is_a_process_failure():
    assert Speaking(OpencodeAdapter).event(START).finish(signal=15).failure.reason is FailureReason.PROCESS


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (error("APIError", "no", statusCode=401), FailureReason.AUTH),
        (error("APIError", "no", statusCode=503), FailureReason.SERVER_ERROR),
        (error("APIError", "wait", statusCode=429, responseHeaders={"retry-after": "7"}), FailureReason.RATE_LIMIT),
        (
            error("APIError", "x", statusCode=429, responseBody='{"error": {"code": "insufficient_quota"}}'),
            FailureReason.QUOTA,
        ),
        (error("APIError", "Unable to connect. Is the computer able to access the url?"), FailureReason.NETWORK),
        (error("ContextOverflowError", "too much"), FailureReason.CONTEXT_OVERFLOW),
        (error("ProviderAuthError", "key missing"), FailureReason.AUTH),
        (error("ProviderModelNotFoundError", "a/b"), FailureReason.MODEL),
        (error("APIError", "x", responseBody="{not json", responseHeaders=[1]), FailureReason.UNKNOWN),
    ],
)
def test_the_provider_s_own_status_and_code_decide_the_reason(event, reason):
    failure = Speaking(OpencodeAdapter).event(event).finish(1).failure
    assert failure.reason is reason
    assert failure.retry_after_s == (7.0 if "wait" in failure.detail else None)


# ── sessions ─────────────────────────────────────────────────────────────────


@BOTH
@pytest.mark.parametrize("code", [0, 1])
def test_a_missing_session_is_rejected_whatever_the_exit_code(adapter, code):
    """B041: exit 0, nothing on stdout, the error on stderr only."""
    run = Speaking(adapter, options=ExecOptions(cwd="/work-dir", resume_session_id="ses_gone"))
    run.stderr("\x1b[91m\x1b[1mError: \x1b[0mSession not found")
    outcome = run.finish(code, stderr="[91m[1mError: [0mSession not found")
    assert (outcome.status, outcome.resume_rejected, outcome.session_id) == (RunStatus.FAILED, True, "")
    assert "Session not found" in outcome.error


@pytest.mark.parametrize(
    "said", ["ProviderModelNotFoundError: a/b", "Error: 401 unauthorized", "Error: Session is busy"]
)
def test_what_says_nothing_about_the_session_does_not_reject_it(said):
    run = Speaking(OpencodeAdapter, options=ExecOptions(cwd="/work-dir", resume_session_id="ses_1")).stderr(said)
    assert not run.finish(1, stderr=said).resume_rejected


def test_the_session_id_is_told_with_the_first_event():
    run = Speaking(OpencodeAdapter).event(START)
    assert [o.value for o in run.outputs if isinstance(o, SessionId)] == ["ses_1"]


# ── what is said ─────────────────────────────────────────────────────────────


def test_reasoning_is_part_of_the_output_tokens_and_a_price_is_ticks():
    run = Speaking(OpencodeAdapter, options=ExecOptions(cwd="/work-dir", model="p/m"))
    outcome = run.event(START, text("x"), done(cost=0.0125)).finish()
    assert outcome.usage == {"p/m": TokenUsage(10, 6, 3, 1, 125_000_000)}


def test_a_tool_is_announced_and_ended_as_one_pair_also_when_it_failed():
    run = Speaking(OpencodeAdapter).event(START, tool("running"), tool("error", state={"error": "boom"}))
    [use] = run.of(MessageType.TOOL_USE)
    [result] = run.of(MessageType.TOOL_RESULT)
    assert (use.call_id, use.input) == ("c1", {"command": "ls"})
    assert (result.call_id, result.output, result.status) == ("c1", "boom", "failed")


def test_an_event_nobody_knows_is_told_once_loudly_and_then_quietly():
    run = Speaking(OpencodeAdapter).event({"type": "news", "part": {}}, {"type": "news"}, {"type": "text", "part": 3})
    assert [m.level for m in run.of(MessageType.LOG)] == ["warn", "debug", "warn"]


def test_silence_after_a_tool_is_told_as_a_possible_wait_for_an_approval():
    """B021"""
    outcome = Speaking(OpencodeAdapter).event(START, tool()).finish(signal=15, cause=StopCause.WATCHDOG)
    assert "approval" in outcome.error
    assert outcome.failure.reason is FailureReason.IDLE_WATCHDOG


# ── the launch ───────────────────────────────────────────────────────────────


def content(run: Speaking, variable: str = CONFIG) -> dict[str, Any]:
    return json.loads(run.launch.env[variable])


def asks(value: Any) -> bool:
    return value == "ask" or (isinstance(value, dict) and any(map(asks, value.values())))


def test_the_prompt_goes_through_stdin_and_no_argument_holds_a_line_feed():
    run = Speaking(OpencodeAdapter, prompt="--first\nsecond")
    assert run.launch.stdin == b"--first\nsecond"
    assert not run.launch.keep_stdin
    assert not any("\n" in a for a in run.launch.args)


@BOTH
def test_the_run_s_configuration_asks_nobody_anything(adapter):
    """B021"""
    run = Speaking(adapter)
    rules = content(run, f"{adapter.product.upper()}_CONFIG_CONTENT")["permission"]
    assert not asks(rules)
    assert rules["question"] == "deny"
    assert "--dangerously-skip-permissions" in run.launch.args


def test_the_user_s_rules_keep_their_denials_and_lose_their_questions():
    user = {
        "permission": {"bash": {"rm *": "deny", "*": "ask"}, "edit": "ask", "question": "allow"},
        "agent": {"reviewer": {"permission": {"webfetch": "ask", "edit": "deny"}}, "plain": {"mode": "subagent"}},
    }
    run = Speaking(
        OpencodeAdapter,
        files={"/work-dir/opencode.json": json.dumps(user).encode()},
        commands={"debug config": (0, json.dumps(user, indent=1))},
    )
    said = content(run)
    assert not asks(said)
    assert said["permission"]["bash"] == {"rm *": "deny", "*": "allow"}
    assert (said["permission"]["edit"], said["permission"]["question"]) == ("allow", "deny")
    assert said["agent"] == {
        "reviewer": {
            "permission": {
                "webfetch": "allow",
                "edit": "deny",
                "question": "deny",
                "plan_enter": "deny",
                "plan_exit": "deny",
            }
        }
    }


def test_rules_in_the_environment_lose_their_questions_too():
    rules = '{"bash": {"rm *": "deny", "*": "ask"}, "question": "allow"}'
    said = json.loads(Speaking(OpencodeAdapter, env={"OPENCODE_PERMISSION": rules}).launch.env["OPENCODE_PERMISSION"])
    assert (said["bash"], said["question"]) == ({"rm *": "deny", "*": "allow"}, "deny")
    assert "OPENCODE_PERMISSION" not in Speaking(OpencodeAdapter, env={"OPENCODE_PERMISSION": "{no"}).launch.env


def test_rules_that_cannot_be_read_are_left_alone_and_told():
    run = Speaking(OpencodeAdapter, files={"/work-dir/opencode.jsonc": b'{"permission": "ask"}\n'})
    assert "permission" not in content(run)
    assert any("permissions" in m.content for m in run.launch.notices)


def test_the_user_s_inline_configuration_is_kept_under_ours():
    run = Speaking(OpencodeAdapter, env={CONFIG: '{"model": "a/b", "provider": {"x": {"y": 1}}}'})
    assert content(run)["model"] == "a/b"
    assert content(run)["provider"] == {"x": {"y": 1}}
    assert content(run)["permission"]["question"] == "deny"


MANAGED = {
    "mcpServers": {"ours": {"command": "srv", "args": ["-v"], "env": {"K": "v"}}, "far": {"url": "http://h/mcp"}}
}


def test_mcp_has_three_states():
    user = json.dumps({"mcp": {"theirs": {"type": "local", "command": ["x"]}}})
    commands = {"debug config": (0, user)}
    assert "mcp" not in content(Speaking(OpencodeAdapter, commands=commands))
    empty = Speaking(OpencodeAdapter, options=ExecOptions(cwd="/work-dir", mcp_config={}), commands=commands)
    assert content(empty)["mcp"] == {"theirs": {"enabled": False}}
    managed = Speaking(OpencodeAdapter, options=ExecOptions(cwd="/work-dir", mcp_config=MANAGED), commands=commands)
    assert content(managed)["mcp"] == {
        "theirs": {"enabled": False},
        "ours": {"type": "local", "command": ["srv", "-v"], "environment": {"K": "v"}},
        "far": {"type": "remote", "url": "http://h/mcp"},
    }
    assert not any("srv" in a for a in managed.launch.args)


@pytest.mark.parametrize(
    "servers",
    [
        {"a": {"args": ["x"]}},
        {"a": 3},
        {"a": {"type": "local", "command": []}},
        {"a": {"type": "remote", "url": ""}},
        {"a": {"type": "local", "command": ["x"], "unknown": 1}},
        {"a": {"type": "local", "command": ["x"], "timeout": -1}},
    ],
)
def test_an_mcp_server_that_cannot_start_is_refused_before_the_launch(servers):
    options = ExecOptions(cwd="/work-dir", mcp_config={"mcpServers": servers})
    with pytest.raises(LaunchRefused, match="MCP"):
        Speaking(OpencodeAdapter, options=options, commands={"debug config": (0, "{}")})


def test_a_managed_set_is_refused_when_the_user_s_servers_cannot_be_listed():
    with pytest.raises(LaunchRefused, match="could not be listed"):
        Speaking(OpencodeAdapter, options=ExecOptions(cwd="/work-dir", mcp_config={}))


@pytest.mark.parametrize(
    ("catalogue", "flag"),
    [
        ("PROVIDERS\nopenai/gpt-9\nacme/other\n", "openai/gpt-9"),
        ("openai/gpt-9\nacme/gpt-9\n", "gpt-9"),  # two have it: the CLI decides
        ("", "gpt-9"),
    ],
)
def test_a_bare_model_is_qualified_when_one_provider_has_it(catalogue, flag):
    options = ExecOptions(cwd="/work-dir", model="gpt-9")
    run = Speaking(OpencodeAdapter, options=options, commands={"models": (1, catalogue)})
    args = list(run.launch.args)
    assert args[args.index("--model") + 1] == flag


@pytest.mark.parametrize(
    ("custom", "kept"),
    [
        (["--format=default", "--agent", "build"], ["--agent", "build"]),
        (["--format", "default", "--title", "x"], ["--title", "x"]),
        (["-s", "ses_2", "--session=ses_3"], []),
        (["-sses_2"], []),
        (["-c", "--continue", "--fork"], []),
        (["--no-auto", "--no-dangerously-skip-permissions", "--dangerouslySkipPermissions=false"], []),
        (["-i", "--interactive", "--attach", "http://h"], []),
        (["'--dir=/tmp'", "--variant", "high"], []),
        (["-m", "a/b"], ["-m", "a/b"]),
    ],
)
def test_flags_the_protocol_depends_on_never_reach_the_cli(custom, kept):
    run = Speaking(OpencodeAdapter, options=ExecOptions(cwd="/work-dir", custom_args=custom))
    args = list(run.launch.args)
    assert args[args.index("--thinking") + 1 :] == kept
    assert bool(run.launch.notices) is (custom != kept)


def test_the_turn_end_leaves_room_to_exit():
    [end] = [o for o in Speaking(OpencodeAdapter).event(START, text("x"), done()).outputs if isinstance(o, TurnEnded)]
    assert end.grace >= 2


def test_deveco_s_prompt_is_the_last_argument_and_never_a_flag():
    run = Speaking(DevecoAdapter, prompt="--help", options=ExecOptions(cwd="/work-dir", custom_args=["--agent", "a"]))
    assert list(run.launch.args)[-4:] == ["--agent", "a", "--", "--help"]
    assert run.launch.stdin == b""


def test_deveco_says_that_it_takes_no_mcp_servers():
    run = Speaking(DevecoAdapter, options=ExecOptions(cwd="/work-dir", mcp_config=MANAGED))
    assert any("MCP" in m.content for m in run.launch.notices)


# ── what the CLI lost at its exit ────────────────────────────────────────────


class Database(dict):
    """Answers `db <query> --format json` from a text, in the pieces that are asked for."""

    def __init__(self, whole: str) -> None:
        super().__init__()
        self.whole, self.asked = whole, []

    def get(self, key: str, default: Any = None) -> Any:
        found = re.search(r"substr\(data, (\d+), (\d+)\)", key)
        if not found:
            return default
        self.asked.append(key)
        start, size = int(found[1]) - 1, int(found[2])
        return (0, json.dumps([{"piece": self.whole[start : start + size]}]))


def test_lines_that_were_lost_at_the_exit_are_read_from_its_database():
    answer = "big ü " * 60_000
    parts = [{"type": "text", "text": answer}, {"type": "step-finish", "reason": "stop", "tokens": TOKENS}]
    run = Speaking(OpencodeAdapter)
    run.commands = Database(json.dumps(parts, ensure_ascii=False))
    run.event({**START, "part": {"id": "prt_1", "type": "step-start"}}).line(b'{"type":"text","part":{"text":"big b')
    outcome = run.finish(0)
    assert (outcome.status, outcome.output, run.text()) == (RunStatus.COMPLETED, answer, answer)
    assert outcome.usage == {"unknown": TokenUsage(10, 6, 3, 1)}
    assert len(run.commands.asked) == 2
    assert "session_id = 'ses_1' and id > 'prt_1'" in run.commands.asked[0]


@pytest.mark.parametrize("answer", ["", "no such command", "[]", '[{"piece": "[{broken"}]', '[{"piece": 3}]'])
def test_a_database_that_does_not_answer_leaves_the_run_failed(answer):
    run = Speaking(OpencodeAdapter).event({**START, "part": {"id": "prt_1", "type": "step-start"}})
    run.commands = type("Silent", (dict,), {"get": lambda self, key, default=None: (0, answer)})()
    assert run.finish(0).failure.reason is FailureReason.NETWORK


@pytest.mark.parametrize("ids", [("ses_1' or 1=1", "prt_1"), ("ses_1", "x"), ("", "")])
def test_an_id_of_another_shape_never_becomes_part_of_a_query(ids):
    event = {"type": "step_start", "sessionID": ids[0], "part": {"id": ids[1], "type": "step-start"}}
    run = Speaking(OpencodeAdapter).event(event)
    run.finish(0)
    assert not [a for a in run.asked if getattr(a, "purpose", "") == "lost"]


def test_a_run_that_was_killed_or_failed_is_not_looked_up():
    for end in ({"signal": 9}, {"code": 1}):
        run = Speaking(OpencodeAdapter).event({**START, "part": {"id": "prt_1", "type": "step-start"}})
        run.finish(**end)
        assert not [a for a in run.asked if getattr(a, "purpose", "") == "lost"]
