"""Watching a task: messages as they come, coloured by kind, tool calls folded to a line, and the end."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from callboard_daemon.cli.api import Api
from callboard_daemon.cli.output import console, note, one_line, printable
from callboard_daemon.errors import ControlError
from callboard_wire.api import TaskView
from callboard_wire.bodies import TaskMessage, UsageRow
from callboard_wire.states import TaskStatus

if TYPE_CHECKING:
    from rich.console import Console

EVERY_S: Final = 0.5
_TICKS_A_DOLLAR: Final = 10_000_000_000
_STYLE: Final = {"text": "", "thinking": "dim italic", "error": "red", "log": "dim", "status": "dim"}
_STATUS_STYLE: Final = {TaskStatus.COMPLETED: "green", TaskStatus.FAILED: "red", TaskStatus.CANCELLED: "yellow"}


def follow(api: Api, task_id: str, screen: Console, *, since: int = 0) -> tuple[TaskView, str]:
    """Print a task's messages until it has ended, and those of its retry after it; the last attempt and the last text
    it said.

    A server that is away for a while is waited for: the task goes on without it.
    """
    while True:
        task, said = _follow_one(api, task_id, screen, since)
        if not task.retried_by_task_id:
            return task, said
        note(f"Attempt {task.attempt} failed ({task.failure_reason}); trying again as {task.retried_by_task_id}.")
        task_id, since = task.retried_by_task_id, 0


def print_end(task: TaskView, *, shown: str) -> None:
    """How a task ended, on stdout and for people: result (unless it is the text just `shown`), status, usage, cost,
    where the files are."""
    screen = console(err=False)
    if task.status is TaskStatus.COMPLETED and task.output.strip() != shown.strip():
        screen.print(f"\nresult: {printable(task.output)}")
    took = f" in {task.duration_ms / 1000:.1f} s" if task.duration_ms is not None else ""
    screen.print(f"\n{task.status.value}{took}", style=_STATUS_STYLE.get(task.status, ""))
    if task.error:
        screen.print(f"{task.error} [{task.failure_reason}]" if task.failure_reason else task.error, style="red")
    for row in task.usage:
        screen.print(usage_line(row), style="dim")
    if task.work_dir:
        screen.print(f"files: {task.work_dir}", style="dim")


def usage_line(row: UsageRow) -> str:
    """`claude-x: 1,200 in, 340 out, 9,000 cached, $0.0123`."""
    cached = row.cache_read_tokens + row.cache_write_tokens
    cost = "cost not stated" if row.cost_usd_ticks is None else f"${row.cost_usd_ticks / _TICKS_A_DOLLAR:.4f}"
    parts = [
        f"{row.input_tokens:,} in",
        f"{row.output_tokens:,} out",
        *([f"{cached:,} cached"] if cached else []),
        cost,
    ]
    return f"{row.model or row.provider}: {', '.join(parts)}"


def print_message(screen: Console, message: TaskMessage) -> None:
    """One message; a tool call and its result are a line each."""
    indent = "  " if message.parent_call_id else ""
    if message.type == "tool_use":
        screen.print(f"{indent}▸ {message.tool} {_arguments(message.input)}", style="cyan", overflow="ellipsis")
    elif message.type == "tool_result":
        failed = message.status == "failed"
        screen.print(f"{indent}  └ {one_line(message.output, 110)}", style="red" if failed else "dim cyan")
    elif text := printable(message.content):
        screen.print(f"{indent}{text}" if indent else text, style=_STYLE.get(message.type, ""))


def _follow_one(api: Api, task_id: str, screen: Console, since: int) -> tuple[TaskView, str]:
    waited = said = ""
    away = False
    while True:
        try:
            task = api.task(task_id)
            for message in _new_messages(api, task_id, since):
                print_message(screen, message)
                since = message.seq
                said = message.content if message.type == "text" else said
        except ControlError as error:
            if not error.transient:
                raise
            if not away:
                note(f"{error.message}; waiting for it to come back. The task itself goes on.")
            away = True
        else:
            away = False
            if task.status.terminal:
                return task, said
            why = task.waiting.message if task.waiting else ""
            if why and why != waited:
                note(f"waiting: {why}")
            waited = why
        time.sleep(EVERY_S)


def _new_messages(api: Api, task_id: str, since: int) -> Iterator[TaskMessage]:
    while True:
        page = api.messages(task_id, since)
        yield from page.items
        if not page.next_cursor or not page.items:
            return
        since = page.items[-1].seq


def _arguments(given: Any) -> str:
    """A tool's input as `name=value`, short."""
    if isinstance(given, dict):
        given = " ".join(f"{k}={v if isinstance(v, str) else json.dumps(v)}" for k, v in given.items())
    return one_line(str(given) if given is not None else "", 110)
