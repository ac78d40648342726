from __future__ import annotations

import json
from typing import Any

import pytest

from callboard_adapters.base import SessionId
from callboard_adapters.errors import LaunchRefused
from callboard_adapters.messages import MessageType, RunStatus, TokenUsage
from callboard_adapters.openclaw import OpenclawAdapter
from callboard_adapters.options import ExecOptions, OpenclawGateway
from callboard_adapters.process.framing import LineFramer
from callboard_wire.failures import FailureReason
from tests.unit.adapters.speaking import Speaking

CONFIG = "/home/somebody/.openclaw/openclaw.json"
PLAIN = {CONFIG: b'{"models": {}}'}


def document(*texts: str, **meta: Any) -> dict[str, Any]:
    agent = {"sessionId": "s-1", "model": "m", "usage": {"input": 10, "output": 3, "cacheRead": 2}, "costUsd": 0.0125}
    agent |= meta.pop("agentMeta", {})
    payloads = [{"text": t, "mediaUrl": None} for t in texts]
    return {"payloads": payloads, "meta": {"durationMs": 1200, "agentMeta": agent, **meta}}


def lines(value: Any) -> list[bytes]:
    return json.dumps(value, indent=2).encode().split(b"\n")


def openclaw(resume: str | None = None, *, files: dict[str, bytes] | None = None, **more: Any) -> Speaking:
    options = more.pop("options", ExecOptions(cwd="/work-dir", resume_session_id=resume))
    more.setdefault("version", "2026.9.6")
    return Speaking(OpenclawAdapter, options=options, files=PLAIN if files is None else files, **more)


# ── one document among log lines ─────────────────────────────────────────────


def test_the_answer_is_the_payload_whatever_plugins_print_around_it():
    """B009"""
    run = openclaw().line(b"[plugins] loaded {a}", *lines(document("hello")), b"[state/db] pending")
    outcome = run.finish()
    assert (outcome.status, outcome.output, run.text()) == (RunStatus.COMPLETED, "hello", "hello")
    assert outcome.usage == {"m": TokenUsage(10, 3, 2, 0, 125_000_000)}
    assert run.turn_ended
    assert run.adapter.noise()[0] == 2


def test_a_document_on_stderr_counts_where_stdout_has_none():
    """B009: the channel moved from stderr to stdout between releases."""
    run = openclaw()
    for line in [b"[plugins] loaded {a}", *lines(document("hello")), b"[state/db] pending"]:
        run.stderr(line.decode())
    assert (run.finish().status, run.finish().output) == (RunStatus.COMPLETED, "hello")


def test_both_pipes_empty_is_no_output():
    """B009"""
    outcome = openclaw().finish(0)
    assert (outcome.status, outcome.failure.reason) == (RunStatus.FAILED, FailureReason.EMPTY_OUTPUT)


@pytest.mark.parametrize("noise", [b"[plugins] {a}", b"Warning: x", b'{"cut": ', b"", b"\xff\xfe", b'{"type":"x"}'])
@pytest.mark.parametrize("at", [0, 1, 5, 20])
def test_a_foreign_line_in_the_document_is_left_out(noise, at):
    said = lines(document("hello"))
    assert openclaw().line(*said[:at], noise, *said[at:]).finish().output == "hello"


@pytest.mark.parametrize("noise", [b"[plugins] {a}", b"  indented, and no JSON", b"", b"\xff\xfe\r"])
@pytest.mark.parametrize("read", [1, 7, 64, 1 << 16])
def test_reads_of_any_size_find_the_same_document(noise, read):
    data = b"\n".join([noise, *lines(document("hello")), noise, noise, b""])
    framer = LineFramer(indented=True)
    pieces = [p for at in range(0, len(data), read) for p in framer.feed(data[at : at + read])]
    run = openclaw().line(*pieces)
    assert (run.finish().output, run.text(), run.adapter.noise()[0]) == ("hello", "hello", 3 if noise.strip() else 0)


def test_a_document_on_one_line_is_one_too():
    assert openclaw().line(b"[log] x", json.dumps(document("hello")).encode()).finish().output == "hello"


@pytest.mark.parametrize("cut", [1, 10, 20])
def test_a_document_that_broke_off_is_never_the_answer(cut):
    """B009: the raw blob was stored as the answer."""
    outcome = openclaw().line(*lines(document("hello"))[:cut]).finish(0)
    assert (outcome.status, outcome.output) == (RunStatus.FAILED, "")
    assert outcome.failure.reason is FailureReason.EMPTY_OUTPUT


def test_plain_text_is_an_answer_only_when_nothing_in_it_looks_like_json():
    assert openclaw().line(b"[log] x", b"Hello", b"world").finish(0).output == "Hello\nworld"
    assert openclaw().line(b"Hello", b'"text": "x"').finish(0).status is RunStatus.FAILED
    assert openclaw().line(b"Hello").finish(1).status is RunStatus.FAILED


def test_several_payloads_are_paragraphs_unless_they_bring_their_own_space():
    assert openclaw().line(*lines(document("Hello ", "world"))).finish().output == "Hello world"
    assert openclaw().line(*lines(document("One.", "Two."))).finish().output == "One.\n\nTwo."


# ── what a document says about the end ───────────────────────────────────────


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("Inline API key for provider x is temporarily disabled after a provider auth/billing failure.", "AUTH"),
        ("No route-compatible authentication source is configured for openai.", "AUTH"),
        ("The provider returned a billing error", "QUOTA"),
        ("LLM request timed out.", "NETWORK"),
        ("HTTP 500: something broke", "SERVER_ERROR"),
        ("LLM request failed: provider rejected the request schema or tool payload.", "API_INVALID_REQUEST"),
        ('Unknown agent id "nothere". Use "openclaw agents list" to see configured agents.', "MODEL"),
        ("something else", "UNKNOWN"),
    ],
)
def test_ok_false_is_a_failure_with_its_reason_and_no_answer(message, reason):
    refusal = {"ok": False, "error": {"type": "cli_error", "message": message}}
    run = openclaw().line(*lines(refusal))
    outcome = run.finish(1)
    assert (outcome.status, outcome.error, outcome.output) == (RunStatus.FAILED, message, "")
    assert outcome.failure.reason is FailureReason[reason]
    assert run.text(MessageType.ERROR) == message
    assert outcome.usage == {}


def test_an_error_in_meta_fails_a_document_that_looks_whole():
    said = document(error={"kind": "context_overflow", "message": "too much"})
    said["payloads"] = [{"text": "Context overflow", "isError": True}]
    outcome = openclaw().line(*lines(said)).finish(0)
    assert (outcome.status, outcome.failure.reason) == (RunStatus.FAILED, FailureReason.CONTEXT_OVERFLOW)
    assert outcome.output == ""


def test_a_payload_that_is_an_error_is_no_answer():
    said = document()
    said["payloads"] = [{"text": "it broke", "isError": True}]
    outcome = openclaw().line(*lines(said)).finish(0)
    assert (outcome.status, outcome.error, outcome.output) == (RunStatus.FAILED, "it broke", "")


def test_an_aborted_document_is_aborted():
    assert openclaw().line(*lines(document("Hal", aborted=True))).finish(0).status is RunStatus.ABORTED


@pytest.mark.parametrize(("code", "signal"), [(143, None), (1, None), (None, 15)])
def test_a_process_that_dies_without_a_document_completes_nothing(code, signal):
    outcome = openclaw().stderr("[agent] x").finish(code, signal=signal)
    assert (outcome.status, outcome.failure.reason) == (RunStatus.FAILED, FailureReason.PROCESS)
    assert outcome.session_id == "callboard-00000000-0000-4000-8000-000000000000"


# ── sessions ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("history", "lost"), [(0, True), (2, False)])
def test_a_resumed_conversation_without_a_history_was_lost(history, lost):
    """It silently begins anew under the old id; only the empty history gives it away."""
    budget = {"messageCount": history, "unwindowedMessageCount": history}
    run = openclaw("s-1").line(*lines(document("hi", agentMeta={"contextBudgetStatus": budget})))
    assert (run.finish().resume_rejected, run.finish().session_id) == (lost, "s-1")
    fresh = openclaw().line(*lines(document("hi", agentMeta={"contextBudgetStatus": budget})))
    assert not fresh.finish().resume_rejected


def test_the_id_is_told_with_the_first_line_of_any_kind():
    run = openclaw().stderr("[plugins] loaded")
    assert [o.value for o in run.outputs if isinstance(o, SessionId)] == [
        "callboard-00000000-0000-4000-8000-000000000000"
    ]


# ── older output: one event a line ───────────────────────────────────────────


def test_events_are_read_where_no_document_comes():
    run = openclaw().event(
        {"type": "step_start", "sessionId": "s-9"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "tool": "sh", "callId": "t1", "input": {"c": "ls"}},
        {"type": "tool_result", "callId": "t1", "text": "a"},
        {"type": "text", "text": "Found it."},
        {"type": "step_finish", "usage": {"inputTokens": 3, "outputTokens": 1, "cache_read": 2}},
    )
    outcome = run.finish(0)
    assert (outcome.status, outcome.output) == (RunStatus.COMPLETED, "Found it.")
    assert outcome.usage == {"unknown": TokenUsage(3, 1, 2, 0)}
    assert [m.call_id for m in run.messages if m.call_id] == ["t1", "t1"]


@pytest.mark.parametrize(
    "event",
    [
        {"type": "error", "error": {"name": "E", "data": {"message": "bad"}}},
        {"type": "lifecycle", "phase": "failed", "message": "bad"},
        {"type": "error", "text": "bad"},
    ],
)
def test_an_error_event_fails_the_run(event):
    outcome = openclaw().event({"type": "text", "text": "x"}, event).finish(0)
    assert (outcome.status, outcome.error) == (RunStatus.FAILED, "bad")


# ── the launch ───────────────────────────────────────────────────────────────


def wrapper(run: Speaking) -> dict[str, Any]:
    [file] = [f for f in run.launch.files if f.path == run.launch.env["OPENCLAW_CONFIG_PATH"]]
    assert (file.mode, file.after) == (0o600, "remove")
    return json.loads(file.content)


def after(run: Speaking, flag: str) -> str:
    args = list(run.launch.args)
    return args[args.index(flag) + 1]


def test_the_workspace_is_the_run_s_folder_and_is_not_filled_with_files():
    run = openclaw()
    assert wrapper(run) == {
        "$include": [CONFIG],
        "agents": {"defaults": {"workspace": "/work-dir", "skipBootstrap": True}},
    }
    assert run.launch.env["OPENCLAW_INCLUDE_ROOTS"] == "/home/somebody/.openclaw"
    assert run.asked[0].purpose == "config"
    assert len(run.asked) == 1  # the CLI takes seconds a question


def test_every_agent_of_the_user_works_in_the_run_s_folder():
    agents = {"entries": {"ops": {"workspace": "/elsewhere"}, "dev": {}}}
    run = openclaw(
        files={CONFIG: b"{agents: {entries: {ops: {workspace: '/elsewhere'}, dev: {}}}}"},
        commands={"config get agents --json": (0, "[log] x\n" + json.dumps(agents, indent=2))},
    )
    assert wrapper(run)["agents"]["entries"] == {"ops": {"workspace": "/work-dir"}, "dev": {"workspace": "/work-dir"}}


def test_what_the_cli_cannot_say_about_its_configuration_refuses_the_run():
    with pytest.raises(LaunchRefused):
        openclaw(files={CONFIG: b'{"$include": "x.json"}'}, commands={"config get agents --json": (1, "broken")})
    with pytest.raises(LaunchRefused) as refused:
        openclaw(files={CONFIG: b'{"$include": "x.json"}'}, commands={"config get agents --json": (None, "")})
    assert refused.value.failure_reason is FailureReason.RUNTIME_CLI_TIMEOUT
    unset = '{"ok": false, "error": {"message": "Unknown config path: agents"}}'
    run = openclaw(files={CONFIG: b'{"$include": "x"}'}, commands={"config get agents --json": (1, unset)})
    assert "entries" not in wrapper(run)["agents"]


def test_the_configuration_is_asked_for_where_it_is_in_no_known_place():
    run = openclaw(
        files={"/home/somebody/odd/openclaw.json": b"{}"}, commands={"config file": (0, "log\n~/odd/openclaw.json\n")}
    )
    assert wrapper(run)["$include"] == ["/home/somebody/odd/openclaw.json"]
    assert "$include" not in wrapper(openclaw(files={}))


def test_mcp_has_three_states():
    user = {CONFIG: b'{"mcp": {"servers": {"theirs": {"command": "x"}, "both": {"url": "http://u"}}}}'}
    commands = {"config get mcp.servers --json": (0, '{"theirs": {"command": "x"}, "both": {"url": "http://u"}}')}
    assert "mcp" not in wrapper(openclaw(files=user, commands=commands))
    options = ExecOptions(cwd="/work-dir", mcp_config={})
    empty = openclaw(files=user, commands=commands, options=options)
    assert wrapper(empty)["mcp"]["servers"] == {"theirs": {"enabled": False}, "both": {"enabled": False}}
    config = {
        "mcpServers": {"both": {"command": "srv", "env": {"TOKEN": "secret"}}, "far": {"type": "sse", "url": "u"}}
    }
    managed = openclaw(files=user, commands=commands, options=ExecOptions(cwd="/work-dir", mcp_config=config))
    assert wrapper(managed)["mcp"]["servers"] == {
        "theirs": {"enabled": False},
        "both": {"enabled": False},
        # Under the user's own name the two would merge.
        "both-2": {"command": "srv", "env": {"TOKEN": "secret"}},
        "far": {"url": "u", "transport": "sse"},
    }
    assert not any("secret" in a for a in managed.launch.args)
    with pytest.raises(LaunchRefused):
        openclaw(options=ExecOptions(cwd="/work-dir", mcp_config={"mcpServers": {"a": {"args": []}}}))


def test_the_prompt_is_a_private_file_with_the_system_prompt_before_it():
    options = ExecOptions(cwd="/work-dir", system_prompt="Be brief.")
    run = openclaw(prompt="first\nsecond", options=options)
    [file] = [f for f in run.launch.files if f.path == after(run, "--message-file")]
    assert (file.content, file.mode) == (b"Be brief.\n\nfirst\nsecond", 0o600)
    older = openclaw(prompt="hello", options=options, version="2026.5.5")
    assert after(older, "--message") == "Be brief.\n\nhello"


@pytest.mark.parametrize(("timeout", "seconds"), [(None, "86400"), (0, "86400"), (1.5, "62"), (90.0, "150")])
def test_openclaw_s_own_limit_never_ends_a_run_before_ours(timeout, seconds):
    assert after(openclaw(options=ExecOptions(cwd="/work-dir", timeout=timeout)), "--timeout") == seconds


def test_the_model_is_an_agent_or_a_provider_s_model():
    agent = openclaw(options=ExecOptions(cwd="/work-dir", model="ops"))
    assert after(agent, "--agent") == "ops"
    model = openclaw(options=ExecOptions(cwd="/work-dir", model="p/m", custom_args=["--agent", "ops", "--model=x/y"]))
    assert (after(model, "--agent"), after(model, "--model")) == ("ops", "p/m")
    both = openclaw(options=ExecOptions(cwd="/work-dir", model="ops", custom_args=["--agent=dev"]))
    assert [a for a in both.launch.args if "agent" in a] == ["agent", "--agent=dev"]


# ── a gateway ────────────────────────────────────────────────────────────────


def through(mode: str | None = "gateway", files: dict[str, bytes] | None = None, **gateway: Any) -> Speaking:
    options = ExecOptions(cwd="/work-dir", openclaw_mode=mode, openclaw_gateway=OpenclawGateway(**gateway))
    return openclaw(options=options, files=files)


def answered(status: str = "ok", **more: Any) -> dict[str, Any]:
    return {"runId": "r-1", "status": status, "summary": "completed" if status == "ok" else "failed", **more}


@pytest.mark.parametrize(("mode", "local"), [(None, True), ("", True), ("local", True), ("gateway", False)])
def test_gateway_mode_leaves_the_local_flag_out(mode, local):
    run = openclaw(options=ExecOptions(cwd="/work-dir", openclaw_mode=mode))
    assert ("--local" in run.launch.args) is local
    assert "gateway" not in wrapper(run), "the user's own"


@pytest.mark.parametrize(
    ("gateway", "url"),
    [
        ({"host": "claw.internal"}, "ws://claw.internal:18789"),
        ({"host": "claw.internal", "port": 9, "tls": True}, "wss://claw.internal:9"),
        ({"port": 39222}, "ws://127.0.0.1:39222"),
        ({"tls": True}, "wss://127.0.0.1:18789"),
        ({"host": "fd00::7", "port": 9}, "ws://[fd00::7]:9"),
    ],
)
def test_a_named_gateway_is_the_one_the_cli_connects_to(gateway, url):
    assert wrapper(through(**gateway))["gateway"] == {"mode": "remote", "remote": {"url": url}}
    with_token = through(**gateway, token="t0ken")
    assert wrapper(with_token)["gateway"] == {"mode": "remote", "remote": {"url": url, "token": "t0ken"}}


def test_what_the_user_keeps_for_their_gateway_is_not_sent_to_another():
    """Seen: merged under ours, the user's file adds their `gateway.remote.password` to what 2026.9.6 sends."""
    theirs = {CONFIG: b'{"gateway": {"remote": {"password": "theirs"}}, "agents": {"list": []}}'}
    run = through(files=theirs, host="claw.internal", token="t0ken")
    assert "$include" not in wrapper(run)
    assert run.asked == [], "and it is not asked about"


def test_a_token_alone_is_for_the_user_s_own_gateway_here_or_elsewhere():
    run = wrapper(through(token="t0ken"))
    assert run["$include"] == [CONFIG]
    assert run["gateway"] == {"auth": {"mode": "token", "token": "t0ken"}, "remote": {"token": "t0ken"}}


@pytest.mark.parametrize("mode", [None, "", "local"])
def test_a_gateway_that_the_mode_leaves_aside_is_in_no_file(mode):
    run = through(mode, host="claw.internal", token="t0ken")
    assert "gateway" not in wrapper(run)
    assert not [file for file in run.launch.files if b"t0ken" in file.content]


def test_a_token_is_in_the_private_file_that_goes_with_the_run_and_nowhere_else():
    run = through(host="claw.internal", token="t0ken")
    holding = [file for file in run.launch.files if b"t0ken" in file.content]
    assert [(file.path, file.mode, file.after) for file in holding] == [
        (run.launch.env["OPENCLAW_CONFIG_PATH"], 0o600, "remove")
    ]
    assert "t0ken" not in f"{run.launch.args} {run.launch.env} {run.launch.notices}"
    assert "t0ken" not in repr(OpenclawGateway(token="t0ken"))


@pytest.mark.parametrize(
    ("token", "written"),
    [
        ("a${HOME}b", "a$${HOME}b"),
        ("$${HOME}x", "$$${HOME}x"),
        ("a$b${c}$", "a$b${c}$"),
        ("${A}${B_1}", "$${A}$${B_1}"),
    ],
)
def test_a_token_is_not_read_as_a_variable(token, written):
    assert wrapper(through(host="h", token=token))["gateway"]["remote"]["token"] == written


@pytest.mark.parametrize("token", ["$HOME", "${API_KEY}"])
def test_a_token_that_cannot_be_told_from_a_variable_is_refused_and_not_shown(token):
    with pytest.raises(LaunchRefused) as refused:
        through(host="h", token=token)
    assert refused.value.failure_reason is FailureReason.MISSING_CONFIG
    assert token not in str(refused.value)


def test_mcp_servers_that_a_gateway_does_not_get_are_said():
    servers = {"mcpServers": {"a": {"command": "c"}}}
    run = openclaw(options=ExecOptions(cwd="/work-dir", openclaw_mode="gateway", mcp_config=servers))
    assert "those of the agent are not used" in run.launch.notices[0].content


def test_a_gateway_s_answer_is_the_document_in_its_result():
    """Seen: what a local run prints is one level deeper."""
    run = through().line(*lines(answered(result=document("hello"))))
    outcome = run.finish()
    assert (outcome.status, outcome.output, outcome.session_id) == (RunStatus.COMPLETED, "hello", "s-1")
    assert outcome.usage == {"m": TokenUsage(10, 3, 2, 0, 125_000_000)}
    assert run.turn_ended


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (answered("error", result={"payloads": [{"text": "Context overflow", "isError": True}]}), "Context overflow"),
        (answered("error", result=document("half of it")), "failed"),
        (answered("error"), "failed"),
        (answered("timeout", summary="", error={"message": "too late"}), "too late"),
        (answered("in_flight", summary=None, result=None), "the gateway ended the run as in_flight"),
    ],
)
def test_a_gateway_that_does_not_say_ok_has_failed_the_run(answer, error):
    outcome = through().line(*lines(answer)).finish(code=1)
    assert (outcome.status, outcome.error) == (RunStatus.FAILED, error)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("unauthorized: gateway token mismatch (use this gateway's gateway.auth.token)", FailureReason.AUTH),
        ("gateway agent requires credentials before opening a websocket", FailureReason.AUTH),
        ("Gateway not reachable at ws://127.0.0.1:39222 (ECONNREFUSED).", FailureReason.NETWORK),
        ("Gateway not reachable at ws://127.0.0.1:503 (ECONNREFUSED).\nConfig: /tmp/401/c.json", FailureReason.NETWORK),
    ],
)
def test_a_gateway_that_lets_nobody_in_is_told_from_one_that_is_not_there(message, reason):
    """The CLI's own sentences, 2026.9.6."""
    refusal = {"ok": False, "error": {"type": "cli_error", "message": message}}
    assert through().line(*lines(refusal)).finish(code=1).failure.reason is reason


# ── arguments ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "custom",
    [
        ["--local", "--json=false", "--session-id", "x", "--session-key=y"],
        ["-m", "x", "-mx", "--message=x", "--message-file", "y"],
        ["--timeout", "5", "--thinking", "max", "--system-prompt", "x"],
        ["exec"],
    ],
)
def test_flags_the_protocol_depends_on_never_reach_the_cli(custom):
    plain = list(openclaw().launch.args)
    run = openclaw(options=ExecOptions(cwd="/work-dir", custom_args=custom))
    assert list(run.launch.args) == plain
    assert run.launch.notices


@pytest.mark.parametrize(
    ("asked", "seconds"), [("45", 45), ("45s", 45), ("0", 1), ("9000", 60), ("soon", 30), ("", 30)]
)
def test_the_time_for_a_question_to_the_cli_can_be_set(asked, seconds):
    run = openclaw(files={}, env={"CALLBOARD_OPENCLAW_CLI_TIMEOUT": asked})
    assert run.asked[-1].timeout == seconds
