"""Nonsense on the wire: an ACP adapter never raises, always ends, and never calls nonsense a success."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callboard_adapters import RunStatus
from callboard_adapters.base import TurnEnded
from tests.contract.adapters.acp_play import EXITED, Talk
from tests.fakes.acp_sheets import kiro

ACP = ("grok", "hermes", "kimi", "kiro", "qoder", "traecli")
FUZZ = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

KEYS = [
    "sessionId", "update", "sessionUpdate", "type", "content", "text", "toolCallId", "title", "kind", "status",
    "rawInput", "rawOutput", "usage", "inputTokens", "totalTokens", "stopReason", "models", "currentModelId",
    "configOptions", "options", "modes", "availableModes", "_meta", "id", "optionId", "toolCall",
    "agentCapabilities", "authMethods", "cost", "entries", "hermes", "sessionProvenance", "acpSessionId",
    "modelUsage", "error", "code", "message", "data", "plan", "value",
]  # fmt: skip
WORDS = [
    "s1", "agent_message_chunk", "AgentThoughtChunk", "tool_call", "toolCallUpdate", "usage_update", "plan",
    "turn_end", "config_option_update", "retry_state", "response_completed", "completed", "failed", "in_progress",
    "end_turn", "cancelled", "refusal", "allow_once", "text", "diff", "USD", "model", "t1", "2",
]  # fmt: skip
METHODS = [
    "session/update", "session/notification", "session/request_permission", "fs/read_text_file",
    "_x.ai/session_notification", "_x.ai/session/update", "session/brand_new", "$/cancel_request",
]  # fmt: skip
scalars = (
    st.none() | st.booleans() | st.integers(-5, 2**60) | st.floats() | st.sampled_from(WORDS) | st.text(max_size=5)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=12,
)
updates = st.fixed_dictionaries({"sessionId": st.just("s1"), "update": values})
messages = st.one_of(
    st.builds(lambda m, p: {"method": m, "params": p}, st.sampled_from(METHODS), updates | values),
    st.builds(lambda m, i, p: {"method": m, "id": i, "params": p}, st.sampled_from(METHODS), scalars, values),
    st.builds(lambda i, r: {"id": i, "result": r}, st.integers(-1, 6) | scalars, values),
    st.builds(lambda i, e: {"id": i, "error": e}, st.integers(-1, 6) | scalars, values),
    values,
)
lines = messages.map(lambda m: json.dumps(m).encode()) | st.binary(max_size=40)


@pytest.mark.parametrize("provider", ACP)
@FUZZ
@given(said=st.lists(lines, max_size=25), cancel_at=st.integers(0, 40))
def test_whatever_comes_in_a_turn_nothing_raises_and_the_run_ends(provider, said, cancel_at):
    talk = Talk(provider, kiro(**{"session/prompt": []}), {"XAI_API_KEY": "x"}).start()
    for at, line in enumerate(said):
        talk.hear(line)
        if at == cancel_at:
            talk.cancel()
    for timer in ("tool-input", "quiet", "settled", "nobody's"):
        talk.do(talk.adapter.tick(timer))
    outcome = talk.end(EXITED)
    assert outcome.status is not RunStatus.COMPLETED or any(isinstance(o, TurnEnded) for o in talk.said)


@pytest.mark.parametrize("provider", ACP)
@FUZZ
@given(
    initialize=values,
    opened=values,
    settings_answer=values,
    prompt=values,
    resume=st.booleans(),
)
def test_whatever_the_answers_hold_the_conversation_ends(provider, initialize, opened, settings_answer, prompt, resume):
    def step(value: Any) -> list[dict]:
        return [{"error" if isinstance(value, dict) and "code" in value else "result": value}]

    says = kiro(
        **{
            "initialize": step(initialize),
            "authenticate": step(opened),
            "session/new": step(opened),
            "session/load": step(opened),
            "session/resume": step(opened),
            "session/set_model": step(settings_answer),
            "session/set_mode": step(settings_answer),
            "session/set_config_option": step(settings_answer),
            "session/prompt": step(prompt),
        }
    )
    talk = Talk(provider, says).start(model="m", thinking_level="high", resume_session_id="old" if resume else None)
    assert any(isinstance(o, TurnEnded) for o in talk.said), talk.methods()
    talk.end()
