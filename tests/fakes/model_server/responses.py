"""OpenAI Responses: `POST /v1/responses`, streamed as named events, or whole. Codex speaks only this."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from tests.fakes.model_server.chat import ERROR_TYPES
from tests.fakes.model_server.conversation import Conversation, Tool, read_turns, spoken, text_of
from tests.fakes.model_server.dialect import Piece, named_event
from tests.fakes.model_server.scenarios import Answer, Failure, FailureKind, Stop, Tokens

_IN_STREAM = (FailureKind.QUOTA, FailureKind.CONTEXT)
_INCOMPLETE = {Stop.MAX_TOKENS: "max_output_tokens", Stop.REFUSAL: "content_filter"}


def read(body: dict[str, Any]) -> Conversation:
    """Read a Responses request: its `input` is a string or a list of items, a tool's result an item of its own."""
    given = body.get("input", [])
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    turns: list[tuple[bool, str]] = []
    for item in items:
        if str(item.get("type", "")).endswith("_call_output"):
            turns.append((True, ""))
        elif item.get("role") == "user":
            turns.append((False, text_of(item.get("content"))))
    words, results = read_turns(turns)
    functions = [tool for tool in body.get("tools") or [] if tool.get("type") == "function"]
    tools = tuple(Tool(function["name"], function.get("parameters") or {}) for function in functions)
    return Conversation(body.get("model", ""), bool(body.get("stream")), words, results, tools, len(items))


def stream_failure(failure: Failure, conversation: Conversation) -> list[Piece] | None:
    """Quota and context arrive as `response.failed` in a 200 stream: codex knows their codes only from there."""
    if failure.kind not in _IN_STREAM:
        return None
    return [
        _event("response.created", 0, response=_response(conversation, "in_progress", [])),
        error_event(failure, conversation, 1),
    ]


def error_event(failure: Failure, conversation: Conversation, number: int) -> Piece:
    """`response.failed` as the event of this number: the last one of its stream."""
    _, code = ERROR_TYPES[failure.kind]
    failed = {**_response(conversation, "failed", []), "error": {"code": code, "message": failure.message}}
    return _event("response.failed", number, response=failed)


def whole(answer: Answer, conversation: Conversation) -> dict[str, Any]:
    """The answer as one JSON document (`stream` false)."""
    return {
        **_response(conversation, "completed", list(_items(answer, conversation)), answer.tokens),
        **_ending(answer),
    }


def stream(answer: Answer, conversation: Conversation) -> Iterator[Piece]:
    """The answer as events with rising sequence numbers: each item opened, its deltas, closed; then the whole."""
    items = list(_items(answer, conversation))
    response = _response(conversation, "in_progress", [])
    number = 0
    for kind, is_text, fields in _steps(answer, items, response):
        yield _event(kind, number, is_text=is_text, **fields)
        number += 1
    done = {**response, "output": items, "usage": _usage(answer.tokens), **_ending(answer)}
    yield _event(f"response.{done['status']}", number, response=done)


def _ending(answer: Answer) -> dict[str, Any]:
    if answer.stop is Stop.END:
        return {"status": "completed"}
    return {"status": "incomplete", "incomplete_details": {"reason": _INCOMPLETE[answer.stop]}}


def _steps(
    answer: Answer, items: list[dict[str, Any]], response: dict[str, Any]
) -> Iterator[tuple[str, bool, dict[str, Any]]]:
    yield "response.created", False, {"response": response}
    for index, item in enumerate(items):
        where = {"output_index": index, "item_id": item["id"]}
        yield "response.output_item.added", False, {"output_index": index, "item": _opened(item)}
        if item["type"] == "message":
            part = {"type": "output_text", "text": "", "annotations": []}
            yield "response.content_part.added", False, {**where, "content_index": 0, "part": part}
            for piece in answer.text:
                yield "response.output_text.delta", True, {**where, "content_index": 0, "delta": piece}
            yield "response.output_text.done", False, {**where, "content_index": 0, "text": "".join(answer.text)}
            yield "response.content_part.done", False, {**where, "content_index": 0, "part": item["content"][0]}
        elif item["type"] == "reasoning":
            summary = {**where, "summary_index": 0}
            part = {"type": "summary_text", "text": ""}
            yield "response.reasoning_summary_part.added", False, {**summary, "part": part}
            yield "response.reasoning_summary_text.delta", False, {**summary, "delta": answer.thinking}
            yield "response.reasoning_summary_text.done", False, {**summary, "text": answer.thinking}
        else:
            yield "response.function_call_arguments.delta", False, {**where, "delta": item["arguments"]}
            yield "response.function_call_arguments.done", False, {**where, "arguments": item["arguments"]}
        yield "response.output_item.done", False, {"output_index": index, "item": item}


def _event(kind: str, number: int, *, is_text: bool = False, **fields: Any) -> Piece:
    return Piece(named_event(kind, {"type": kind, "sequence_number": number, **fields}), is_text=is_text)


def _response(
    conversation: Conversation, status: str, output: list[dict[str, Any]], tokens: Tokens | None = None
) -> dict[str, Any]:
    return {
        "id": f"resp_{uuid4().hex[:20]}",
        "object": "response",
        "created_at": int(time.time()),
        "status": status,
        "model": conversation.model,
        "output": output,
        "usage": _usage(tokens) if tokens else None,
    }


def _items(answer: Answer, conversation: Conversation) -> Iterator[dict[str, Any]]:
    if answer.thinking:
        summary = [{"type": "summary_text", "text": answer.thinking}]
        yield {"type": "reasoning", "id": f"rs_{uuid4().hex[:20]}", "summary": summary}
    if answer.text:
        part = {"type": "output_text", "text": "".join(answer.text), "annotations": []}
        yield {
            "type": "message",
            "id": f"msg_{uuid4().hex[:20]}",
            "status": "completed",
            "role": "assistant",
            "content": [part],
        }
    for call in answer.calls:
        name, arguments = spoken(conversation.tools, call)
        yield {
            "type": "function_call",
            "id": f"fc_{uuid4().hex[:20]}",
            "status": "completed",
            "call_id": f"call_{uuid4().hex[:20]}",
            "name": name,
            "arguments": arguments,
        }


def _opened(item: dict[str, Any]) -> dict[str, Any]:
    emptied: dict[str, dict[str, Any]] = {
        "message": {"content": [], "status": "in_progress"},
        "reasoning": {"summary": []},
        "function_call": {"arguments": "", "status": "in_progress"},
    }
    return {**item, **emptied[item["type"]]}


def _usage(tokens: Tokens) -> dict[str, Any]:
    given = tokens.uncached + tokens.cache_read  # OpenAI's input includes the cached part
    return {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": tokens.cache_read},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": given + tokens.output,
    }
