"""Report: what a run says on its way. Messages come packed, under the fence of the claim that wrote them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from callboard_control import ports
from callboard_control.actor import Daemon
from callboard_control.errors import Conflict, TooLarge
from callboard_control.store import keys, table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.models import MessagePack, TaskItem, UsageItem
from callboard_control.tasks import conditions, conversation, guard, record
from callboard_wire.answers import cost
from callboard_wire.bodies import (
    MAX_MESSAGE_BYTES,
    MAX_TOOL_OUTPUT_BYTES,
    MessagesRequest,
    SessionRequest,
    TaskMessage,
    TaskState,
    UsageRequest,
    UsageRow,
)
from callboard_wire.states import WAITING, TaskStatus

T = TaskItem
PACK_BYTES: Final = 60 * 1024
PAGE_BYTES: Final = 4_500_000
"""What messages may take of one answer, before the pack that is read last."""
MAX_NAME_BYTES: Final = 500
TRIES: Final = 5


def messages(daemon: Daemon, task_id: str, request: MessagesRequest) -> TaskState:
    """Append messages. Numbers at or below the last stored one are repeats and change nothing; a gap is refused, with
    the number that is expected, so that the daemon sends the missing ones first.

    A run that ended here (a machine that came back after it was given up) may still send its transcript; a queued task
    has no run to have one. Raises `Conflict` ``sequence_gap`` or ``stale_claim``.
    """
    task = guard.held_by(daemon, task_id, request)
    if task.status in [s.value for s in WAITING]:
        raise guard.stale(task, request)
    fence = int(task.fence or 0)
    strict = request.fence is not None or request.claim_id is not None
    for _ in range(TRIES):
        last = last_seq(task.id, fence)
        fresh = sorted((m for m in request.messages if m.seq > last), key=lambda m: m.seq)
        fresh = [m for i, m in enumerate(fresh) if i == 0 or m.seq != fresh[i - 1].seq]
        if strict:
            _refuse_gaps(fresh, last)
        try:
            for pack in _packs(task.id, fence, [_bounded(m) for m in fresh]):
                table.put(pack, MessagePack.pk.does_not_exist())
                last = int(pack.last)
        except ConditionFailed:
            continue  # the same batch is being stored by its own twin: look again at how far it came
        return guard.state(task, last_seq=last)
    raise Conflict("The messages kept being stored by somebody else; send them again.", code="contended")


def last_seq(task_id: str, fence: int) -> int:
    page = table.rows(
        MessagePack,
        keys.task(task_id),
        MessagePack.sk.startswith(f"M#{fence:06d}#"),
        limit=1,
        forward=False,
        consistent=True,
    )
    return int(page.items[0].last) if page.items else 0


def _refuse_gaps(fresh: list[TaskMessage], last: int) -> None:
    for message in fresh:
        if message.seq != last + 1:
            raise Conflict(
                f"Messages {last + 1} to {message.seq - 1} are missing; send them first.",
                code="sequence_gap",
                expected_seq=last + 1,
                got_seq=message.seq,
            )
        last = message.seq


def _bounded(message: TaskMessage) -> dict[str, Any]:
    """The message as stored: no defaults, no NUL, nothing longer than a reader wants to page through."""
    row = message.model_dump(mode="json", exclude_defaults=True)
    row["created_at"] = row.get("created_at") or ports.now_ms()
    row["content"] = record.clip(message.content, MAX_MESSAGE_BYTES)
    row["output"] = record.clip(message.output, MAX_TOOL_OUTPUT_BYTES)
    for name in ("tool", "call_id", "parent_call_id", "status", "level"):
        row[name] = record.clip(getattr(message, name), MAX_NAME_BYTES)
    if message.input is not None and len(json.dumps(message.input)) > MAX_MESSAGE_BYTES:
        row["input"] = {"cut": record.clip(json.dumps(message.input), MAX_TOOL_OUTPUT_BYTES)}
    return {k: v for k, v in row.items() if v not in ("", None)}


def _packs(task_id: str, fence: int, rows: list[dict[str, Any]]) -> Iterator[MessagePack]:
    start, total = 0, 0
    for i, row in enumerate(rows):
        size = len(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace"))
        if i > start and total + size > PACK_BYTES:
            yield _pack(task_id, fence, rows[start:i])
            start, total = i, 0
        total += size
    if rows:
        yield _pack(task_id, fence, rows[start:])


def _pack(task_id: str, fence: int, rows: list[dict[str, Any]]) -> MessagePack:
    raw = json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    packed = zlib.compress(raw, 6)
    small = len(packed) < len(raw)
    first = rows[0]["seq"]
    pack = MessagePack(keys.task(task_id), f"M#{fence:06d}#{first:010d}")
    pack.first, pack.last, pack.body = first, rows[-1]["seq"], packed if small else raw
    pack.packed = True if small else None
    return pack


@dataclass(frozen=True, slots=True)
class Transcript:
    messages: list[TaskMessage]
    more: bool


def transcript(task: TaskItem, since: int, limit: int) -> Transcript:
    """Messages after number `since` under the task's last fence, in order, at most `limit` and about `PAGE_BYTES`."""
    fence = int(task.fence or 0)
    found: list[TaskMessage] = []
    size = 0
    # The pack that holds `since` starts at or before it: begin with the last pack that does.
    begin = _pack_at(task.id, fence, since)
    cursor = None
    while True:
        page = table.rows(
            MessagePack,
            keys.task(task.id),
            MessagePack.sk.between(begin, f"M#{fence:06d}#~"),
            limit=20,
            cursor=cursor,
            consistent=True,
        )
        for pack in page.items:
            rows = json.loads(zlib.decompress(pack.body) if pack.packed else pack.body)
            found += [m for m in map(_message, rows) if m.seq > since]
            size += cost(rows)
            if len(found) > limit or (found and size > PAGE_BYTES):
                return Transcript(found[:limit], more=True)
        cursor = page.cursor
        if cursor is None:
            return Transcript(found, more=False)


def _pack_at(task_id: str, fence: int, since: int) -> str:
    low, high = f"M#{fence:06d}#", f"M#{fence:06d}#{since + 1:010d}"
    page = table.rows(
        MessagePack,
        keys.task(task_id),
        MessagePack.sk.between(low, high),
        limit=1,
        forward=False,
        consistent=True,
    )
    return page.items[0].sk if page.items else low


def _message(row: dict[str, Any]) -> TaskMessage:
    at = row.get("created_at")
    return TaskMessage.model_validate(row | {"created_at": record.at(at)} if isinstance(at, int) else row)


# ── usage and session ────────────────────────────────────────────────────────


def usage(daemon: Daemon, task_id: str, request: UsageRequest) -> TaskState:
    """What the run cost, as a whole: sending it again replaces it, so nothing is counted twice."""
    task = guard.held_by(daemon, task_id, request)
    if task.status in [s.value for s in WAITING]:
        raise guard.stale(task, request)
    rows = [_usage_row(row, daemon.runtimes.get(task.runtime_id, "")) for row in request.usage if _counts(row)]
    if len(json.dumps(rows)) > MAX_MESSAGE_BYTES:
        raise TooLarge("The usage report is larger than 64 KiB; report one row a model.")
    if rows:
        table.put(UsageItem(*record.usage_key(task), rows=rows))
    return guard.state(task)


def _usage_row(row: UsageRow, provider: str) -> dict[str, Any]:
    """As stored: a provider always, and no cost of nothing, which says that none was stated, not that it was free."""
    stored = row.model_dump(mode="json", exclude_none=True) | {"provider": (row.provider or provider).lower()}
    return {name: value for name, value in stored.items() if name != "cost_usd_ticks" or value}


def _counts(row: UsageRow) -> bool:
    buckets = (row.input_tokens, row.output_tokens, row.cache_read_tokens, row.cache_write_tokens)
    return any(buckets) or bool(row.cost_usd_ticks)


def session(daemon: Daemon, task_id: str, request: SessionRequest) -> TaskState:
    """Keep the run's conversation early, so that a crash can resume it. After a cancel only an empty place is filled;
    after any other ending the ending's own word stands."""
    task = guard.held_by(daemon, task_id, request)
    status = record.status_of(task)
    late = status == TaskStatus.CANCELLED and not task.session_id
    if not (status.held or late) or not request.session_id:
        conversation.catch_up(task)
        return guard.state(task)
    actions = [T.session_id.set(request.session_id)]
    if request.work_dir:
        actions.append(T.work_dir.set(request.work_dir))
    try:
        task = table.update(
            record.keyed(task.id),
            actions,
            conditions.all_of(conditions.in_state(task.status), conditions.fence_is(task)),
        )
    except ConditionFailed:
        task = guard.held_by(daemon, task_id, request)
    conversation.catch_up(task)
    return guard.state(task)
