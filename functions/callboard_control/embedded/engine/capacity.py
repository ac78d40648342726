"""Consumed capacity: request units by the developer guide's rules, and the ConsumedCapacity part of answers.

Writes cost 1 unit per KB of the larger of the old and the new item; an index entry likewise, and a moved entry costs
its deletion and its insertion. Reads cost 1 unit per 4 KB, half of it when eventually consistent. In a transaction
the table's units double and the index units do not: verified on AWS by others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from callboard_control.embedded.engine import params
from callboard_control.embedded.engine.rows import Change, IndexChange

_WRITE_UNIT = 1024
_READ_UNIT = 4096


def mode(request: Mapping[str, Any]) -> str:
    """The checked ReturnConsumedCapacity parameter."""
    return params.choice(request, "ReturnConsumedCapacity", ("INDEXES", "TOTAL", "NONE"), "NONE")


def _blocks(size: int, unit: int) -> int:
    return max(1, -(-size // unit))


def read_units(size: int, *, consistent: bool) -> float:
    """Units to read `size` bytes in one go; nothing found costs as much as the smallest item."""
    return _blocks(size, _READ_UNIT) * (1.0 if consistent else 0.5)


def write_units(before: int, after: int) -> float:
    """Units to write over `before` bytes with `after` bytes; a failed or empty write costs one."""
    return float(_blocks(max(before, after), _WRITE_UNIT))


def index_units(changed: IndexChange) -> float:
    """Units to bring one index up to date."""
    before, after = changed.before, changed.after
    if before is not None and after is not None and before[:2] != after[:2]:
        return write_units(before.size, 0) + write_units(0, after.size)
    return write_units(before.size if before else 0, after.size if after else 0)


@dataclass(slots=True)
class _TableUsage:
    reads: float = 0.0
    writes: float = 0.0
    indexes: dict[str, float] = field(default_factory=dict)


class Usage:
    """Units of one request, by table."""

    def __init__(self) -> None:
        self._tables: dict[str, _TableUsage] = {}

    def _of(self, table: str) -> _TableUsage:
        return self._tables.setdefault(table, _TableUsage())

    def read(self, table: str, units: float) -> None:
        """Add a read of the table itself."""
        self._of(table).reads += units

    def read_index(self, table: str, index: str, units: float) -> None:
        """Add a read of an index."""
        usage = self._of(table)
        usage.indexes[index] = usage.indexes.get(index, 0.0) + units

    def write(self, changed: Change, *, factor: int = 1) -> None:
        """Add a write with all its index updates; `factor` is 2 in a transaction."""
        usage = self._of(changed.table.name)
        before = changed.before.size if changed.before else 0
        after = changed.after.size if changed.after else 0
        usage.writes += write_units(before, after) * factor
        for delta in changed.indexes:
            name = delta.index.name
            usage.indexes[name] = usage.indexes.get(name, 0.0) + index_units(delta)

    def one(self, capacity_mode: str) -> dict[str, Any]:
        """The answer part of a request on one table: a ConsumedCapacity object, or nothing."""
        if capacity_mode == "NONE":
            return {}
        name, usage = next(iter(self._tables.items()))
        return {"ConsumedCapacity": _report(name, usage, capacity_mode)}

    def many(self, capacity_mode: str, *, transaction: bool = False) -> dict[str, Any]:
        """The answer part of a request on several tables: a list with an object for each."""
        if capacity_mode == "NONE":
            return {}
        reports = [_report(name, usage, capacity_mode, split=transaction) for name, usage in self._tables.items()]
        return {"ConsumedCapacity": reports}


def _report(name: str, usage: _TableUsage, capacity_mode: str, *, split: bool = False) -> dict[str, Any]:
    # Only transactions tell reads and writes apart: verified on AWS by others.
    kind = None if not split else "ReadCapacityUnits" if usage.reads else "WriteCapacityUnits"
    table_units = usage.reads + usage.writes
    report: dict[str, Any] = {"TableName": name, **_units(table_units + sum(usage.indexes.values()), kind)}
    if capacity_mode == "INDEXES":
        report["Table"] = _units(table_units, kind)
        if usage.indexes:
            report["GlobalSecondaryIndexes"] = {index: _units(units, kind) for index, units in usage.indexes.items()}
    return report


def _units(units: float, kind: str | None) -> dict[str, float]:
    return {"CapacityUnits": units} if kind is None else {"CapacityUnits": units, kind: units}
