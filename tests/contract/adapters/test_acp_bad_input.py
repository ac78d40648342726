"""What ACP agents send that no specification allows, and what must come of it. Kiro's adapter stands for all six
where nothing is said of a vendor: it changes the least."""

from __future__ import annotations

import json

import pytest

from callboard_adapters import MessageType, RunStatus, Watchdog
from callboard_adapters.base import HandshakeDone, ProcessExit, TurnEnded
from callboard_wire.failures import FailureReason
from tests.contract.adapters.acp_play import Talk, play
from tests.fakes.acp_sheets import ANSWER, kiro, text

ACP = ("grok", "hermes", "kimi", "kiro", "qoder", "traecli")
LOGGED_IN = {"XAI_API_KEY": "x"}
END = {"result": {"stopReason": "end_turn", "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}}}
HELLO = text("Hello")


def says(*prompt: dict, **others: list[dict]) -> dict[str, list[dict]]:
    return kiro(**{"session/prompt": [*prompt], **others})


def line(**message: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


# answers ---------------------------------------------------------------------------


def test_answers_to_ids_nobody_used_and_answers_given_twice_settle_nothing():
    stray = [{"send": {"id": 99, "result": {"stopReason": "refusal"}}}, {"send": {"id": 0, "result": {}}}]
    talk = Talk("kiro", says(HELLO, *stray, END, END, {"error": {"code": -32603, "message": "late"}})).start()
    outcome = talk.end()
    assert (outcome.status, outcome.output) == (RunStatus.COMPLETED, "Hello")
    assert len([o for o in talk.said if isinstance(o, TurnEnded)]) == 1


def test_an_answer_that_comes_before_its_request_is_not_taken_for_it():
    early = [{"send": {"id": 2, "result": {"stopReason": "end_turn"}}}, {"result": {"sessionId": "s1"}}]
    talk = Talk("kiro", says(HELLO, END, **{"session/new": early})).start()
    assert talk.methods() == ["initialize", "session/new", "session/prompt"]
    assert talk.end().output == "Hello"


def test_an_answer_with_result_and_error_is_an_error():
    both = {"result": {"stopReason": "end_turn"}, "error": {"code": -32603, "message": "HTTP 500 upstream"}}
    outcome = Talk("kiro", says(HELLO, both)).start().end()
    assert outcome.status is RunStatus.FAILED
    assert outcome.failure.reason is FailureReason.SERVER_ERROR


def test_messages_without_jsonrpc_and_ids_as_text_or_float_are_understood():
    talk = Talk("kiro", {}).start()
    talk.hear(b'{"id":"0","result":{"protocolVersion":1}}', b'{"id":1.0,"result":{"sessionId":"s1"}}')
    talk.hear(
        b'{"method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk","content":"Hello"}}}',
        b'{"id":2,"result":{"stopReason":"end_turn"}}',
    )
    assert talk.end().output == "Hello"


@pytest.mark.parametrize("provider", ACP)
def test_null_for_an_answer_means_done(provider):
    methods = ("initialize", "authenticate", "session/set_model", "session/set_mode")
    script = {**says(HELLO, {"result": None}), **{method: [{"result": None}] for method in methods}}
    talk = Talk(provider, script, LOGGED_IN).start(model="m")
    assert "session/prompt" in talk.methods()
    assert (talk.end().status, talk.end().output) == (RunStatus.COMPLETED, "Hello")


def test_a_session_answered_with_null_has_no_id_and_fails_at_once():
    talk = Talk("kiro", kiro(**{"session/new": [{"result": None}]})).start()
    outcome = talk.end()
    assert outcome.status is RunStatus.FAILED
    assert "session id" in outcome.error
    assert any(isinstance(o, TurnEnded) for o in talk.said)


def test_another_version_of_the_protocol_is_refused_by_name():
    answer = {"result": {"protocolVersion": 2, "agentInfo": {"name": "kiro", "version": "9.0"}}}
    outcome = Talk("kiro", kiro(initialize=[answer])).start().end()
    assert outcome.failure.reason is FailureReason.VERSION
    assert "kiro 9.0" in outcome.error


# notifications ---------------------------------------------------------------------


async def test_a_flood_of_notifications_loses_neither_the_answer_nor_the_run(tmp_path):
    noise = {"send": {"method": "_vendor/progress", "params": {"sessionId": "s1", "n": 1}}, "times": 100_000}
    done = await play("kiro", tmp_path, says(text("Hel"), noise, text("lo"), END))
    assert (done.result.status, done.result.output) == (RunStatus.COMPLETED, "Hello")
    assert done.result.counts.lines > 100_000


def test_the_words_of_another_session_are_not_ours():
    other = [{"session": "child", **text("I am a sub-agent")}, {"session": "child", **text("and another turn")}]
    talk = Talk("kiro", says(text("Hel"), other[0], text("lo"), other[1], END)).start()
    assert talk.end().output == "Hello"
    assert [m.content for m in talk.messages(MessageType.TEXT)] == ["Hel", "lo"]
    [notice] = [m for m in talk.messages(MessageType.LOG) if "child" in m.content]
    assert notice.level == "debug"


@pytest.mark.parametrize("kind", ["agent_message_chunk", "AgentMessageChunk", "agentMessageChunk"])
@pytest.mark.parametrize(
    "method", ["session/update", "session/notification", "Session/Update", "sessionUpdate", "session_update"]
)
def test_methods_and_kinds_are_known_in_any_casing(method, kind):
    content = {"type": "text", "text": "Hello"}
    shapes = [
        {"sessionUpdate": kind, "content": content},
        {"type": kind, "content": content},
        {kind: {"content": content}},
    ]
    for update in shapes:
        talk = Talk("qoder", says({"update": update, "method": method}, END)).start()
        assert talk.end().output == "Hello"


def test_an_unknown_notification_is_shown_and_only_the_first_as_a_warning():
    news = {"send": {"method": "session/brand_new", "params": {"a": 1}}, "times": 3}
    talk = Talk("kiro", says(HELLO, news, {"update": {"sessionUpdate": "hologram", "x": 1}}, END)).start()
    levels = [m.level for m in talk.messages(MessageType.LOG) if "brand_new" in m.content]
    assert levels == ["warn", "debug", "debug"]
    assert any("hologram" in m.content for m in talk.messages(MessageType.LOG))


def test_a_program_that_prints_something_else_and_leaves_is_quoted():
    said = b"kimi-cli is no longer maintained. Please use the new one: token=abcdefghijklmnop"
    outcome = Talk("kimi", {}).start().hear(said).end(ProcessExit(0, None, None, False, ""))
    assert outcome.failure.reason is FailureReason.VERSION
    assert "no longer maintained" in outcome.error
    assert "abcdefgh" not in outcome.error


def test_what_the_agent_and_its_compactions_announce_is_passed_on():
    notice = {"update": {"sessionUpdate": "notice", "severity": "warning", "title": "Slow", "description": "network"}}
    compacting = {"update": {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "in_progress"}}
    done = {"update": {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "completed"}}
    summary = {"update": {"sessionUpdate": "compaction_summary_chunk", "content": {"type": "text", "text": "so far"}}}
    talk = Talk("kiro", says(notice, compacting, summary, done, HELLO, END)).start()
    assert [(m.level, m.content) for m in talk.messages(MessageType.LOG)] == [("warn", "Slow: network")]
    assert [m.status for m in talk.messages(MessageType.STATUS)] == ["compacting", "compacted"]
    assert talk.end().output == "Hello"


async def test_noise_between_the_lines_is_counted_and_changes_nothing(tmp_path):
    noise = [{"raw": "Warning: deprecated"}, {"raw": "\xff\xfe"}, {"raw": '{"jsonrpc":'}, {"raw": "[1,2]"}]
    done = await play("kiro", tmp_path, says(text("Hel"), *noise, text("lo"), END))
    assert (done.result.status, done.result.output) == (RunStatus.COMPLETED, "Hello")
    assert done.result.counts.noise_lines == 4


@pytest.mark.timeout(120)
async def test_a_resume_answered_on_a_line_of_forty_megabytes_is_read(tmp_path):
    opened = [text("an old answer"), {"result": {}, "pad": 40 << 20}]
    done = await play("kiro", tmp_path, says(HELLO, END, **{"session/load": opened}), resume_session_id="s1")
    assert (done.result.status, done.result.output) == (RunStatus.COMPLETED, "Hello")
    assert done.text == "Hello"


async def test_last_words_that_come_after_the_answer_are_part_of_it(tmp_path):
    done = await play("kiro", tmp_path, says(text("Hel"), END, {"sleep": 0.1}, text("lo")))
    assert done.result.output == "Hello"


# silence ---------------------------------------------------------------------------


@pytest.mark.parametrize("provider", ACP)
async def test_an_agent_that_never_answers_initialize_trips_the_handshake_clock(tmp_path, provider):
    done = await play(provider, tmp_path, {}, handshake_timeout=0.5, env=LOGGED_IN)
    assert (done.result.status, done.result.failure.watchdog) == (RunStatus.TIMEOUT, Watchdog.HANDSHAKE)
    assert "initialize" in done.result.error


async def test_an_answer_after_the_handshake_clock_ran_out_changes_nothing(tmp_path):
    late = {"initialize": [{"sleep": 2.0}, {"result": {"protocolVersion": 1}}]}
    done = await play("kiro", tmp_path, {**says(HELLO, END), **late}, handshake_timeout=0.5)
    assert (done.result.status, done.result.failure.watchdog) == (RunStatus.TIMEOUT, Watchdog.HANDSHAKE)
    assert done.text == ""


async def test_a_session_that_is_never_made_is_named_in_the_reason(tmp_path):
    done = await play("hermes", tmp_path, kiro(**{"session/new": []}), handshake_timeout=2.0)
    assert done.result.failure.watchdog is Watchdog.HANDSHAKE
    assert "session/new" in done.result.error


async def test_an_agent_that_closes_its_output_and_lives_is_ended(tmp_path):
    done = await play("kiro", tmp_path, says(HELLO, {"close": True}, {"sleep": 60}), timeout=30)
    assert done.result.status is RunStatus.FAILED
    assert "closed its output" in done.result.error
    assert done.result.output == "Hello"


def test_a_process_that_ends_before_the_answer_completed_nothing():
    outcome = Talk("kiro", says(HELLO)).start().killed()
    assert outcome.status is RunStatus.FAILED
    assert outcome.failure.reason is FailureReason.PROCESS
    assert "the answer to its prompt" in outcome.error
    assert outcome.session_id == "s1"


@pytest.mark.parametrize("provider", ["qoder", "traecli"])
async def test_an_agent_deaf_to_eof_and_term_is_gone_with_its_refusal(tmp_path, provider):
    refusal = {"error": {"code": -32000, "message": "Authentication required: Authentication is required."}}
    done = await play(provider, tmp_path, kiro(**{"session/new": [refusal]}), deaf=True)
    assert done.result.status is RunStatus.FAILED
    assert done.result.failure.reason is FailureReason.AUTH
    assert done.result.exit_signal == 9


@pytest.mark.parametrize("provider", ACP)
def test_a_turn_that_ends_without_a_word_a_call_or_a_bill_is_a_failure(provider):
    talk = Talk(provider, says({"result": {"stopReason": "end_turn"}}), LOGGED_IN).start()
    outcome = talk.end()
    assert outcome.status is RunStatus.FAILED
    assert outcome.failure.reason is FailureReason.EMPTY_OUTPUT


# cancel ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        {"result": {"stopReason": "end_turn"}},
        {"result": {"stopReason": "cancelled"}},
        {"error": {"code": -32603, "message": "Internal error"}},
    ],
    ids=["end_turn", "cancelled", "error"],
)
@pytest.mark.parametrize("provider", ["grok", "hermes", "kiro"])
async def test_a_cancelled_turn_is_cancelled_whatever_the_agent_answers(tmp_path, provider, answer):
    script = says(HELLO, **{"session/cancel": [{**answer, "to": "session/prompt"}]})
    done = await play(provider, tmp_path, script, cancel_at="Hello", env=LOGGED_IN)
    assert (done.result.status, done.result.session_id) == (RunStatus.CANCELLED, "s1")
    assert done.result.exit_signal is None


async def test_a_cancel_that_is_never_heeded_ends_the_process(tmp_path):
    done = await play("kiro", tmp_path, says(HELLO), cancel_at="Hello", deaf=True)
    assert (done.result.status, done.result.exit_signal) == (RunStatus.CANCELLED, 9)


def test_a_turn_the_agents_side_cancelled_is_aborted_and_not_completed():
    outcome = Talk("kiro", says(HELLO, {"result": {"stopReason": "cancelled"}})).start().end()
    assert outcome.status is RunStatus.ABORTED


@pytest.mark.parametrize("reason", ["stop", "completed", "stop_sequence", "tool_use", "galaxy_brain"])
def test_another_word_for_the_end_of_a_turn_that_gave_an_answer_completes_it_and_is_told(reason):
    talk = Talk("kiro", says(HELLO, {"result": {"stopReason": reason}})).start()
    outcome = talk.end()
    assert (outcome.status, outcome.output) == (RunStatus.COMPLETED, "Hello")
    assert [m.level for m in talk.messages(MessageType.LOG) if reason in m.content] == ["warn"]
    silent = Talk("kiro", says({"result": {"stopReason": reason}})).start().end()
    assert silent.status is RunStatus.FAILED, "without an answer nothing says that it went well"


@pytest.mark.parametrize(
    ("reason", "found"),
    [
        ("model_context_window_exceeded", FailureReason.CONTEXT_OVERFLOW),
        ("rate_limit", FailureReason.RATE_LIMIT),
        ("contentFilter: safety policy", FailureReason.AGENT_BLOCKED),
        ("budget_exceeded", FailureReason.UNKNOWN),
        ("Error", FailureReason.UNKNOWN),
        ("timeout", FailureReason.UNKNOWN),
    ],
)
def test_a_stop_reason_that_names_a_trouble_fails_the_turn_although_it_said_something(reason, found):
    outcome = Talk("kiro", says(HELLO, {"result": {"stopReason": reason}})).start().end()
    assert (outcome.status, outcome.failure.reason, outcome.output) == (RunStatus.FAILED, found, "Hello")


def test_permission_asked_after_a_cancel_or_after_the_turn_is_answered_with_cancelled():
    ask = {"method": "session/request_permission", "params": {"options": [{"optionId": "ok", "kind": "allow_once"}]}}
    cancelled = Talk("kiro", says(HELLO)).start().cancel().hear(line(id=7, **ask))
    over = Talk("kiro", says(HELLO, END)).start().hear(line(id="x", **ask))
    for talk, asked in ((cancelled, 7), (over, "x")):
        assert talk.sent[-1] == {"jsonrpc": "2.0", "id": asked, "result": {"outcome": {"outcome": "cancelled"}}}
    assert cancelled.stopped().status is RunStatus.FAILED  # the driver lays `cancelled` over it


def test_nothing_is_cancelled_before_there_is_a_turn():
    talk = Talk("kiro", kiro(**{"session/new": []})).start().cancel()
    assert talk.methods() == ["initialize", "session/new"]


# questions -------------------------------------------------------------------------


@pytest.mark.parametrize("question_id", [0, "a-1", 1.5, -3])
def test_a_question_is_answered_under_its_own_id(question_id):
    ask = line(id=question_id, method="fs/read_text_file", params={"sessionId": "s1", "path": "/etc/passwd"})
    talk = Talk("kiro", says(HELLO)).start().hear(ask)
    assert talk.sent[-1]["id"] == question_id
    assert talk.sent[-1]["error"]["code"] == -32601


def test_a_question_with_the_id_of_our_own_request_is_no_answer_to_it():
    talk = Talk("kiro", says(HELLO)).start()
    talk.hear(line(id=2, method="terminal/create", params={"command": "ls"}))
    assert talk.sent[-1]["error"]["code"] == -32601
    talk.hear(line(id=2, result={"stopReason": "end_turn"}))
    assert talk.end().output == "Hello"


def test_the_handshake_is_over_with_the_prompt_and_not_before():
    talk = Talk("kiro", kiro(**{"session/new": []})).start()
    assert not any(isinstance(o, HandshakeDone) for o in talk.said)
    assert any(isinstance(o, HandshakeDone) for o in Talk("kiro", kiro()).start().said)
    assert Talk("kiro", kiro()).start().end().output == ANSWER
