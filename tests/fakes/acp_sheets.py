"""Kiro and TRAE as public reports describe them, as scripts for `acp_agent`.

Neither CLI could be run here (both need an account), so these are **not recordings**: they hold what users and
maintainers wrote about kiro-cli 2.1.1–2.13.0 and traecli 0.120.42, and no more.
"""

from __future__ import annotations

from typing import Any

Says = dict[str, list[dict[str, Any]]]

ANSWER = "The bug is fixed."


def text(said: str) -> dict[str, Any]:
    """A step: one piece of the agent's answer."""
    return {"update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": said}}}


def kiro(**others: list[dict[str, Any]]) -> Says:
    """Kiro: `Running: …` titles, the real tool in `_meta`, a result as an object, usage in the prompt's answer."""
    meta = {"kiro": {"toolName": "execute_bash"}}
    call = {"sessionUpdate": "tool_call", "toolCallId": "t1", "title": "Running: ls", "kind": "execute", "_meta": meta}
    items = {"items": [{"Json": {"exit_status": "0", "stdout": "a.txt"}}]}
    done = {"sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "completed", "rawOutput": items}
    usage = {"inputTokens": 100, "outputTokens": 20, "cachedReadTokens": 60, "totalTokens": 120}
    capabilities = {"loadSession": True, "mcpCapabilities": {"http": True, "sse": False}}
    return {
        "initialize": [{"result": {"protocolVersion": 1, "agentCapabilities": capabilities}}],
        "session/new": [{"result": {"sessionId": "s1", "models": {"currentModelId": "auto", "availableModels": []}}}],
        "session/load": [text("an old answer"), {"result": {}}],
        "session/set_model": [{"result": None}],
        "session/prompt": [
            {"update": {**call, "rawInput": {"command": "ls"}}},
            {"update": done},
            text(ANSWER),
            {"result": {"stopReason": "end_turn", "usage": usage}},
        ],
        **others,
    }


def traecli(**others: list[dict[str, Any]]) -> Says:
    """TRAE: tools with `name` and `parameters`, results in `output`, cost in the usage, no leaving by itself."""
    call = {"sessionUpdate": "tool_call", "toolCallId": "t1", "name": "Run Command", "parameters": {"command": "ls"}}
    done = {"sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "completed", "output": "a.txt"}
    usage = {"inputTokens": 100, "outputTokens": 20, "cachedReadTokens": 60, "totalTokens": 120, "costUsdTicks": 5000}
    capabilities = {"loadSession": True, "mcpCapabilities": {"http": True, "sse": True}}
    return {
        "initialize": [{"result": {"protocolVersion": 1, "agentCapabilities": capabilities}}],
        "session/new": [{"result": {"sessionId": "s1"}}],
        "session/load": [text("an old answer"), {"result": None}],
        "session/set_model": [{"result": {}}],
        "session/prompt": [
            {"update": call},
            {"update": done},
            text(ANSWER),
            {"result": {"stopReason": "end_turn", "usage": usage}},
        ],
        **others,
    }
