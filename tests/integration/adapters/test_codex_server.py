"""App servers that misbehave. Every test is a real process through the public face."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from callboard_adapters import (
    BackendConfig,
    ExecOptions,
    Message,
    MessageType,
    Result,
    RunStatus,
    TokenUsage,
    Watchdog,
    create_backend,
)
from callboard_adapters.session import Session
from callboard_wire.failures import FailureReason
from tests.fakes.codex_server import codex_server, heard, starts
from tests.integration.adapters.running import alive


async def start(folder: Path, body: str, *, env: dict[str, str] | None = None, **options: Any) -> Session:
    cli = codex_server(folder, body)
    base = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    backend = create_backend("codex", BackendConfig(executable=cli, env={**base, **(env or {})}))
    return await backend.execute("do it", ExecOptions(**{"cwd": folder, "timeout": 30, **options}))


async def run(folder: Path, body: str, **options: Any) -> tuple[list[Message], Result]:
    session = await start(folder, body, **options)
    messages = [m async for m in session.messages]
    result = await session.result()
    for pid in (folder / "starts").read_text().split():
        assert not alive(int(pid)), "the server outlived its run"
    return messages, result


def texts(messages: list[Message]) -> list[str]:
    return [m.content for m in messages if m.type is MessageType.TEXT]


def sent(folder: Path, method: str) -> list[dict[str, Any]]:
    return [m["params"] for m in heard(folder) if m.get("method") == method]


# ── the handshake ────────────────────────────────────────────────────────────────


async def test_a_server_that_never_answers_initialize_is_started_twice_and_then_given_up(tmp_path):
    _, result = await run(tmp_path, "until_eof()", handshake_timeout=0.3)
    assert (result.status, result.failure.watchdog) == (RunStatus.TIMEOUT, Watchdog.HANDSHAKE)
    assert result.failure_reason is FailureReason.AGENT_TIMEOUT
    assert "initialize" in result.error
    assert starts(tmp_path) == 2


async def test_a_start_that_hung_once_is_made_up_for(tmp_path):
    body = """
    if starts() == 1:
        until_eof()
    begin(); say_text("there"); done(); until_eof()
    """
    _, result = await run(tmp_path, body, handshake_timeout=2)
    assert (result.status, result.output) == (RunStatus.COMPLETED, "there")


async def test_an_answer_after_the_timeout_changes_nothing(tmp_path):
    body = """
    request = hear("initialize")
    if starts() == 2:
        time.sleep(60)  # ended long before
    signal.signal(signal.SIGTERM, lambda *_: (answer(request, {}), sys.exit(0)))
    until_eof()
    """
    _, result = await run(tmp_path, body, handshake_timeout=1.0)
    assert (result.status, result.failure.watchdog) == (RunStatus.TIMEOUT, Watchdog.HANDSHAKE)
    assert sent(tmp_path, "thread/start") == []


async def test_a_thread_that_is_never_answered_is_not_started_twice(tmp_path):
    body = """
    answer(hear("initialize"), {})
    hear("thread/start")
    until_eof()
    """
    _, result = await run(tmp_path, body, handshake_timeout=1.0)
    assert (result.status, result.failure.watchdog) == (RunStatus.TIMEOUT, Watchdog.HANDSHAKE)
    assert "thread/start" in result.error
    assert starts(tmp_path) == 1


async def test_every_startup_request_has_the_whole_handshake_time(tmp_path):
    body = """
    def late(request, result):
        time.sleep(0.7)
        answer(request, result)
    late(hear("initialize"), {})
    late(hear("thread/start"), {"thread": {"id": THREAD}})
    late(hear("turn/start"), {"turn": {"id": TURN}})
    say_text("slow and steady"); done(); until_eof()
    """
    _, result = await run(tmp_path, body, handshake_timeout=2)
    assert (result.status, result.output) == (RunStatus.COMPLETED, "slow and steady")


@pytest.mark.parametrize("method", ["initialize", "thread/start", "turn/start"])
async def test_a_refused_startup_request_fails_the_run_with_its_own_words(tmp_path, method):
    body = f"""
    for name, result in (("initialize", {{}}), ("thread/start", {{"thread": {{"id": THREAD}}}}), ("turn/start", {{}})):
        request = hear(name)
        if name == {method!r}:
            refuse(request, -32000, "the quota is used up")
        else:
            answer(request, result)
    until_eof()
    """
    _, result = await run(tmp_path, body)
    assert (result.status, result.failure_reason) == (RunStatus.FAILED, FailureReason.QUOTA)
    assert f"{method} failed: the quota is used up (code=-32000)" in result.error
    assert starts(tmp_path) == 1


async def test_a_server_that_dies_during_its_start_names_the_step_and_its_stderr(tmp_path):
    body = """
    answer(hear("initialize"), {})
    hear("thread/start")
    os.write(2, b"config.toml: no such model provider\\n")
    sys.exit(1)
    """
    _, result = await run(tmp_path, body)
    assert (result.status, result.failure_reason) == (RunStatus.FAILED, FailureReason.PROCESS)
    assert "thread/start" in result.error
    assert "no such model provider" in result.error


async def test_policy_is_sent_and_never_null(tmp_path):
    await run(tmp_path, "begin(); say_text('x'); done(); until_eof()", thread_name="Fix it", thinking_level="high")
    (thread,) = sent(tmp_path, "thread/start")
    assert (thread["approvalPolicy"], thread["sandbox"]) == ("never", "danger-full-access")
    assert None not in thread.values()
    (turn,) = sent(tmp_path, "turn/start")
    assert turn["input"] == [{"type": "text", "text": "do it"}]
    assert turn["effort"] == "high"
    assert sent(tmp_path, "thread/name/set") == [{"threadId": "th-1", "name": "Fix it"}]
    assert [m["method"] for m in heard(tmp_path)][:2] == ["initialize", "initialized"]


# ── answers and questions ─────────────────────────────────────────────────────────


async def test_answers_out_of_order_doubled_and_to_nobody_change_nothing(tmp_path):
    body = """
    first = hear("initialize")
    say({"id": 99, "result": {"thread": {"id": "wrong"}}})
    say({"id": "initialize", "error": {"code": 1, "message": "not yours"}})
    say({"jsonrpc": "1.0", "id": float(first["id"]), "result": {}, "extra": True})
    answer(first, {"late": "twin"})
    thread = hear("thread/start")
    say({"id": str(thread["id"]), "result": {"thread": {"id": THREAD}}})
    say({"id": thread["id"], "error": {"code": -1, "message": "changed my mind"}})
    turn = hear("turn/start")
    answer(turn, {"turn": {"id": TURN}})
    say_text("fine"); done(); until_eof()
    """
    messages, result = await run(tmp_path, body)
    assert (result.status, result.output, result.session_id) == (RunStatus.COMPLETED, "fine", "th-1")
    strays = [m.level for m in messages if "nobody waits for" in m.content]
    assert strays[0] == "warn"
    assert set(strays[1:]) == {"debug"}  # shown, and alarming only once


async def test_an_answer_with_both_a_result_and_an_error_is_an_error(tmp_path):
    body = """
    request = hear("initialize")
    say({"id": request["id"], "result": {}, "error": {"code": -32603, "message": "no access token"}})
    until_eof()
    """
    _, result = await run(tmp_path, body)
    assert (result.status, result.failure_reason) == (RunStatus.FAILED, FailureReason.AUTH)


async def test_methods_in_another_casing_are_understood(tmp_path):
    body = """
    answer(hear("initialize"), {})
    answer(hear("thread/start"), {"thread": {"id": THREAD}})
    answer(hear("turn/start"), {"turn": {"id": TURN}})
    note("Turn/Started", threadId=THREAD, turn={"id": TURN})
    got = ask(0, "Item/CommandExecution/request_approval", threadId=THREAD, turnId=TURN, itemId="i")
    said = {"type": "agent_message", "id": "m", "text": str(got["result"])}
    note("item/Completed", threadId=THREAD, turnId=TURN, item=said)
    note("TURN/completed", threadId=THREAD, turn={"id": TURN, "status": "completed"})
    until_eof()
    """
    _, result = await run(tmp_path, body)
    assert (result.status, result.output) == (RunStatus.COMPLETED, "{'decision': 'accept'}")


async def test_noise_between_the_lines_is_counted_and_ends_nothing(tmp_path):
    body = """
    raw(b"WARN starting\\n\\n\\xff\\xfe\\n")
    begin()
    raw(b"[1, 2, 3]\\n{not json\\n")
    say_text("clear"); done(); until_eof()
    """
    _, result = await run(tmp_path, body)
    assert (result.status, result.output) == (RunStatus.COMPLETED, "clear")
    assert result.counts.noise_lines == 4


async def test_an_unknown_question_is_refused_and_the_turn_goes_on(tmp_path):
    body = """
    begin()
    got = ask("q-1", "future/question", threadId=THREAD)
    say_text(str(got["error"]["code"])); done(); until_eof()
    """
    messages, result = await run(tmp_path, body)
    assert (result.status, result.output) == (RunStatus.COMPLETED, "-32601")
    assert [m for m in messages if m.level == "warn" and "future/question" in m.content]


async def test_a_question_after_the_turn_does_not_hold_the_run(tmp_path):
    body = """
    begin(); say_text("done before you asked"); done()
    say({"id": 7, "method": "item/commandExecution/requestApproval", "params": {}})
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    until_eof()
    """
    _, result = await run(tmp_path, body)
    assert (result.status, result.output) == (RunStatus.COMPLETED, "done before you asked")


async def test_a_permission_asked_for_after_the_cancel_is_not_granted(tmp_path):
    body = """
    begin()
    item("commandExecution", "c-1", when="started", command="sleep 9")
    interrupt = hear("turn/interrupt")
    got = ask(0, "item/commandExecution/requestApproval", threadId=THREAD, turnId=TURN, itemId="c-2")
    answer(interrupt, {})
    done(status="interrupted"); until_eof()
    """
    session = await start(tmp_path, body)
    async for message in session.messages:
        if message.type is MessageType.TOOL_USE:
            await session.cancel()
    result = await session.result()
    assert (result.status, result.failure) == (RunStatus.CANCELLED, None)
    (answered,) = [m["result"] for m in heard(tmp_path) if "result" in m]
    assert answered == {"decision": "cancel"}


# ── turns ───────────────────────────────────────────────────────────────────────────


async def test_two_turns_that_talk_at_once_are_told_apart(tmp_path):
    body = """
    begin()
    for n in range(3):
        say_text(f"mine {n}", item_id=f"m{n}")
        say_text(f"theirs {n}", item_id=f"t{n}", turn="tu-other")
        tokens((100 * (2 * n + 1), 0, 1), (100, 0, 1))
        tokens((100 * (2 * n + 2), 0, 2), (100, 0, 1), turn="tu-other")
        done(turn="tu-other", status="failed", error={"message": "theirs"})
        note("error", threadId=THREAD, turnId="tu-other", willRetry=False, error={"message": "theirs"})
        say_text("another thread", item_id=f"x{n}", thread="th-2", turn=TURN)
    done(); until_eof()
    """
    messages, result = await run(tmp_path, body)
    assert (result.status, result.output) == (RunStatus.COMPLETED, "mine 2")
    assert texts(messages) == ["mine 0", "mine 1", "mine 2"]
    assert result.usage["m-1"].input_tokens == 300


async def test_what_earlier_turns_said_never_leaks_into_a_resumed_run(tmp_path):
    body = """
    answer(hear("initialize"), {})
    request = hear("thread/resume")
    def replay():
        note("turn/started", threadId=THREAD, turn={"id": "tu-0"})
        say_text("old words", item_id="old", turn="tu-0")
        tokens((9000, 0, 90), (9000, 0, 90), turn="tu-0")
        note("thread/status/changed", threadId=THREAD, status={"type": "idle"})
        done(turn="tu-0", status="failed", error={"message": "old failure"})
    replay()
    answer(request, {"thread": {"id": THREAD}, "model": "m-1"})
    replay()
    turn = hear("turn/start")
    replay()
    answer(turn, {"turn": {"id": TURN}})
    replay()
    note("turn/started", threadId=THREAD, turn={"id": TURN})
    say_text("new words"); tokens((9100, 50, 99), (100, 50, 9)); done(); until_eof()
    """
    messages, result = await run(tmp_path, body, resume_session_id="th-1")
    assert (result.status, result.output, result.resume_rejected) == (RunStatus.COMPLETED, "new words", False)
    assert texts(messages) == ["new words"]
    assert result.usage == {"m-1": TokenUsage(50, 9, 50)}


async def test_a_turn_that_is_told_before_its_request_is_answered_can_be_cancelled(tmp_path):
    """And the answer that comes then carries no id at all."""
    body = """
    answer(hear("initialize"), {})
    answer(hear("thread/start"), {"thread": {"id": THREAD}})
    turn = hear("turn/start")
    note("turn/started", threadId=THREAD, turn={"id": "t-1"})
    answer(turn, {})
    say_text("working", turn="t-1")
    interrupt = hear("turn/interrupt")
    answer(interrupt, {})
    done(turn="t-1", status="interrupted"); until_eof()
    """
    session = await start(tmp_path, body)
    async for message in session.messages:
        if message.type is MessageType.TEXT:
            await session.cancel()
    result = await session.result()
    assert (result.status, result.output) == (RunStatus.CANCELLED, "working")
    assert sent(tmp_path, "turn/interrupt") == [{"threadId": "th-1", "turnId": "t-1"}]


async def test_a_turn_that_ends_before_its_request_is_answered_has_ended(tmp_path):
    body = """
    answer(hear("initialize"), {})
    answer(hear("thread/start"), {"thread": {"id": THREAD}})
    turn = hear("turn/start")
    note("turn/started", threadId=THREAD, turn={"id": TURN})
    say_text("quick"); done()
    answer(turn, {"turn": {"id": TURN}})
    until_eof()
    """
    _, result = await run(tmp_path, body)
    assert (result.status, result.output) == (RunStatus.COMPLETED, "quick")


async def test_an_interrupt_that_is_never_answered_ends_by_the_ladder(tmp_path):
    body = """
    begin()
    say_text("part one")
    hear("turn/interrupt")
    until_eof()
    while True:
        time.sleep(60)
    """
    session = await start(tmp_path, body)
    async for message in session.messages:
        if message.type is MessageType.TEXT:
            await session.cancel()
            await session.cancel()
    result = await session.result()
    assert (result.status, result.output, result.session_id) == (RunStatus.CANCELLED, "part one", "th-1")
    assert not alive(int((tmp_path / "starts").read_text()))


async def test_a_turn_the_server_interrupts_itself_is_a_failure_and_keeps_its_words(tmp_path):
    body = """
    begin()
    note("item/agentMessage/delta", threadId=THREAD, turnId=TURN, itemId="m", delta="half a wo")
    done(status="interrupted"); until_eof()
    """
    messages, result = await run(tmp_path, body)
    assert (result.status, result.output) == (RunStatus.FAILED, "half a wo")
    assert "by itself" in result.error
    assert texts(messages) == ["half a wo"]


async def test_a_turn_interrupted_because_a_question_was_refused_says_so(tmp_path):
    body = """
    begin()
    ask(3, "future/question")
    done(status="interrupted"); until_eof()
    """
    _, result = await run(tmp_path, body)
    assert result.status is RunStatus.FAILED
    assert "future/question" in result.error


async def test_half_a_turn_is_no_answer(tmp_path):
    _, result = await run(tmp_path, "begin(); say_text('so far'); sys.exit(0)")
    assert (result.status, result.output) == (RunStatus.FAILED, "so far")
    assert result.failure_reason is FailureReason.PROCESS
    assert "before its turn had ended" in result.error


async def test_a_server_that_closes_its_output_and_lives_is_ended(tmp_path):
    body = """
    begin(); say_text("so far")
    os.close(1)
    while True:
        time.sleep(60)
    """
    _, result = await run(tmp_path, body)
    assert (result.status, result.output) == (RunStatus.FAILED, "so far")
    assert "closed its output" in result.error


async def test_a_flood_of_notifications_changes_neither_the_answer_nor_the_order(tmp_path):
    body = """
    begin()
    delta = {"threadId": THREAD, "turnId": TURN, "itemId": "m", "delta": "word "}
    one = json.dumps({"method": "item/agentMessage/delta", "params": delta}).encode() + b"\\n"
    other = json.dumps({"method": "future/thing", "params": {"threadId": THREAD, "turnId": TURN}}).encode() + b"\\n"
    for n in range(500):
        raw(one * 190 + other * 10)
    say_text("word " * 95000, item_id="m"); tokens((100, 0, 5), (100, 0, 5)); done(); until_eof()
    """
    messages, result = await run(tmp_path, body)
    assert (result.status, result.output) == (RunStatus.COMPLETED, "word " * 95000)
    assert texts(messages) == [result.output]
    assert result.counts.lines > 100_000
    assert result.usage == {"m-1": TokenUsage(100, 5)}


async def test_a_turn_that_falls_silent_after_making_room_keeps_its_thread(tmp_path):
    body = """
    begin()
    item("contextCompaction", "c", when="started"); item("contextCompaction", "c")
    until_eof()
    """
    messages, result = await run(tmp_path, body, first_progress_timeout=0.4, semantic_inactivity_timeout=0.4)
    assert result.status is RunStatus.TIMEOUT
    assert (result.session_id, result.resume_rejected) == ("th-1", False)
    assert result.failure_reason is FailureReason.CODEX_SEMANTIC_INACTIVITY
    assert "compacting" in [m.status for m in messages]


async def test_a_thought_that_codex_keeps_to_itself_is_work(tmp_path):
    """A model that thinks for longer than the first word may take, and shows nothing of it, is not stuck."""
    body = """
    begin()
    item("reasoning", "r", when="started")
    time.sleep(1.6)
    say_text("thought through"); done(); until_eof()
    """
    _, result = await run(tmp_path, body, first_progress_timeout=1)
    assert (result.status, result.output) == (RunStatus.COMPLETED, "thought through")


# ── the two repetitions ──────────────────────────────────────────────────────────────


async def test_a_first_turn_stuck_in_the_model_list_is_repeated_on_a_new_thread(tmp_path):
    body = """
    if starts() == 1:
        answer(hear("initialize"), {})
        answer(hear("thread/resume"), {"thread": {"id": "th-old"}})
        answer(hear("turn/start"), {"turn": {"id": TURN}})
        note("turn/started", threadId="th-old", turn={"id": TURN})
        os.write(2, b"ERROR codex_models: failed to refresh available models: timeout\\n")
        until_eof()
    begin(); say_text("second try"); done(); until_eof()
    """
    messages, result = await run(tmp_path, body, resume_session_id="th-old", first_progress_timeout=2)
    assert (result.status, result.output, result.session_id) == (RunStatus.COMPLETED, "second try", "th-1")
    assert [m.session_id for m in messages if m.session_id] == ["th-1"]
    first, second = sent(tmp_path, "turn/start")
    assert first["input"][0]["text"] == "do it"
    assert "could not be resumed" in second["input"][0]["text"]
    assert second["input"][0]["text"].endswith("do it")


async def test_a_first_turn_that_is_silent_for_another_reason_is_not_repeated(tmp_path):
    _, result = await run(tmp_path, "begin(); until_eof()", first_progress_timeout=0.4)
    assert (result.status, result.failure.watchdog) == (RunStatus.TIMEOUT, Watchdog.FIRST_PROGRESS)
    assert result.failure_reason is FailureReason.CODEX_SEMANTIC_INACTIVITY
    assert starts(tmp_path) == 1


# ── resuming ─────────────────────────────────────────────────────────────────────────


def _resume(reply: str) -> str:
    return f"""
    answer(hear("initialize"), {{}})
    request = hear("thread/resume")
    {reply}
    start = hear("thread/start")
    answer(start, {{"thread": {{"id": THREAD}}, "model": "m-1"}})
    answer(hear("turn/start"), {{"turn": {{"id": TURN}}}})
    say_text("from scratch"); done(); until_eof()
    """


@pytest.mark.parametrize(
    ("reply", "rejected"),
    [
        ('refuse(request, -32600, "no rollout found for thread id th-old")', True),
        ('refuse(request, -32603, "internal error")', False),
        ("answer(request, {})", False),
        ('raw(b\'{"id":%d,"result":{"thread":{"turns":"\' % request["id"] + b"x" * (40 << 20) + b\'"}}}\\n\')', True),
    ],
    ids=["gone", "protocol-error", "no-id", "forty-megabytes"],
)
async def test_a_thread_that_cannot_be_resumed_is_replaced_once_and_the_agent_is_told(tmp_path, reply, rejected):
    messages, result = await run(tmp_path, _resume(reply), resume_session_id="th-old")
    assert (result.status, result.output) == (RunStatus.COMPLETED, "from scratch")
    assert (result.session_id, result.resume_rejected) == ("th-1", rejected)
    assert starts(tmp_path) == 1
    (turn,) = sent(tmp_path, "turn/start")
    assert "could not be resumed" in turn["input"][0]["text"]
    assert [m for m in messages if m.level == "warn" and "a new one begins" in m.content]


async def test_a_thread_longer_than_any_line_may_be_is_given_up_with_its_process(tmp_path):
    body = """
    answer(hear("initialize"), {})
    if starts() == 1:
        hear("thread/resume")
        for n in range(66):
            raw(b"x" * (1 << 20))
        until_eof()
    answer(hear("thread/start"), {"thread": {"id": THREAD}})
    answer(hear("turn/start"), {"turn": {"id": TURN}})
    say_text("from scratch"); done(); until_eof()
    """
    _, result = await run(tmp_path, body, resume_session_id="th-old")
    assert (result.status, result.output) == (RunStatus.COMPLETED, "from scratch")
    assert (result.session_id, result.resume_rejected, starts(tmp_path)) == ("th-1", True, 2)


async def test_a_crash_while_resuming_is_no_rejection(tmp_path):
    body = """
    answer(hear("initialize"), {})
    hear("thread/resume")
    os.kill(os.getpid(), signal.SIGKILL)
    """
    _, result = await run(tmp_path, body, resume_session_id="th-old")
    assert (result.status, result.resume_rejected) == (RunStatus.FAILED, False)
    assert result.exit_signal == signal.SIGKILL
    assert starts(tmp_path) == 1


async def test_the_agent_is_told_once_that_it_remembers_nothing(tmp_path):
    body = "begin(); say_text('x'); done(); until_eof()"
    await run(tmp_path, body, resume_expected=True)
    (turn,) = sent(tmp_path, "turn/start")
    assert turn["input"][0]["text"].count("could not be resumed") == 1
