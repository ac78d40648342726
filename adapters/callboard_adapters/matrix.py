"""The providers as tables, from their capabilities: `python -m callboard_adapters.matrix > docs/providers.md`.

A blank cell is an honest one: the provider has no such thing, or nobody has verified it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import Enum
from typing import Any

from callboard_adapters import registry
from callboard_adapters.capabilities import Capabilities
from callboard_wire.providers import Choice, Model, built_in

_INTRO = """# Providers

Generated from the adapters' capabilities; do not edit. `python -m callboard_adapters.matrix > docs/providers.md`
writes it, and a test compares. A blank means no, or not verified.
"""

Column = tuple[str, Callable[[Capabilities], Any]]

_TABLES: tuple[tuple[str, tuple[Column, ...]], ...] = (
    (
        "Runs",
        (
            ("started as", lambda c: f"`{c.launch_header}`"),
            ("executable", lambda c: "this Python" if c.executable == sys.executable else f"`{c.executable}`"),
            ("minimum version", lambda c: "" if c.minimum_version == "0.0.0" else c.minimum_version),
            ("prompt by", lambda c: c.prompt),
            ("cancel in its own words", lambda c: c.graceful_cancel),
            ("tools leave its process group", lambda c: c.tools_leave_group),
            ("driven here for real", lambda c: c.runs_offline),
        ),
    ),
    (
        "Conversations and cost",
        (
            ("resume", lambda c: c.resume),
            ("a refused resume is recognised", lambda c: c.resume_rejection),
            ("session id early", lambda c: c.early_session_id),
            ("usage from", lambda c: c.usage),
            ("states a cost", lambda c: c.cost),
        ),
    ),
    (
        "Options it takes",
        (
            ("model", lambda c: c.model_flag),
            ("models listed by", lambda c: c.model_source),
            ("models known", lambda c: ", ".join(map(_model, c.models))),
            ("thinking levels", lambda c: ", ".join(c.thinking_levels)),
            ("profile `fast`", lambda c: _choice(built_in("fast", c.name))),
            ("profile `smart`", lambda c: _choice(built_in("smart", c.name))),
            ("turn limit", lambda c: c.max_turns),
            ("system prompt", lambda c: c.system_prompt),
            ("MCP by", lambda c: c.mcp),
            ("a gateway does the run", lambda c: c.gateway),
        ),
    ),
    (
        "Files it reads",
        (
            ("brief", lambda c: _code(c.context_file)),
            ("skills of a project", lambda c: _code(c.skills_folder)),
            ("skills of the user", lambda c: _code(c.user_skills_folder)),
            ("environment that matters", lambda c: " ".join(map(_code, c.relevant_env))),
        ),
    ),
    (
        "Arguments a user cannot set",
        (("dropped, with a warning", lambda c: " ".join(_code(flag) for flag in sorted(c.blocked_args))),),
    ),
)


def tables(names: list[str] | None = None) -> str:
    """The whole page, for `names` (default: every built-in provider)."""
    capabilities = [registry.adapter_class(n).capabilities for n in names or sorted(registry.BUILT_IN)]
    parts = [_INTRO]
    for title, columns in _TABLES:
        head = ["provider", *(name for name, _ in columns)]
        rows = [[c.name, *(_cell(value(c)) for _, value in columns)] for c in capabilities]
        lines = [f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows]]
        parts.append(f"## {title}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, Enum):
        value = value.value
    return "" if value in (None, "none") else str(value).replace("|", "\\|")


def _model(model: Model) -> str:
    window = f" ({model.context_window:,} tokens)" if model.context_window else ""
    return f"`{model.id}`{window}"


def _choice(choice: Choice | None) -> str:
    if choice is None:
        return ""
    return ", ".join([*([f"`{choice.model}`"] if choice.model else []), *filter(None, [choice.thinking_level])])


def _code(text: str | None) -> str:
    return f"`{text}`" if text else ""


if __name__ == "__main__":
    sys.stdout.write(tables())
