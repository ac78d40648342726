"""What content blocks of stream JSON hold."""

from __future__ import annotations

from typing import Any


def input_of(value: Any) -> dict[str, Any] | None:
    """A tool's input as a message holds it."""
    if type(value) is dict:
        return value
    return None if value is None else {"value": value}


def launched_async(content: Any) -> bool:
    """Whether a tool's result says that an agent goes on working by itself."""
    items = content if isinstance(content, list) else [content]
    return any(
        isinstance(i, dict)
        and (
            i.get("status") == "async_launched" or (isinstance(i.get("content"), list) and launched_async(i["content"]))
        )
        for i in items
    )
