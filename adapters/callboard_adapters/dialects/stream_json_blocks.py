"""What content blocks and announcements of stream JSON hold."""

from __future__ import annotations

from typing import Any


def input_of(value: Any) -> dict[str, Any] | None:
    """A tool's input as a message holds it."""
    if type(value) is dict:
        return value
    return None if value is None else {"value": value}


def details(event: dict[str, Any]) -> dict[str, Any]:
    """The fields of a system event: qwen nests in `data` what claude does not."""
    data = event.get("data")
    return data if type(data) is dict else event


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
    """An announced retry as a sentence; the names are claude's or qwen's, and qwen sometimes gives no numbers."""
    said = " ".join(str(p) for p in (status, code) if p) or "no answer"
    attempt, most = event.get("attempt"), event.get("max_retries", event.get("maxRetries"))
    if attempt is None:
        return f"the provider said {said}: it is asked again"
    delay = event.get("retry_delay_ms", event.get("delayMs"))
    wait = f", next in {delay / 1000:.1f} s" if isinstance(delay, int | float) else ""
    return f"the provider said {said}: attempt {attempt} of {'?' if most is None else most}{wait}"
