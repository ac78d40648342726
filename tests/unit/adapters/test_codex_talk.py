"""A conversation with codex in memory: what is silent, what speaks the older protocol, what is nonsense."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard_adapters.base import Alive, Output, Reply, Stop, Timer, TurnEnded, Usage
from callboard_adapters.codex_talk import Conversation, Wishes
from callboard_adapters.messages import Message, MessageType, TokenUsage
from callboard_wire.failures import FailureReason

THREAD, TURN = "th-1", "tu-1"


class Talk:
    """Feeds a `Conversation` and keeps what it said."""

    def __init__(self, **wishes: Any) -> None:
        self.conversation = Conversation(Wishes("do it", "/work-dir", "danger-full-access", **wishes))
        self.said: list[Output] = []
        self.sent = [json.loads(self.conversation.start())]

    def hear(self, **message: Any) -> Sequence[Output]:
        return self.take(self.conversation.receive(json.dumps(message).encode()))

    def take(self, outputs: Sequence[Output]) -> Sequence[Output]:
        self.said += outputs
        self.sent += [json.loads(o.data) for o in outputs if isinstance(o, Reply)]
        return outputs

    def answer(self, method: str, result: Any) -> list[Output]:
        (request_id,) = [m["id"] for m in self.sent if m.get("method") == method][-1:]
        return self.hear(id=request_id, result=result)

    def begin(self) -> Talk:
        self.answer("initialize", {})
        self.answer("thread/start", {"thread": {"id": THREAD}, "model": "m-1"})
        self.answer("turn/start", {"turn": {"id": TURN}})
        return self

    def note(self, method: str, **params: Any) -> list[Output]:
        return self.hear(method=method, params={"threadId": THREAD, "turnId": TURN, **params})

    def event(self, kind: str, **message: Any) -> list[Output]:
        return self.hear(method=f"codex/event/{kind}", params={"id": TURN, "msg": {"type": kind, **message}})

    def messages(self, kind: MessageType) -> list[Message]:
        return [o for o in self.said if isinstance(o, Message) and o.type is kind]

    @property
    def ended(self) -> str:
        end = self.conversation.turn.end if self.conversation.turn else None
        return end.status if end else ""


# ── turns whose end got lost ──────────────────────────────────────────────────────────


def text_item(text: str, item_id: str = "m", **more: Any) -> dict[str, Any]:
    return {"type": "agentMessage", "id": item_id, "text": text, **more}


def test_an_idle_thread_ends_its_turn_only_when_the_turns_own_end_does_not_come():
    talk = Talk().begin()
    talk.note("item/completed", item=text_item("said"))
    outputs = talk.note("thread/status/changed", status={"type": "idle"})
    assert [o.name for o in outputs if isinstance(o, Timer) and o.seconds] == ["idle"]
    assert not talk.ended
    talk.take(talk.conversation.tick("idle"))
    assert (talk.ended, talk.conversation.turn.shown.answer) == ("completed", "said")
    assert [type(o) for o in talk.said].count(TurnEnded) == 1


def test_a_thread_that_goes_on_after_being_idle_is_not_over():
    talk = Talk().begin()
    talk.note("item/completed", item=text_item("said"))
    talk.note("thread/status/changed", status={"type": "idle"})
    outputs = talk.note("thread/status/changed", status={"type": "active"})
    assert Timer("idle", None) in outputs


def test_an_idle_thread_that_never_said_a_word_has_failed():
    talk = Talk().begin()
    talk.note("turn/started", turn={"id": TURN})
    talk.note("thread/status/changed", status={"type": "idle"})
    talk.take(talk.conversation.tick("idle"))
    assert talk.ended == "failed"


def test_idle_from_before_the_turn_means_nothing():
    talk = Talk().begin()
    outputs = talk.note("thread/status/changed", status={"type": "idle"})
    assert not [o for o in outputs if isinstance(o, Timer)]


def test_a_silent_turn_is_asked_about_and_a_healthy_thread_ends_it():
    """Compactions have lost their turn's end: nothing comes any more, and the thread is well."""
    talk = Talk().begin()
    talk.note("item/completed", item=text_item("said"))
    assert not [o for o in talk.take(talk.conversation.tick("probe")) if isinstance(o, Reply)]
    asked = [o for o in talk.take(talk.conversation.tick("probe")) if isinstance(o, Reply)]
    assert json.loads(asked[0].data)["method"] == "thread/read"
    assert not [o for o in talk.take(talk.conversation.tick("probe")) if isinstance(o, Reply)]
    talk.answer("thread/read", {"thread": {"id": THREAD, "status": {"type": "active"}}})
    assert not talk.ended
    talk.take(talk.conversation.tick("probe"))
    talk.take(talk.conversation.tick("probe"))
    talk.answer("thread/read", {"thread": {"id": THREAD, "status": {"type": "idle"}}})
    assert talk.ended == "completed"


def test_a_running_tool_is_not_asked_about():
    talk = Talk().begin()
    talk.note("item/started", item={"type": "commandExecution", "id": "c", "command": "make"})
    for _ in range(3):
        assert not [o for o in talk.take(talk.conversation.tick("probe")) if isinstance(o, Reply)]


def test_a_tool_that_never_came_back_is_closed_with_its_turn():
    talk = Talk().begin()
    talk.note("item/started", item={"type": "commandExecution", "id": "c", "command": "make"})
    talk.note("turn/completed", turn={"id": TURN, "status": "interrupted"})
    (result,) = talk.messages(MessageType.TOOL_RESULT)
    assert (result.call_id, result.status) == ("c", "failed")


def test_a_turn_request_that_is_never_answered_is_taken_as_it_is():
    talk = Talk()
    talk.answer("initialize", {})
    talk.answer("thread/start", {"thread": {"id": THREAD}})
    talk.note("item/completed", item=text_item("said"))
    talk.note("turn/completed", turn={"id": TURN, "status": "completed"})
    assert not talk.ended
    talk.take(talk.conversation.tick("turn-answer"))
    assert (talk.ended, talk.conversation.turn.shown.answer) == ("completed", "said")


def test_the_last_message_is_the_answer_unless_one_is_marked_final():
    talk = Talk().begin()
    talk.note("item/completed", item=text_item("final", "a", phase="final_answer"))
    talk.note("item/completed", item=text_item("a remark", "b", phase="commentary"))
    assert not talk.ended  # what is billed and whether it failed still follows
    talk.note("turn/completed", turn={"id": TURN, "status": "completed"})
    assert talk.conversation.turn.shown.answer == "final"


def test_a_message_whose_own_event_was_lost_is_in_the_summary_of_its_turn():
    talk = Talk().begin()
    talk.note("turn/completed", turn={"id": TURN, "status": "completed", "items": [text_item("late")]})
    assert [m.content for m in talk.messages(MessageType.TEXT)] == ["late"]


def test_a_turn_with_an_unknown_status_is_not_called_a_success():
    talk = Talk().begin()
    talk.note("turn/completed", turn={"id": TURN, "status": "exploded"})
    assert talk.ended == "failed"
    assert "exploded" in talk.conversation.turn.end.error.text


def test_the_tokens_of_an_agent_it_spawned_are_this_runs_and_those_of_other_threads_are_not():
    talk = Talk().begin()
    counts = {"total": {"inputTokens": 10, "outputTokens": 1}, "last": {"inputTokens": 10, "outputTokens": 1}}
    talk.hear(method="thread/started", params={"thread": {"id": "child", "parentThreadId": THREAD}})
    for thread in ("child", "memories"):
        talk.hear(method="thread/tokenUsage/updated", params={"threadId": thread, "turnId": "x", "tokenUsage": counts})
    assert talk.conversation.usage.by_model() == {"m-1": TokenUsage(10, 1)}


def spent(calls: int) -> dict[str, Any]:
    """What a thread of `calls` model calls announces."""
    last = {"inputTokens": 10, "outputTokens": 1}
    return {"total": {name: count * calls for name, count in last.items()}, "last": last}


@pytest.mark.parametrize("earlier", [1, 5])
def test_a_resumed_threads_old_bill_announced_inside_the_new_turn_is_not_this_runs(earlier):
    talk = Talk(resume=THREAD)
    talk.answer("initialize", {})
    talk.answer("thread/resume", {"thread": {"id": THREAD}, "model": "m-1"})
    talk.answer("turn/start", {"turn": {"id": TURN}})
    talk.note("turn/started", turn={"id": TURN})
    talk.note("item/completed", item={"type": "userMessage", "id": "u"})
    talk.note("thread/tokenUsage/updated", tokenUsage=spent(earlier))
    assert talk.conversation.usage.by_model() == {}
    talk.note("item/completed", item=text_item("recalled"))
    talk.note("thread/tokenUsage/updated", tokenUsage=spent(earlier + 1))
    assert talk.conversation.usage.by_model() == {"m-1": TokenUsage(10, 1)}


@pytest.mark.parametrize("tier", ["", "priority"])
def test_an_empty_wish_is_not_sent(tier):
    talk = Talk(tier=tier).begin()
    for method in ("thread/start", "turn/start"):
        (params,) = [m["params"] for m in talk.sent if m.get("method") == method]
        assert params.get("serviceTier") == (tier or None)
        assert ("serviceTier" in params) == bool(tier)
        assert "effort" not in params
        assert "model" not in params


def test_what_a_newer_codex_says_is_kept_as_a_log():
    talk = Talk().begin()
    talk.note("galaxy/brain", size=3)
    talk.note("galaxy/brain", size=4)
    talk.note("item/completed", item={"type": "hologram", "id": "h", "shape": "cube"})
    logs = talk.messages(MessageType.LOG)
    assert [m.level for m in logs] == ["warn", "debug", "warn"]
    assert any("hologram" in m.content and "cube" in m.content for m in logs)


def test_an_end_with_a_summary_of_unknown_shape_is_still_an_end():
    talk = Talk().begin()
    talk.note("turn/completed", turn={"id": TURN, "status": "completed", "items": 5, "usage": [], "error": {}})
    assert talk.ended == "completed"


def test_nothing_is_granted_once_the_turn_is_over():
    talk = Talk().begin()
    talk.note("turn/completed", turn={"id": TURN, "status": "interrupted"})
    talk.hear(id=9, method="item/commandExecution/requestApproval", params={})
    assert talk.sent[-1] == {"jsonrpc": "2.0", "id": 9, "result": {"decision": "cancel"}}
    assert not talk.conversation.interrupted


# ── the older protocol ─────────────────────────────────────────────────────────────────


def legacy() -> Talk:
    talk = Talk().begin()
    talk.event("session_configured", model="m-1")
    talk.event("task_started")
    return talk


def test_the_older_events_tell_the_same_story():
    talk = legacy()
    talk.event("agent_reasoning", text="hmm")
    talk.event("exec_command_begin", call_id="c1", command=["bash", "-lc", "echo hi"])
    talk.event("exec_command_end", call_id="c1", output="hi\n", exit_code=0)
    talk.event("patch_apply_begin", call_id="p1", changes={"a.py": {"type": "add", "content": "x"}})
    talk.event("patch_apply_end", call_id="p1", success=False, stderr="no such file")
    call = {"server": "docs", "tool": "search", "arguments": {"q": 1}}
    talk.event("mcp_tool_call_begin", call_id="m1", invocation=call)
    talk.event("mcp_tool_call_end", call_id="m1", invocation=call, result={"Err": "refused"})
    talk.event("agent_message", message="all done")
    counts = {"input_tokens": 100, "cached_input_tokens": 40, "output_tokens": 7}
    talk.event("token_count", info={"total_token_usage": counts, "last_token_usage": counts})
    talk.event("task_complete", last_agent_message="all done")
    assert talk.ended == "completed"
    shown = [o for o in talk.said if isinstance(o, Message) and o.type is not MessageType.LOG]
    assert [(m.type.value, m.tool, m.status) for m in shown] == [
        ("thinking", "", ""),
        ("tool-use", "exec_command", ""),
        ("tool-result", "exec_command", "completed"),
        ("tool-use", "patch_apply", ""),
        ("tool-result", "patch_apply", "failed"),
        ("tool-use", "search", ""),
        ("tool-result", "search", "failed"),
        ("text", "", ""),
    ]
    assert shown[1].input == {"command": "bash -lc 'echo hi'"}
    assert shown[4].output == "no such file"
    assert talk.conversation.usage.by_model() == {"m-1": TokenUsage(60, 7, 40)}


def test_an_older_turn_that_was_aborted_is_interrupted():
    talk = legacy()
    talk.event("turn_aborted", reason="interrupted")
    assert talk.ended == "interrupted"


def test_an_older_error_fails_the_turn():
    talk = legacy()
    talk.event("stream_error", message="retrying 1/5")
    talk.event("error", message="quota exceeded", codex_error_info="usageLimitExceeded")
    talk.event("task_complete")
    assert talk.ended == "failed"
    assert [m.status for m in talk.messages(MessageType.STATUS)] == ["retrying"]


def test_a_server_that_tells_everything_in_both_protocols_is_heard_once():
    talk = legacy()
    talk.event("agent_message", message="twice")
    talk.note("turn/started", turn={"id": TURN})
    talk.note("item/completed", item=text_item("twice"))
    talk.event("task_complete")
    assert [m.content for m in talk.messages(MessageType.TEXT)] == ["twice"]


def test_a_server_of_both_protocols_is_heard_in_todays_whichever_it_speaks_first():
    talk = legacy()
    talk.note("turn/started", turn={"id": TURN})
    talk.event("error", message="no room left", codex_error_info="context_window_exceeded")
    talk.note("error", error={"message": "no room left", "codexErrorInfo": "contextWindowExceeded"})
    talk.note("item/started", item={"type": "commandExecution", "id": "c", "command": "ls", "cwd": "/w"})
    assert [m.content for m in talk.messages(MessageType.ERROR)] == ["no room left"]
    assert [m.input for m in talk.messages(MessageType.TOOL_USE)] == [{"command": "ls", "cwd": "/w"}]


@pytest.mark.parametrize(
    ("info", "reason", "status"),
    [
        ("context_window_exceeded", FailureReason.CONTEXT_OVERFLOW, None),
        ("usage_limit_exceeded", FailureReason.QUOTA, None),
        ("internal_server_error", FailureReason.SERVER_ERROR, None),
        ({"http_connection_failed": {"http_status_code": 401}}, FailureReason.AUTH, 401),
        ({"response_stream_disconnected": {"http_status_code": None}}, FailureReason.NETWORK, None),
    ],
)
def test_the_older_events_name_the_kind_of_an_error_in_their_own_spelling(info, reason, status):
    talk = legacy()
    talk.event("error", message="it went wrong", codex_error_info=info)
    talk.event("task_complete")
    failure = talk.conversation.turn.end.error.failure()
    assert (failure.reason, failure.http_status) == (reason, status)


def test_an_announcement_in_the_older_words_does_not_make_the_server_old():
    talk = Talk().begin()
    talk.event("session_configured", model="m-1")
    talk.note("item/completed", item=text_item("today"))
    assert [m.content for m in talk.messages(MessageType.TEXT)] == ["today"]


# ── nonsense ───────────────────────────────────────────────────────────────────────────

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from([THREAD, TURN, "tu-2", "idle", "", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "id",
                    "type",
                    "item",
                    "turn",
                    "thread",
                    "status",
                    "text",
                    "error",
                    "message",
                    "threadId",
                    "turnId",
                    "msg",
                    "tokenUsage",
                    "total",
                    "last",
                    "inputTokens",
                    "changes",
                    "items",
                    "willRetry",
                    "delta",
                    "itemId",
                    "questions",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)
METHODS = [
    *("turn/started", "turn/completed", "item/started", "item/completed", "item/agentMessage/delta", "error"),
    *("thread/started", "thread/status/changed", "thread/tokenUsage/updated", "thread/compacted", "turn/plan/updated"),
    *("model/rerouted", "codex/event", "codex/event/task_complete", "warning", "mcpServer/startupStatus/updated"),
    *("item/tool/requestUserInput", "item/permissions/requestApproval", "mcpServer/elicitation/request", "x/y"),
]
messages = st.fixed_dictionaries(
    {},
    optional={
        "method": st.sampled_from(METHODS),
        "params": values,
        "id": st.integers(0, 4) | st.none() | st.sampled_from(["a", 1.0, True]),
        "result": values,
        "error": values,
    },
)


@settings(max_examples=300)
@given(st.booleans(), st.lists(messages, max_size=12), st.integers(0, 12))
def test_no_conversation_raises_and_a_turn_ends_at_most_once(resumed, said, cancel_at):
    talk = Talk(resume=THREAD if resumed else "")
    if not resumed:
        talk.begin()
    for at, message in enumerate(said):
        talk.hear(**message)
        if at == cancel_at:
            talk.take(talk.conversation.interrupt())
    for timer in ("turn-answer", "probe", "idle"):
        talk.take(talk.conversation.tick(timer))
    assert [type(o) for o in talk.said].count(TurnEnded) <= 1
    used = [m.call_id for m in talk.messages(MessageType.TOOL_USE)]
    ended = [m.call_id for m in talk.messages(MessageType.TOOL_RESULT)]
    assert len(used) == len(set(used))
    assert set(ended) <= set(used)
    assert all(isinstance(o, Alive | Usage | Stop | Message | Reply | Timer) or o for o in talk.said)
