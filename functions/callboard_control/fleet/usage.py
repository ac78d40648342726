"""What a runtime's runs cost and when it was busy, summed up from the reports of the runs when somebody asks.

No counter is kept. A report is one item in its runtime's own range, which a repeat replaces; so sums cannot drift, a
report costs one write whatever is shown of it later, and one that comes days late is in the sum it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from callboard_control import ports
from callboard_control.errors import InvalidRequest
from callboard_control.fleet import runtimes
from callboard_control.store import keys, table
from callboard_control.store.models import UsageItem
from callboard_wire.api import Page
from callboard_wire.runtimes import RuntimeActivity, RuntimeUsage

ROWS_AT_ONCE: Final = 1000
"""A call reads about so many reports and ends with the day it is at; the next page goes on with the day before."""
BUCKETS: Final = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


def by_day(workspace_id: str, runtime_id: str, days: int, cursor: str | None) -> Page[RuntimeUsage]:
    """Tokens and cost per UTC day, provider and model of the last `days` days, newest day first. A page may be short,
    and even empty, while there is a cursor to go on with. Raises `NotFound`, `InvalidRequest` ``invalid_cursor``."""
    sums: dict[tuple[date, str, str], RuntimeUsage] = {}

    def add(at: datetime, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            key = at.date(), row.get("provider", ""), row.get("model", "")
            _add(sums.setdefault(key, RuntimeUsage(date=key[0], provider=key[1], model=key[2])), row)

    after = _read(workspace_id, runtime_id, days, cursor, add)
    ordered = sorted(sums.values(), key=lambda s: (-s.date.toordinal(), s.provider, s.model))
    return Page[RuntimeUsage](items=ordered, next_cursor=after)


def by_hour(workspace_id: str, runtime_id: str, days: int, cursor: str | None) -> Page[RuntimeActivity]:
    """Runs per hour of the last `days` UTC days, newest first; hours without any are left out. Pages as `by_day`."""
    sums: dict[datetime, RuntimeActivity] = {}

    def add(at: datetime, rows: list[dict[str, Any]]) -> None:
        hour = at.replace(minute=0, second=0, microsecond=0)
        total = sums.setdefault(hour, RuntimeActivity(hour=hour))
        total.runs += 1
        total.tokens += sum(row.get(bucket, 0) for row in rows for bucket in BUCKETS)

    after = _read(workspace_id, runtime_id, days, cursor, add)
    return Page[RuntimeActivity](items=sorted(sums.values(), key=lambda s: s.hour, reverse=True), next_cursor=after)


def _add(total: RuntimeUsage, row: dict[str, Any]) -> None:
    total.runs += 1
    for bucket in BUCKETS:
        setattr(total, bucket, getattr(total, bucket) + row.get(bucket, 0))
    cost = row.get("cost_usd_ticks")
    if cost is None:
        total.uncosted_runs += 1
    else:
        total.cost_usd_ticks = (total.cost_usd_ticks or 0) + cost


def _read(
    workspace_id: str,
    runtime_id: str,
    days: int,
    cursor: str | None,
    add: Callable[[datetime, list[dict[str, Any]]], None],
) -> str | None:
    """Hand the reports of whole days to `add`, newest first; where to go on, or None at the end."""
    runtime = runtimes.find(workspace_id, runtime_id)
    today = datetime.fromtimestamp(ports.now_ms() / 1000, UTC).date()
    first, last = today - timedelta(days=days - 1), _cursor_day(cursor) if cursor else today
    seen, day = 0, last
    for at, rows in _reports(runtime.id, first, last):
        if at.date() != day and seen >= ROWS_AT_ONCE:
            return at.date().isoformat()
        seen, day = seen + 1, at.date()
        add(at, rows)
    return None


def _reports(runtime_id: str, first: date, last: date) -> Iterator[tuple[datetime, list[dict[str, Any]]]]:
    """(claimed at, rows) of the reports of the days `first` to `last`, newest first."""
    between = UsageItem.sk.between(f"{keys.stamp(_ms(first))}#", f"{keys.stamp(_ms(last + timedelta(days=1)))}#")
    for item in table.every(UsageItem, keys.usage_of(runtime_id), between, forward=False):
        yield datetime.fromtimestamp(int(item.sk.partition("#")[0]) / 1000, UTC), item.rows


def _ms(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)


def _cursor_day(cursor: str) -> date:
    try:
        return date.fromisoformat(cursor)
    except ValueError as e:
        message = "The cursor is not one this list gave out; start again without it."
        raise InvalidRequest(message, code=table.INVALID_CURSOR) from e
