"""Work that goes on beside the turn, as stream JSON announces it: agents and commands in the background."""

from __future__ import annotations

from typing import Any

_OVER = frozenset({"completed", "failed"})


class BackgroundWork:
    """`running` is id → what it does; `dropped` what was killed before it was done."""

    def __init__(self) -> None:
        self.running: dict[str, str] = {}
        self.dropped: list[str] = []

    def __bool__(self) -> bool:
        return bool(self.running)

    def __str__(self) -> str:
        return "; ".join(self.running.values())

    def started(self, event: dict[str, Any]) -> None:
        """A task was announced; only one that says so itself is in the background."""
        if event.get("is_backgrounded"):
            self.running[event["task_id"]] = str(event.get("description") or event.get("task_type") or "a task")

    def launched(self, call_id: str) -> None:
        """A tool's result said that an agent goes on working by itself."""
        self.running.setdefault(call_id, "an asynchronous agent")

    def over(self, event: dict[str, Any]) -> bool:
        """A task has ended. True when its report starts another turn."""
        what = self.running.pop(event["task_id"], None)
        self.running.pop(event.get("tool_use_id") or "", None)
        if event.get("status") in _OVER:
            return True
        if what is not None:
            self.dropped.append(what)
        return False
