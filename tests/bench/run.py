"""Runs every benchmark and prints one table: ``python -m tests.bench.run [subject …]``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.bench.harness import MARK, Row, table

HERE = Path(__file__).parent
ONE_BENCHMARK_S = 900


def rows_of(subject: str) -> list[Row] | None:
    """The rows of one benchmark, run in a process of its own; None if it failed (its output is then shown)."""
    print(f"── {subject}", flush=True)
    try:
        done = subprocess.run(
            [sys.executable, "-m", f"tests.bench.bench_{subject}"],
            cwd=HERE.parent.parent,
            stdout=subprocess.PIPE,
            text=True,
            timeout=ONE_BENCHMARK_S,
        )
    except subprocess.TimeoutExpired:
        print(f"   gave up after {ONE_BENCHMARK_S} s", flush=True)
        return None
    lines = done.stdout.splitlines()
    print("\n".join(line for line in lines if not line.startswith(MARK)), flush=True)
    handed = [line.removeprefix(MARK) for line in lines if line.startswith(MARK)]
    if done.returncode or not handed:
        print(f"   failed with exit code {done.returncode}", flush=True)
        return None
    return [Row(**row) for row in json.loads(handed[-1])]


def main(wanted: list[str]) -> int:
    known = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        print(f"unknown benchmark {', '.join(unknown)}; known: {', '.join(known)}", file=sys.stderr)
        return 2
    results = {subject: rows_of(subject) for subject in wanted or known}
    print("\n" + table([row for rows in results.values() for row in rows or []]))
    failed = [subject for subject, rows in results.items() if rows is None]
    if failed:
        print(f"\nfailed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
