"""What content blocks and announcements of stream JSON hold."""

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


def retry_text(event: dict[str, Any], status: int | None, code: str | None) -> str:
    """An announced retry as a sentence; the names are claude's or qwen's."""
    said = " ".join(str(p) for p in (status, code) if p) or "no answer"
    delay = event.get("retry_delay_ms", event.get("delayMs"))
    wait = f", next in {delay / 1000:.1f} s" if isinstance(delay, int | float) else ""
    most = event.get("max_retries", event.get("maxRetries", "?"))
    return f"the provider said {said}: attempt {event.get('attempt', '?')} of {most}{wait}"
