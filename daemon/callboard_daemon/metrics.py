"""Counters and gauges of this daemon, as Prometheus reads them. No ids as labels: series must not grow with use."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

_HELP: Final = {
    "callboard_daemon_claims_total": ("counter", "Claims answered by the server, by outcome."),
    "callboard_daemon_tasks_total": ("counter", "Runs that ended, by how."),
    "callboard_daemon_tasks_running": ("gauge", "Runs in progress."),
    "callboard_daemon_slots": ("gauge", "How many runs may be in progress at once."),
    "callboard_daemon_messages_total": ("counter", "Messages of runs handed to the spool."),
    "callboard_daemon_control_errors_total": ("counter", "Requests to the server that failed, by kind."),
    "callboard_daemon_undelivered_runs": ("gauge", "Runs whose end the server has not confirmed."),
    "callboard_daemon_resident_bytes": ("gauge", "Memory in use."),
    "callboard_daemon_cpu_seconds_total": ("counter", "Processor time used."),
}


class Metrics:
    def __init__(self) -> None:
        self._values: defaultdict[tuple[str, str], float] = defaultdict(float)

    def add(self, name: str, label: str = "", amount: float = 1) -> None:
        """`label` is ready to print: `outcome="task"`."""
        self._values[name, label] += amount

    def set(self, name: str, value: float) -> None:
        self._values[name, ""] = value

    def render(self) -> str:
        """The text exposition format, version 0.0.4."""
        lines: list[str] = []
        for name, (kind, text) in _HELP.items():
            samples = sorted((label, value) for (known, label), value in self._values.items() if known == name)
            if samples:
                lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
                lines += [f"{name}{{{label}}} {value:g}" if label else f"{name} {value:g}" for label, value in samples]
        return "\n".join(lines) + "\n"
