"""One task as the state machine handles it: its texts, its moves, and what a view of it shows."""

from __future__ import annotations

import hashlib
import zlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pynamodb.expressions.update import Action

from callboard_control.store import keys, table
from callboard_control.store.models import TaskItem, TextPart, UsageItem
from callboard_wire.answers import ANSWER_BYTES, PROMPT_BYTES, cost, fitted
from callboard_wire.bodies import UsageRow
from callboard_wire.states import MOVES, Move, TaskStatus

if TYPE_CHECKING:
    from callboard_wire.api import MoveView, TaskView

INLINE_TEXT: Final = 320
"""Texts up to this many bytes stay in the task's item, which keeps a plain task below one write unit's kilobyte."""
PART_BYTES: Final = 350_000
MAX_OUTPUT_BYTES: Final = 4 * 1024 * 1024
REST_BYTES: Final = 500_000
"""Of an answer that shows a whole task: all that is neither its prompt nor its output."""

T = TaskItem


_LAST_MS: Final = 253_402_300_799_000
"""The last second of the year 9999."""


def at(ms: Any) -> Any:
    """A stored time as a datetime in UTC; None stays None. A `fire_at` from before it had a bound may be later than any
    datetime, and one such task must not break the list it is in."""
    return datetime.fromtimestamp(min(ms, _LAST_MS) / 1000, UTC) if ms is not None else None


def status_of(item: TaskItem) -> TaskStatus:
    return TaskStatus(item.status)


def load(task_id: str) -> TaskItem | None:
    """The task by id, read consistently; None if there is none (or the id cannot be one)."""
    return table.get(TaskItem, keys.task(task_id), "T") if 0 < len(task_id) <= 64 else None


def keyed(task_id: str) -> TaskItem:
    """An item with nothing but its keys: what an update is addressed with."""
    return TaskItem(keys.task(task_id), "T")


# ── moves ────────────────────────────────────────────────────────────────────


def move_entry(move: Move, now: int, by: str, fence: int = 0) -> str:
    """A move as the item stores it: where from and to follow from the table of moves and the entry before."""
    return f"{move.value}|{now}|{fence or ''}|{by}"


def moved(move: Move, now: int, by: str, fence: int = 0) -> Action:
    entry = move_entry(move, now, by, fence)
    return T.moves.set((T.moves | []).append([entry]))


def move_views(item: TaskItem) -> list[MoveView]:
    from callboard_wire.api import MoveView  # costly at a cold start, and only who shows tasks needs it

    views: list[MoveView] = []
    state = ""
    for entry in item.moves or []:
        name, ms, fence, by = entry.split("|", 3)
        end = MOVES[Move(name)][1].value
        views.append(
            MoveView(
                move=name,
                start=state,
                end=end,
                at=datetime.fromtimestamp(int(ms) / 1000, UTC),
                by=by or f"runtime:{item.runtime_id}",
                fence=int(fence or 0),
            )
        )
        state = end
    if item.failure_reason and views and views[-1].end == TaskStatus.FAILED:
        views[-1].reason = item.failure_reason
    return views


# ── long texts ───────────────────────────────────────────────────────────────


def store_text(task_id: str, name: str, text: str) -> tuple[str | None, int | None]:
    """(what to keep in the item, how many parts lie beside it). Parts are written before the item refers to them, and
    writing them again changes nothing."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= INLINE_TEXT:
        return text, None
    packed = zlib.compress(raw, 6)
    parts = [packed[i : i + PART_BYTES] for i in range(0, len(packed), PART_BYTES)]
    for n, part in enumerate(parts):
        table.put(TextPart(keys.task(task_id), f"B#{name}#{n:03d}", body=part))
    return None, len(parts)


def read_text(task_id: str, name: str, inline: str | None, parts: float | None) -> str:
    if not parts:
        return inline or ""
    wanted = [(keys.task(task_id), f"B#{name}#{n:03d}") for n in range(int(parts))]
    found = sorted(table.get_many(TextPart, wanted), key=lambda p: p.sk)
    return zlib.decompress(b"".join(p.body for p in found)).decode() if found else ""


def prompt_name(request_digest: bytes | None) -> str:
    """Under which name a prompt lies beside its task. A task made under a caller's own key has an id that other calls
    with that key share: in one place a refused call would replace what an accepted one asked for."""
    return f"prompt-{request_digest.hex()[:16]}" if request_digest else "prompt"


def wish(task_id: str, prompt: str) -> str:
    """A wish as it joins a task's list: itself when short, else the name of where it lies (after a NUL, which no prompt
    has), in how many parts, and what it takes of an answer. The same prompt gives the same entry."""
    name = f"wish-{hashlib.sha256(prompt.encode('utf-8', 'replace')).hexdigest()[:16]}"
    inline, parts = store_text(task_id, name, prompt)
    return inline if inline is not None else f"\x00{name}#{parts}#{cost(prompt)}"


def is_long(entry: str) -> bool:
    """Whether the wish behind a task's entry lies beside it."""
    return entry.startswith("\x00")


def wish_bytes(entry: str) -> int:
    """What the wish behind a task's entry takes of an answer."""
    return int(entry.rpartition("#")[2]) if is_long(entry) else cost(entry)


def _read_wish(task_id: str, entry: str) -> str:
    if not is_long(entry):
        return entry
    name, parts, *_ = entry[1:].split("#")
    return read_text(task_id, name, None, int(parts))


def prompt_of(item: TaskItem) -> str:
    """The whole prompt; wishes that joined the task while it was queued follow, oldest first."""
    text = read_text(item.id, prompt_name(item.request_digest), item.prompt, item.prompt_parts)
    return "\n\n".join([text, *(_read_wish(item.id, entry) for entry in item.coalesced or [])])


def clip(text: str, limit: int = MAX_OUTPUT_BYTES) -> str:
    """`text` cut to `limit` bytes with a note, NUL removed (it is refused by too many readers downstream)."""
    text = text.replace("\x00", "")
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit:
        return text
    return raw[:limit].decode("utf-8", "ignore") + f"\n… [cut: {len(raw)} bytes in all]"


# ── views ────────────────────────────────────────────────────────────────────


def usage_key(item: TaskItem) -> tuple[str, str]:
    """Where the usage of the task's latest claim lies: the same place for as long as that claim is the latest."""
    since = keys.stamp(int(item.dispatched or item.created))
    return keys.usage_of(item.runtime_id), f"{since}#{item.id}#{int(item.fence or 0):06d}"


def usage_rows(item: TaskItem) -> list[UsageRow]:
    if not item.fence:
        return []
    found = table.get(UsageItem, *usage_key(item), consistent=False)
    return [UsageRow.model_validate(row) for row in found.rows] if found else []


def view(item: TaskItem, *, full: bool = False, **more: Any) -> TaskView:
    """A task as the API shows it; `full` adds the texts that lie beside it, usage and moves."""
    values: dict[str, Any] = {
        "id": item.id,
        "workspace_id": item.workspace_id,
        "agent_id": item.agent_id or "",
        "runtime_id": item.runtime_id or "",
        "status": item.status,
        "kind": item.kind or "direct",
        "priority": int(item.priority or 0),
        "attempt": int(item.attempt or 1),
        "max_attempts": int(item.max_attempts or 2),
        "prompt": item.prompt or "",
        "thread_name": item.thread_name or "",
        "issue_id": item.issue_id or "",
        "chat_session_id": item.chat_session_id or "",
        "created_at": at(item.created),
        "dispatched_at": at(item.dispatched),
        "started_at": at(item.started),
        "completed_at": at(item.ended),
        "fire_at": at(item.fire_at),
        "output": item.output or "",
        "error": item.error or "",
        "failure_reason": item.failure_reason or "",
        "session_id": item.session_id or "",
        "work_dir": item.work_dir or "",
        "branch_name": item.branch_name or "",
        "wait_reason": item.wait_reason or "",
        "model_profile": item.model_profile or "",
        "retry_of_task_id": item.retry_of or "",
        "parent_task_id": item.retry_of or "",
        "rerun_of_task_id": item.rerun_of or "",
        "retried_by_task_id": item.retried_by or "",
        "duration_ms": int(item.duration_ms) if item.duration_ms is not None else None,
    }
    if full:
        values["prompt"] = fitted(prompt_of(item), PROMPT_BYTES)
        output = read_text(item.id, "output", item.output, item.output_parts)
        values["output"] = fitted(output, ANSWER_BYTES - REST_BYTES - cost(values["prompt"]))
        values["usage"] = usage_rows(item)
        values["moves"] = move_views(item)
    from callboard_wire.api import TaskView  # as above

    return TaskView.model_validate(values | more)
