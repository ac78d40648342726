"""OpenAI Chat Completions: `POST /v1/chat/completions`, streamed as unnamed events and `[DONE]`, or whole."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from tests.fakes.model_server.conversation import Conversation, Tool, read_turns, spoken, text_of
from tests.fakes.model_server.dialect import Piece, data_event
from tests.fakes.model_server.scenarios import Answer, Call, Failure, FailureKind, Stop, Tokens

ERROR_TYPES = {  # (type, code): the same for the Responses API
    FailureKind.UNAUTHORIZED: ("invalid_request_error", "invalid_api_key"),
    FailureKind.RATE_LIMITED: ("requests", "rate_limit_exceeded"),
    FailureKind.SERVER: ("server_error", None),
    FailureKind.OVERLOADED: ("server_error", "overloaded"),
    FailureKind.QUOTA: ("insufficient_quota", "insufficient_quota"),
    FailureKind.CONTEXT: ("invalid_request_error", "context_length_exceeded"),
    FailureKind.FORBIDDEN: ("request_forbidden", None),
    FailureKind.NO_MODEL: ("invalid_request_error", "model_not_found"),
    FailureKind.INVALID: ("invalid_request_error", None),
    FailureKind.TOO_LARGE: ("invalid_request_error", "request_too_large"),
}
_FINISH_REASONS = {Stop.END: "stop", Stop.MAX_TOKENS: "length", Stop.REFUSAL: "content_filter"}


def read(body: dict[str, Any]) -> Conversation:
    """Read a Chat Completions request. A tool's result is a turn of its own, role `tool`."""
    messages = body.get("messages", [])
    turns = [
        (message["role"] == "tool", text_of(message.get("content")))
        for message in messages
        if message.get("role") in ("user", "tool")
    ]
    words, results = read_turns(turns)
    functions = [tool["function"] for tool in body.get("tools") or [] if isinstance(tool.get("function"), dict)]
    tools = tuple(Tool(function["name"], function.get("parameters") or {}) for function in functions)
    return Conversation(body.get("model", ""), bool(body.get("stream")), words, results, tools, len(messages))


def refusal(failure: Failure) -> tuple[int, dict[str, Any]]:
    """Status and error document of OpenAI's APIs."""
    kind, code = ERROR_TYPES[failure.kind]
    return failure.status, {"error": {"message": failure.message, "type": kind, "param": None, "code": code}}


def error_event(failure: Failure, conversation: Conversation, number: int) -> Piece:
    """A failure in the middle of a stream: its error document as a chunk."""
    _, document = refusal(failure)
    return Piece(data_event(document))


def whole(answer: Answer, conversation: Conversation) -> dict[str, Any]:
    """The answer as one JSON document (`stream` false)."""
    message: dict[str, Any] = {"role": "assistant", "content": "".join(answer.text)}
    if answer.thinking:
        message["reasoning_content"] = answer.thinking
    if answer.calls:
        message["tool_calls"] = [_tool_call(call, conversation) for call in answer.calls]
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(answer)}
    return {
        **_envelope("chat.completion", conversation),
        "choices": [choice],
        "usage": _usage(answer.tokens),
    }


def stream(answer: Answer, conversation: Conversation) -> Iterator[Piece]:
    """The answer as chunks: role, reasoning, text, tool calls in two parts each, the reason, then usage alone."""
    envelope = _envelope("chat.completion.chunk", conversation)
    yield _chunk(envelope, {"role": "assistant", "content": ""})
    if answer.thinking:
        yield _chunk(envelope, {"reasoning_content": answer.thinking})
    for piece in answer.text:
        yield _chunk(envelope, {"content": piece}, is_text=True)
    for index, planned in enumerate(answer.calls):
        call = _tool_call(planned, conversation)
        arguments = call["function"]["arguments"]
        opened = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
        yield _chunk(envelope, {"tool_calls": [opened]})
        yield _chunk(envelope, {"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})
    yield _chunk(envelope, {}, finish_reason=_finish_reason(answer))
    yield Piece(data_event({**envelope, "choices": [], "usage": _usage(answer.tokens)}))
    yield Piece(b"data: [DONE]\n\n")


def _chunk(
    envelope: dict[str, Any], delta: dict[str, Any], *, finish_reason: str | None = None, is_text: bool = False
) -> Piece:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return Piece(data_event({**envelope, "choices": [choice]}), is_text=is_text)


def _envelope(kind: str, conversation: Conversation) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{uuid4().hex[:20]}",
        "object": kind,
        "created": int(time.time()),
        "model": conversation.model,
    }


def _usage(tokens: Tokens) -> dict[str, Any]:
    prompt = tokens.uncached + tokens.cache_read  # OpenAI's input includes the cached part
    return {
        "prompt_tokens": prompt,
        "completion_tokens": tokens.output,
        "total_tokens": prompt + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cache_read},
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
    }


def _finish_reason(answer: Answer) -> str:
    return "tool_calls" if answer.calls else _FINISH_REASONS[answer.stop]


def _tool_call(call: Call, conversation: Conversation) -> dict[str, Any]:
    name, arguments = spoken(conversation.tools, call)
    return {
        "id": f"call_{uuid4().hex[:20]}",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }
