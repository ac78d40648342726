"""One Lambda a file. The table here is what the template and the gateway are checked against."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

HTTP: Final[dict[str, str]] = {
    name: f"callboard_control.entrypoints.{name}"
    for name in (
        "identity",
        "agents",
        "agent_env",
        "skills",
        "fleet",
        "enqueue",
        "claim",
        "start",
        "report",
        "complete",
    )
}
SCHEDULED: Final[dict[str, str]] = {"tick": "callboard_control.entrypoints.tick"}
ENTRYPOINTS: Final[dict[str, str]] = HTTP | SCHEDULED


def load(name: str) -> Any:
    """The entry point's module."""
    return import_module(ENTRYPOINTS[name])
