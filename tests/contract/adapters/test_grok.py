"""Grok's sub-agents, which outlast the turn that started them, and an answer whose pieces come late."""

from __future__ import annotations

from typing import Any

from callboard_adapters import MessageType, RunStatus, TokenUsage
from callboard_adapters.base import ProcessExit, TurnEnded
from callboard_wire.failures import FailureReason
from tests.contract.adapters.acp_play import Talk
from tests.fakes.acp_sheets import kiro, text

CHILD = "child-session"
CALL = {"input_tokens": 10, "output_tokens": 2, "cache_read_input_tokens": 5}
BILL = {"inputTokens": 15, "outputTokens": 2, "totalTokens": 17, "cachedReadTokens": 5}


def event(kind: str, session: str = "s1", **fields: Any) -> dict[str, Any]:
    update = {"sessionUpdate": kind, **fields}
    return {"send": {"method": "_x.ai/session_notification", "params": {"sessionId": session, "update": update}}}


def answered(**meta: Any) -> dict[str, Any]:
    return {"result": {"stopReason": "end_turn", "_meta": {"modelId": "m", "usage": BILL, **meta}}}


SPAWNED = event("subagent_spawned", child_session_id=CHILD)
FINISHED = event("subagent_finished", child_session_id=CHILD, will_wake=True)
WORKED = event("response_completed", CHILD, usage=CALL)
WOKEN = [text("The agent found it."), event("response_completed", usage=CALL)]
OVER = event("turn_completed", prompt_id=f"subagent-completed-{CHILD}")
ONE, THREE = TokenUsage(10, 2, 5), TokenUsage(30, 6, 15)


def grok(*steps: dict[str, Any]) -> Talk:
    return Talk("grok", kiro(**{"session/prompt": [text("It runs."), *steps]})).start()


def ends(talk: Talk) -> int:
    return len([o for o in talk.said if isinstance(o, TurnEnded)])


def used(talk: Talk) -> TokenUsage:
    return sum(talk.end().usage.values(), TokenUsage())


def test_a_turn_that_left_an_agent_at_work_is_over_when_grok_has_read_what_it_found():
    talk = grok(SPAWNED, answered())
    assert (ends(talk), [m.status for m in talk.messages(MessageType.STATUS)]) == (0, ["waiting"])
    talk = grok(SPAWNED, answered(), WORKED, FINISHED, *WOKEN)
    assert ends(talk) == 0
    talk = grok(SPAWNED, answered(), WORKED, FINISHED, *WOKEN, OVER)
    outcome = talk.end()
    assert (ends(talk), outcome.status, outcome.output) == (1, RunStatus.COMPLETED, "The agent found it.")
    assert used(talk) == THREE, "the turn, the agent's call and the turn it began"


def test_an_agent_that_was_done_before_the_turn_is_in_its_bill_and_not_waited_for():
    done = event("subagent_finished", child_session_id=CHILD, will_wake=False)
    talk = grok(SPAWNED, WORKED, done, answered())
    assert (ends(talk), used(talk)) == (1, ONE)


def test_an_agent_whose_end_wakes_nobody_ends_the_wait():
    talk = grok(SPAWNED, answered(), WORKED, event("subagent_finished", child_session_id=CHILD))
    assert (ends(talk), talk.end().output, used(talk)) == (1, "It runs.", TokenUsage(20, 4, 10))


def test_a_wake_that_never_comes_is_waited_for_no_longer_than_its_time():
    talk = grok(SPAWNED, answered(), FINISHED)
    talk.do(talk.adapter.tick("wake"))
    assert (ends(talk), talk.end().output) == (1, "It runs.")


def test_a_grok_that_leaves_its_agents_behind_has_answered():
    outcome = grok(SPAWNED, answered(), WORKED).end(ProcessExit(0, None, None, False, ""))
    assert (outcome.status, outcome.output) == (RunStatus.COMPLETED, "It runs.")


def test_a_cancel_while_agents_work_ends_the_run_at_once():
    talk = grok(SPAWNED, answered()).cancel()
    assert ends(talk) == 1
    assert "session/cancel" in talk.methods()


def numbered(step: dict[str, Any], number: int) -> dict[str, Any]:
    message = step.get("send") or {"method": "session/update", "params": {"sessionId": "s1", **step}}
    return {"send": {**message, "params": {**message["params"], "_meta": {"eventId": f"s1-{number}"}}}}


def test_a_piece_of_a_broken_answer_that_comes_after_the_news_is_no_part_of_the_next():
    retry = event("retry_state", type="retrying", reason="cut")
    pieces = [(text("Hello fr"), 4), (retry, 6), (text("om the"), 5), (text("Hello "), 7), (text("from me."), 8)]
    says = [numbered(step, number) for step, number in pieces]
    talk = Talk("grok", kiro(**{"session/prompt": [*says, answered()]})).start()
    assert talk.end().output == "Hello from me."


def test_groks_word_for_a_filtered_answer_is_no_answer():
    said = text("The model provider refused to generate a response for this turn (content filter).")
    refused = {"result": {"stopReason": "refusal", "_meta": {"usage": BILL}}}
    outcome = Talk("grok", kiro(**{"session/prompt": [said, refused]})).start().end()
    assert (outcome.status, outcome.failure.reason) == (RunStatus.FAILED, FailureReason.AGENT_BLOCKED)
