"""Values out of a CLI's JSON, whatever they turn out to be: text, counts, token usage. Nothing here raises."""

from __future__ import annotations

import json
from typing import Any

from callboard_adapters.messages import TokenUsage


def flatten(content: Any) -> str:
    """Content as text: a string as it is, text blocks joined by line ends, anything else as JSON."""
    if content is None:
        return ""
    if type(content) is str:
        return content
    if type(content) is list and content and all(type(b) is dict and type(b.get("text")) is str for b in content):
        return "\n".join(b["text"] for b in content)
    return json.dumps(content, ensure_ascii=False, default=str)


def error_text(event: dict[str, Any]) -> str:
    """The sentence in an `error` event or an `error` field, whatever its nesting."""
    error = event.get("error")
    if error is None:
        error = event  # renamed: whatever it says stands somewhere in the event
    if isinstance(error, dict):
        error = error.get("message") or (error["type"] if set(error) == {"type"} else error)
    return flatten(error)


def word(value: Any) -> str:
    """A name or an id where one is expected, "" for anything that is no string."""
    return value if type(value) is str else ""


def anthropic_usage(usage: dict[str, Any]) -> TokenUsage:
    return TokenUsage(
        count(usage.get("input_tokens")),
        count(usage.get("output_tokens")),
        count(usage.get("cache_read_input_tokens")),
        count(usage.get("cache_creation_input_tokens")),
    )


def uncached_usage(usage: dict[str, Any]) -> TokenUsage:
    """The same fields from a CLI on the other kind of API, where `input_tokens` holds the cached ones too."""
    given = anthropic_usage(usage)
    cached = given.cache_read_tokens + given.cache_write_tokens
    return TokenUsage(
        max(0, given.input_tokens - cached), given.output_tokens, given.cache_read_tokens, given.cache_write_tokens
    )


def count(value: Any) -> int:
    """A token count; whatever is not a number ≥ 0, or the digits of one, is 0."""
    if type(value) is int:
        return value if 0 <= value < 2**53 else 0
    if type(value) is str and value.isascii() and value.isdecimal() and len(value) < 16:
        value = int(value)
    return int(value) if isinstance(value, int | float) and value == value and 0 <= value < 2**53 else 0
