"""Tokens of a codex run.

`thread/tokenUsage/updated` carries the thread's `total`, cumulative over all its runs, and the `last` model call. On
resume the old total is announced once more: by today's servers before the turn begins, by those up to 0.12x inside the
new turn, before its first sign of work. So a run's share is counted in steps: from the last total seen to the new one,
whoever's turn the step in between belonged to, and `last` where no total is known yet.
The rollout file has the same numbers (`token_count` lines) and is read when the pipe had none.

`input` includes what was read from and written to the cache; `output` includes reasoning.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from callboard_adapters.dialects.ndjson import LineParser
from callboard_adapters.messages import TokenUsage, add_usage

_FIELDS = (
    ("inputTokens", "input_tokens"),
    ("cachedInputTokens", "cached_input_tokens", "cache_read_input_tokens", "cache_read_tokens"),
    ("cacheWriteInputTokens", "cache_write_input_tokens", "cache_creation_input_tokens", "cache_write_tokens"),
    ("outputTokens", "output_tokens"),
)
ROLLOUT_MARKS = (b'"token_count"', b'"turn_context"')
"""What a rollout line must hold to matter here (`ReadFiles.lines_with`)."""

Counts = tuple[int, int, int, int]
_NOTHING: Counts = (0, 0, 0, 0)


class ThreadUsage:
    """One thread's counter. `total` None: what earlier runs used is not known yet."""

    def __init__(self, *, fresh: bool) -> None:
        self.total: Counts | None = _NOTHING if fresh else None
        self.ours: Counts = _NOTHING

    def step(self, usage: Any, *, mine: bool) -> bool:
        """Take one `{total, last}`; whether it changed this run's share. Repeated events change nothing."""
        if not isinstance(usage, dict):
            return False
        total = _counts(usage.get("total") or usage.get("total_token_usage"))
        last = _counts(usage.get("last") or usage.get("last_token_usage"))
        before, self.total = self.total, total if total is not None else self.total
        if not mine:
            return False
        step = last
        if total is not None and before is not None:
            grown = tuple(new - old for new, old in zip(total, before, strict=True))
            # A total that went down was reset (a compaction, a rollback): the call itself still cost `last`.
            step = (grown[0], grown[1], grown[2], grown[3]) if min(grown) >= 0 else last
        if step is None or not any(step):
            return False
        self.ours = tuple(a + b for a, b in zip(self.ours, step, strict=True))  # type: ignore[assignment]  # same length
        return True


def tokens(counts: Counts) -> TokenUsage:
    """The four buckets without overlap."""
    whole, cached, written, output = counts
    return TokenUsage(max(0, whole - cached - written), output, cached, written)


class RunUsage:
    """This run's tokens over its own thread and the threads of agents it spawned."""

    def __init__(self) -> None:
        self.model = "unknown"
        self._threads: dict[str, ThreadUsage] = {}
        self._stated: TokenUsage | None = None

    def follow(self, thread_id: str, *, fresh: bool) -> None:
        self._threads.setdefault(thread_id, ThreadUsage(fresh=fresh))

    def follows(self, thread_id: str) -> bool:
        return thread_id in self._threads

    def knows_total(self, thread_id: str) -> bool:
        """Whether a total has been seen: until then a resumed thread's first one may only repeat the earlier bill."""
        thread = self._threads.get(thread_id)
        return thread is not None and thread.total is not None

    def step(self, thread_id: str, usage: Any, *, mine: bool) -> bool:
        thread = self._threads.get(thread_id)
        return thread is not None and thread.step(usage, mine=mine)

    def stated(self, usage: TokenUsage) -> None:
        """The turn's own total, as older servers give it at its end; it counts where no steps were seen."""
        self._stated = usage

    def by_model(self) -> dict[str, TokenUsage]:
        total: dict[str, TokenUsage] = {}
        for thread in self._threads.values():
            add_usage(total, self.model, tokens(thread.ours))
        if not total and self._stated is not None:
            add_usage(total, self.model, self._stated)
        return total


def turn_usage(usage: Any) -> TokenUsage | None:
    """The usage that older servers put into the end of a turn (`turn.usage`, `task_complete`); None without one."""
    for key in ("usage", "token_usage", "tokens"):
        if isinstance(usage, dict) and isinstance(usage.get(key), dict):
            usage = usage[key]
            break
    counts = _counts(usage)
    return tokens(counts) if counts is not None and any(counts) else None


def from_rollout(lines: Iterable[bytes], turn_id: str, started_at: float, *, resumed: bool) -> dict[str, TokenUsage]:
    """This run's tokens out of a rollout file's `turn_context` and `token_count` lines, in order.

    The run begins at the `turn_context` of `turn_id`; files of older versions name no turn there, then the time does.
    """
    parser, usage = LineParser(), ThreadUsage(fresh=not resumed)
    mine, model = not resumed, "unknown"
    for line in lines:
        event = parser.parse(line) or {}
        payload = event.get("payload")
        if not isinstance(payload, dict):
            continue
        if event.get("type") == "turn_context":
            model = str(payload.get("model") or model)
            named = payload.get("turn_id")
            mine = named == turn_id if named and turn_id else _after(event.get("timestamp"), started_at, mine)
        elif payload.get("type") == "token_count":
            usage.step(payload.get("info"), mine=mine)
    total: dict[str, TokenUsage] = {}
    add_usage(total, model, tokens(usage.ours))
    return total


def _after(stamp: Any, started_at: float, otherwise: bool) -> bool:
    try:
        return datetime.fromisoformat(str(stamp)).timestamp() >= started_at - 1
    except ValueError:
        return otherwise


def _counts(value: Any) -> Counts | None:
    if not isinstance(value, dict):
        return None
    found = [next((_count(value[name]) for name in names if name in value), 0) for names in _FIELDS]
    return (found[0], found[1], found[2], found[3])


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and value == value and 0 <= value < 2**53 else 0
