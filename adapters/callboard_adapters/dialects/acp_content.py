"""ACP content blocks as text."""

from __future__ import annotations

from typing import Any

from callboard_adapters.dialects.acp_offer import mapping, text
from callboard_adapters.dialects.json_values import flatten


def content_text(content: Any) -> str:
    """A block, a list of blocks or a plain string as text; what is no text is named, not dropped."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(part for part in map(content_text, content) if part)
    if not isinstance(content, dict):
        return ""
    said = content.get("text")
    if isinstance(said, str):
        return said
    kind = text(content.get("type"))
    if kind == "text":
        return flatten(said)
    if kind == "diff":
        return _diff(content)
    if kind == "terminal":
        return ""  # its output comes as the call's result
    if kind == "resource":
        resource = mapping(content.get("resource"))
        return text(resource.get("text")) or f"[{text(resource.get('uri')) or 'resource'}]"
    if kind == "resource_link":
        return f"[{text(content.get('uri')) or text(content.get('name')) or 'link'}]"
    inside = content_text(content.get("content"))  # a wrapper under another name
    if inside or kind == "content":
        return inside
    return f"[{' '.join(p for p in (kind, text(content.get('mimeType'))) if p)}]" if kind else ""


def says_nothing(content: Any) -> bool:
    """Whether there are no words in it, in a shape we know. A terminal's output comes as the call's result."""
    if isinstance(content, list):
        return all(map(says_nothing, content))
    if not isinstance(content, dict):
        return not content
    if content.get("type") == "terminal" or content.get("text") == "":
        return True
    return "content" in content and says_nothing(content["content"])


def _diff(block: dict[str, Any]) -> str:
    old, new = block.get("oldText"), text(block.get("newText"))
    size = len(new.encode("utf-8", "replace"))
    if not isinstance(old, str):
        change = f"new file, {size} bytes"
    else:
        change = f"edited: {len(old.encode('utf-8', 'replace'))} -> {size} bytes"
    return f"{text(block.get('path')) or 'a file'} ({change})"
