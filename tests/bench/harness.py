"""What the benchmarks share: a row of a table, percentiles, printing. No benchmark asserts on the clock.

A benchmark is a file ``tests/bench/bench_<subject>.py`` with ``main() -> list[Row]``; ``make bench`` runs each in a
process of its own (so that memory and imports are its own) and prints one table.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

# One token does the work of a thousand machines here: counted as usual, and never at its limit.
os.environ.setdefault("CALLBOARD_RATE_TOKEN", "999999999")

MARK = "@@rows "
"""Begins the line on which a benchmark's process hands its rows to the runner."""


@dataclass(frozen=True)
class Row:
    """One figure. `reach` is what the project set out to reach, in words; it is printed beside, never enforced."""

    subject: str
    figure: str
    value: float
    unit: str
    reach: str = ""
    note: str = ""


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that `percent` of `values` do not exceed (nearest rank).

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("percentile of no values")
    ordered = sorted(values)
    rank = max(1, -(-len(ordered) * percent // 100))
    return ordered[int(rank) - 1]


def table(rows: Sequence[Row]) -> str:
    """A Markdown table, so that it can be pasted into the README as it is."""
    cells = [("what", "figure", "measured", "reach", "note")]
    cells += [(row.subject, row.figure, f"{_number(row.value)} {row.unit}", row.reach, row.note) for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(5)]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in cells
    ]
    lines.insert(1, "| " + " | ".join("-" * width for width in widths) + " |")
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def run(main: Callable[[], list[Row]]) -> None:
    """For ``if __name__ == "__main__"``: prints the table for people and the rows for the runner."""
    rows = main()
    print(table(rows))
    print(MARK + json.dumps([asdict(row) for row in rows]))
    sys.stdout.flush()
