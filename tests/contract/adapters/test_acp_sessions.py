"""Opening, continuing and losing ACP sessions: what is asked of the agent, and what is said about the session."""

from __future__ import annotations

import pytest

from callboard_adapters import LaunchRefused, MessageType, RunStatus
from callboard_adapters.base import SessionId
from callboard_wire.failures import FailureReason
from tests.contract.adapters.acp_play import Talk, play
from tests.fakes.acp_agent import heard
from tests.fakes.acp_sheets import ANSWER, kiro, text

ACP = ("grok", "hermes", "kimi", "kiro", "qoder", "traecli")
LOADS_FIRST = ("grok", "kiro", "traecli")
LOGGED_IN = {"XAI_API_KEY": "x"}
BOTH = {"loadSession": True, "sessionCapabilities": {"resume": {}}}
OPENED = [{"result": {}}]
GONE = [
    {"code": -32603, "message": "Internal error", "data": "No session found with id old"},
    {"code": -32603, "message": "Session not found: old"},
    {"code": -32602, "message": "Invalid params", "data": {"session_id": "Session not found"}},
    {"code": -32602, "message": "Invalid params: Unknown sessionId: old", "data": {"sessionId": "old"}},
    {"code": -32603, "message": 'session "old" does not exist'},
    {"code": -32002, "message": "Resource not found", "data": {"uri": "session/old"}},
]
END = {"result": {"stopReason": "end_turn", "usage": {"inputTokens": 10, "outputTokens": 2}}}
FS_NOT_FOUND = {"code": -32603, "message": "Path not found.", "data": {"code": "FS_NOT_FOUND", "detail": "os error 2"}}


def offering(capabilities: dict | None, **others: list[dict]) -> dict[str, list[dict]]:
    answer = (
        {"protocolVersion": 1} if capabilities is None else {"protocolVersion": 1, "agentCapabilities": capabilities}
    )
    return kiro(**{"initialize": [{"result": answer}], "session/load": OPENED, "session/resume": OPENED, **others})


# what is asked ---------------------------------------------------------------------


@pytest.mark.parametrize("provider", ACP)
def test_a_session_is_continued_the_way_the_vendor_does_it_best(provider):
    talk = Talk(provider, offering(BOTH), LOGGED_IN).start(resume_session_id="old")
    assert ("session/load" if provider in LOADS_FIRST else "session/resume") in talk.methods()
    assert "session/new" not in talk.methods()
    assert talk.end().session_id == "old"


@pytest.mark.parametrize(
    ("capabilities", "method"),
    [({"loadSession": True}, "session/load"), ({"sessionCapabilities": {"resume": {}}}, "session/resume")],
)
@pytest.mark.parametrize("provider", ACP)
def test_only_what_the_agent_offers_is_asked_of_it(provider, capabilities, method):
    talk = Talk(provider, offering(capabilities), LOGGED_IN).start(resume_session_id="old")
    assert method in talk.methods()
    assert talk.end().status is RunStatus.COMPLETED


@pytest.mark.parametrize("provider", ACP)
def test_an_agent_that_cannot_continue_sessions_is_not_asked_to(provider):
    talk = Talk(provider, offering({"loadSession": False}), LOGGED_IN).start(resume_session_id="old")
    outcome = talk.end()
    assert not {"session/load", "session/resume", "session/new", "session/prompt"} & set(talk.methods())
    assert (outcome.status, outcome.resume_rejected) == (RunStatus.FAILED, True)


def test_an_agent_that_states_nothing_may_be_asked_for_everything():
    talk = Talk("kiro", offering(None)).start(resume_session_id="old")
    assert "session/load" in talk.methods()


def test_the_first_request_states_honest_capabilities():
    [first, *_] = Talk("kiro", kiro()).start().sent
    assert first["params"]["protocolVersion"] == 1
    assert first["params"]["clientCapabilities"] == {
        "fs": {"readTextFile": False, "writeTextFile": False},
        "terminal": False,
    }


def test_mcp_servers_go_into_the_session_without_the_transports_the_agent_lacks():
    servers = {
        "web": {"url": "https://h/mcp", "headers": {"B": "2", "A": "1"}},
        "events": {"type": "sse", "url": "https://h/sse"},
        "files": {"command": "npx", "args": ["f"], "env": {"K": "v"}},
        "empty": {},
    }
    talk = Talk("kiro", kiro()).start(mcp_config={"mcpServers": servers}, resume_session_id="s1")
    [load] = [m for m in talk.sent if m.get("method") == "session/load"]
    assert load["params"]["mcpServers"] == [
        {"name": "files", "command": "npx", "args": ["f"], "env": [{"name": "K", "value": "v"}]},
        {
            "type": "http",
            "name": "web",
            "url": "https://h/mcp",
            "headers": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        },
    ]
    warned = " ".join(m.content for m in talk.messages(MessageType.LOG))
    assert "'events' left out" in warned
    assert "'empty' has neither" in warned


def test_hermes_takes_remote_servers_that_it_does_not_declare():
    remote = {"mcpServers": {"web": {"url": "https://h/mcp"}}}
    talk = Talk("hermes", offering({"loadSession": True})).start(mcp_config=remote)
    [new] = [m for m in talk.sent if m.get("method") == "session/new"]
    assert [s["name"] for s in new["params"]["mcpServers"]] == ["web"]


def test_a_configuration_that_is_none_is_refused_before_the_start():
    with pytest.raises(LaunchRefused) as refused:
        Talk("kiro", kiro()).start(mcp_config={"mcpServers": ["npx"]})
    assert refused.value.failure_reason is FailureReason.MISSING_CONFIG


@pytest.mark.parametrize("provider", ACP)
def test_the_system_prompt_goes_before_the_prompt_except_where_it_would_be_twice(provider):
    talk = Talk(provider, kiro(), LOGGED_IN).start("Fix it", system_prompt="You are Ada.")
    [prompt] = [m for m in talk.sent if m.get("method") == "session/prompt"]
    text = prompt["params"]["prompt"][0]["text"]
    assert text == ("Fix it" if provider == "hermes" else "You are Ada.\n\n---\n\nFix it")


# the model, the mode, the effort ------------------------------------------------------


def options(**current: str) -> list[dict]:
    values = {"model": ("m1", "m2"), "thinking": ("off", "on")}
    return [
        {
            "id": name,
            "category": {"thinking": "thought_level"}.get(name, name),
            "type": "select",
            "currentValue": current.get(name, values[name][0]),
            "options": [{"value": v, "name": v.upper()} for v in values[name]],
        }
        for name in values
    ]


def set_by(says: dict, **wanted: object) -> list[tuple]:
    talk = Talk("kimi", says).start(**wanted)
    assert talk.end().status is RunStatus.COMPLETED
    keys = ("modelId", "modeId", "configId", "value")
    return [
        (m["method"], *(m["params"][k] for k in keys if k in m["params"]))
        for m in talk.sent
        if m.get("method", "").startswith("session/set")
    ]


def test_model_and_effort_are_set_as_options_where_the_session_offers_them():
    says = kiro(
        **{
            "session/new": [{"result": {"sessionId": "s1", "configOptions": options()}}],
            "session/set_config_option": [{"result": {"configOptions": options(model="m2", thinking="on")}}],
        }
    )
    # The answer to the first shows the level as set: it is not asked for again.
    assert set_by(says, model="m2", thinking_level="on") == [("session/set_config_option", "model", "m2")]
    assert set_by(says, model="M2") == [("session/set_config_option", "model", "m2")], "by its name"
    assert set_by(says, model="m1") == [], "it is set already"
    assert set_by(says, thinking_level="on") == [("session/set_config_option", "thinking", "on")]


def test_an_option_that_turns_out_not_to_exist_falls_back_to_the_older_request():
    says = kiro(
        **{
            "session/new": [{"result": {"sessionId": "s1", "configOptions": options()}}],
            "session/set_config_option": [{"error": {"code": -32601, "message": "Method not found"}}],
        }
    )
    assert set_by(says, model="m2")[-1] == ("session/set_model", "m2")


def test_a_thinking_level_that_cannot_be_had_is_said_and_never_fails_the_run():
    talk = Talk("kimi", kiro()).start(thinking_level="max")
    assert talk.end().status is RunStatus.COMPLETED
    assert any("'max' has no effect" in m.content for m in talk.messages(MessageType.LOG))


def test_a_session_left_in_plan_mode_is_put_to_work():
    modes = {"currentModeId": "plan", "availableModes": [{"id": "plan"}, {"id": "yolo"}, {"id": "default"}]}
    says = kiro(**{"session/new": [{"result": {"sessionId": "s1", "modes": modes}}], "session/set_mode": OPENED})
    assert set_by(says) == [("session/set_mode", "default")]


@pytest.mark.parametrize("provider", ACP)
def test_a_model_that_cannot_be_set_fails_the_run_and_its_session_is_not_kept(provider):
    refused = {"code": -32602, "message": "Invalid params", "data": "no such model"}
    talk = Talk(provider, kiro(**{"session/set_model": [{"error": refused}]}), LOGGED_IN).start(model="m9")
    outcome = talk.end()
    assert outcome.failure.reason is FailureReason.MODEL
    assert "m9" in outcome.error
    # Nothing was ever said in it: the agent may not have saved it, and a resume would fail for ever.
    assert outcome.session_id == ""
    assert not any(isinstance(o, SessionId) for o in talk.said)


# the session's id ---------------------------------------------------------------------


@pytest.mark.parametrize("provider", ACP)
def test_the_id_is_told_with_the_first_sign_that_the_prompt_was_taken(provider):
    talk = Talk(provider, kiro(**{"session/prompt": [text("Hello")]}), LOGGED_IN).start()
    assert [o.value for o in talk.said if isinstance(o, SessionId)] == ["s1"]
    assert talk.killed().session_id == "s1"


@pytest.mark.parametrize("error", GONE, ids=range(len(GONE)))
@pytest.mark.parametrize("provider", ACP)
def test_a_session_that_is_gone_is_rejected_at_every_step(provider, error):
    steps = ("session/load", "session/resume"), ("session/set_model",), ("session/prompt",)
    for step in steps:
        if step != steps[0] and error["code"] == -32002:
            continue  # "resource not found" alone says nothing of the session there
        says = offering(BOTH, **{key: [{"error": error}] for key in step})
        outcome = Talk(provider, says, LOGGED_IN).start(resume_session_id="old", model="m").end()
        assert (outcome.status, outcome.resume_rejected) == (RunStatus.FAILED, True), step
        assert outcome.session_id == ""


def test_a_missing_file_at_load_is_the_sessions_and_at_the_prompt_it_is_not():
    gone = Talk("grok", offering(BOTH, **{"session/load": [{"error": FS_NOT_FOUND}]}), LOGGED_IN)
    assert gone.start(resume_session_id="old").end().resume_rejected
    other = Talk("grok", offering(BOTH, **{"session/prompt": [{"error": FS_NOT_FOUND}]}), LOGGED_IN)
    assert not other.start(resume_session_id="old").end().resume_rejected


@pytest.mark.parametrize("provider", ACP)
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ({"code": -32000, "message": "Authentication required"}, FailureReason.AUTH),
        ({"code": -32603, "message": "Internal error", "data": {"http_status": 429}}, FailureReason.RATE_LIMIT),
        ({"code": -32603, "message": "Internal error", "data": "HTTP 503 from upstream"}, FailureReason.SERVER_ERROR),
        ({"code": -32603, "message": "Internal error", "data": "model x not found"}, FailureReason.MODEL),
    ],
)
def test_a_refused_login_a_full_quota_and_an_outage_do_not_reject_the_session(provider, error, reason):
    for step in ("session/load", "session/resume", "session/prompt"):
        says = offering(BOTH, **{step: [{"error": error}]})
        talk = Talk(provider, says, LOGGED_IN).start(resume_session_id="old")
        if step in talk.methods():
            outcome = talk.end()
            assert (outcome.failure.reason, outcome.resume_rejected) == (reason, False)
            assert outcome.session_id == "old", "the conversation is still there"


def test_a_fresh_session_that_gets_lost_is_a_failure_and_no_rejection():
    outcome = Talk("kiro", kiro(**{"session/prompt": [{"error": GONE[0]}]})).start().end()
    assert (outcome.status, outcome.resume_rejected) == (RunStatus.FAILED, False)


@pytest.mark.parametrize("provider", ACP)
async def test_a_session_that_somebody_holds_is_left_for_one_new_one(tmp_path, provider):
    busy = {"error": {"code": -32603, "message": "Internal error", "data": "session is active elsewhere (pid 4242)"}}
    says = offering(BOTH, **{"session/load": [busy], "session/resume": [busy]})
    done = await play(provider, tmp_path, says, resume_session_id="old", env=LOGGED_IN)
    assert (done.result.status, done.result.resume_rejected) == (RunStatus.COMPLETED, False)
    assert (done.result.session_id, done.result.output) == ("s1", ANSWER)
    said = heard(tmp_path)
    assert [m.get("method") for m in said].count("session/new") == 1
    [prompt] = [m for m in said if m.get("method") == "session/prompt"]
    assert "does not know it" in prompt["params"]["prompt"][0]["text"]


@pytest.mark.parametrize("provider", ["kiro", "hermes"])
async def test_a_session_that_never_opens_is_left_for_one_new_one(tmp_path, provider):
    says = offering(BOTH, **{"session/load": [], "session/resume": []})
    done = await play(provider, tmp_path, says, resume_session_id="old", handshake_timeout=2.0)
    assert (done.result.status, done.result.session_id) == (RunStatus.COMPLETED, "s1")
    methods = [m.get("method") for m in heard(tmp_path)]
    assert methods.count("initialize") == 2, "in a process of its own: the first may hold a lock"
    assert methods.count("session/new") == 1


async def test_when_the_new_session_does_not_open_either_the_run_times_out_once(tmp_path):
    says = offering(BOTH, **{"session/load": [], "session/new": []})
    done = await play("kiro", tmp_path, says, resume_session_id="old", handshake_timeout=2.0)
    assert done.result.status is RunStatus.TIMEOUT
    assert "session/new" in done.result.error
    assert [m.get("method") for m in heard(tmp_path)].count("session/new") == 1


def test_a_picture_that_is_too_big_asks_for_a_cold_run_and_keeps_the_session():
    said = "messages.3.content.1.image.source.base64.data: image dimensions exceed max allowed size: 8000 pixels"
    error = {"error": {"code": -32603, "message": "Internal error", "data": said}}
    says = kiro(**{"session/prompt": [error]})
    resumed = Talk("kiro", says).start(resume_session_id="s1").end()
    assert (resumed.resume_rejected, resumed.session_id) == (True, "s1")
    assert resumed.failure.reason is FailureReason.API_INVALID_REQUEST
    cold = Talk("kiro", says).start().end()
    assert not cold.resume_rejected, "the same on a cold run must not loop"


def test_a_conversation_that_should_have_existed_is_mentioned_to_the_agent():
    talk = Talk("kiro", kiro()).start(resume_expected=True)
    [prompt] = [m for m in talk.sent if m.get("method") == "session/prompt"]
    assert "could not be opened again" in prompt["params"]["prompt"][0]["text"]


@pytest.mark.parametrize("provider", ACP)
def test_a_continued_session_that_speaks_under_another_id_is_heard(provider):
    """Nothing came under the old id and the answer named none: these words are no sub-agent's."""
    says = offering(BOTH, **{"session/prompt": [{"session": "new", **text("Done.")}, END]})
    talk = Talk(provider, says, LOGGED_IN).start(resume_session_id="old")
    assert "Done." in "".join(m.content for m in talk.messages(MessageType.TEXT))


@pytest.mark.parametrize("provider", ACP)
def test_another_id_beside_the_session_s_own_is_a_sub_agent_also_when_continued(provider):
    says = offering(
        BOTH, **{"session/prompt": [{"session": "old", **text("Mine. ")}, {"session": "child", **text("No.")}, END]}
    )
    talk = Talk(provider, says, LOGGED_IN).start(resume_session_id="old")
    assert "No." not in "".join(m.content for m in talk.messages(MessageType.TEXT))
