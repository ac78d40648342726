"""Anthropic Messages: `POST /v1/messages`, streamed as named server-sent events or whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from tests.fakes.model_server.conversation import Conversation, Tool, read_turns, spoken, text_of
from tests.fakes.model_server.dialect import Piece, named_event
from tests.fakes.model_server.scenarios import Answer, Failure, FailureKind, Stop, Tokens

SIGNATURE = "bG9vcGJhY2stc2lnbmF0dXJl"
_ERROR_TYPES = {
    FailureKind.UNAUTHORIZED: "authentication_error",
    FailureKind.RATE_LIMITED: "rate_limit_error",
    FailureKind.SERVER: "api_error",
    FailureKind.OVERLOADED: "overloaded_error",
    FailureKind.QUOTA: "invalid_request_error",
    FailureKind.CONTEXT: "invalid_request_error",
    FailureKind.FORBIDDEN: "permission_error",
    FailureKind.NO_MODEL: "not_found_error",
    FailureKind.INVALID: "invalid_request_error",
    FailureKind.TOO_LARGE: "request_too_large",
}
_STOP_REASONS = {Stop.END: "end_turn", Stop.MAX_TOKENS: "max_tokens", Stop.REFUSAL: "refusal"}


def read(body: dict[str, Any]) -> Conversation:
    """Read a Messages request. A tool's result is a block of a user turn here."""
    turns: list[tuple[bool, str]] = []
    for message in body.get("messages", []):
        if message.get("role") != "user":
            continue
        content = message.get("content")
        blocks = content if isinstance(content, list) else []
        turns += [(True, "") for block in blocks if block.get("type") == "tool_result"]
        turns.append((False, text_of(content)))
    words, results = read_turns(turns)
    tools = tuple(Tool(tool["name"], tool.get("input_schema") or {}) for tool in body.get("tools") or [])
    return Conversation(
        body.get("model", ""), bool(body.get("stream")), words, results, tools, len(body.get("messages", []))
    )


def refusal(failure: Failure) -> tuple[int, dict[str, Any]]:
    """Status and error document; an empty account is a 400 about the credit balance here, not a 429."""
    status, message = failure.status, failure.message
    if failure.kind is FailureKind.QUOTA:
        status = 400
        message = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing."
    error = {"type": _ERROR_TYPES[failure.kind], "message": message}
    return status, {"type": "error", "error": error, "request_id": f"req_{uuid4().hex[:20]}"}


def error_event(failure: Failure, conversation: Conversation, number: int) -> Piece:
    """A failure in the middle of a stream."""
    _, document = refusal(failure)
    return Piece(named_event("error", document))


def whole(answer: Answer, conversation: Conversation) -> dict[str, Any]:
    """The answer as one JSON document (`stream` false)."""
    return {
        **_envelope(conversation, answer.tokens),
        "content": [_whole_block(block) for block in _blocks(answer, conversation)],
        "stop_reason": _stop_reason(answer),
        "usage": _usage(answer.tokens, answer.tokens.output),
    }


def stream(answer: Answer, conversation: Conversation) -> Iterator[Piece]:
    """The answer as events. The first says one output token, as Anthropic's does: the right count comes at the end."""
    start = {**_envelope(conversation, answer.tokens), "content": [], "stop_reason": None}
    yield _event("message_start", message=start)
    for index, block in enumerate(_blocks(answer, conversation)):
        yield _event("content_block_start", index=index, content_block=_opened(block))
        for delta in _deltas(block, answer):
            yield _event("content_block_delta", is_text=delta["type"] == "text_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    yield _event(
        "message_delta",
        delta={"stop_reason": _stop_reason(answer), "stop_sequence": None},
        usage={"output_tokens": answer.tokens.output},
    )
    yield _event("message_stop")


def _event(kind: str, *, is_text: bool = False, **fields: Any) -> Piece:
    return Piece(named_event(kind, {"type": kind, **fields}), is_text=is_text)


def _envelope(conversation: Conversation, tokens: Tokens) -> dict[str, Any]:
    return {
        "id": f"msg_{uuid4().hex[:20]}",
        "type": "message",
        "role": "assistant",
        "model": conversation.model,
        "stop_sequence": None,
        "usage": _usage(tokens, 1),
    }


def _usage(tokens: Tokens, output: int) -> dict[str, int]:
    return {
        "input_tokens": tokens.uncached,
        "cache_read_input_tokens": tokens.cache_read,
        "cache_creation_input_tokens": tokens.cache_write,
        "output_tokens": output,
    }


def _stop_reason(answer: Answer) -> str:
    return "tool_use" if answer.calls else _STOP_REASONS[answer.stop]


def _blocks(answer: Answer, conversation: Conversation) -> Iterator[dict[str, Any]]:
    """The answer's blocks; a call's input is still text, as it is streamed."""
    if answer.thinking:
        yield {"type": "thinking", "thinking": answer.thinking, "signature": SIGNATURE}
    if answer.text:
        yield {"type": "text", "text": "".join(answer.text)}
    for call in answer.calls:
        name, arguments = spoken(conversation.tools, call)
        yield {"type": "tool_use", "id": f"toolu_{uuid4().hex[:20]}", "name": name, "input": arguments}


def _whole_block(block: dict[str, Any]) -> dict[str, Any]:
    """A block outside a stream, where a call's input is an object; broken arguments stay the text they are."""
    if block["type"] != "tool_use":
        return block
    try:
        return {**block, "input": json.loads(block["input"])}
    except ValueError:
        return block


def _opened(block: dict[str, Any]) -> dict[str, Any]:
    emptied: dict[str, dict[str, Any]] = {
        "thinking": {"thinking": "", "signature": ""},
        "text": {"text": ""},
        "tool_use": {"input": {}},
    }
    return {**block, **emptied[block["type"]]}


def _deltas(block: dict[str, Any], answer: Answer) -> Iterator[dict[str, Any]]:
    if block["type"] == "text":
        for piece in answer.text:
            yield {"type": "text_delta", "text": piece}
    elif block["type"] == "thinking":
        yield {"type": "thinking_delta", "thinking": block["thinking"]}
        yield {"type": "signature_delta", "signature": block["signature"]}
    else:
        arguments = block["input"]
        middle = len(arguments) // 2
        yield {"type": "input_json_delta", "partial_json": arguments[:middle]}
        yield {"type": "input_json_delta", "partial_json": arguments[middle:]}
