"""tick: once a minute, what time alone decides."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from callboard_control.entrypoints._http import logger
from callboard_control.tasks.sweep import sweep

MARGIN_MS = 12_000
"""Left of the function's time for the move that is under way: a silent store is given up after ten seconds only."""
METRICS = {
    "OrphanSlots": "orphan_slots",
    "TaskLeaseExpired": "requeued",
    "TaskQueuedExpired": "expired",
    "TaskUnmovable": "broken",
}


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Sweep once; `{"more": true}` means it stopped at its bound, or before its time was up, and the next tick goes on.
    Cut off by Lambda instead, it would be an error each time there is much to do, and say nothing of what it did."""
    swept = asdict(sweep(for_ms=context.get_remaining_time_in_millis() - MARGIN_MS))
    del swept["_left"], swept["_until"]
    logger.info("swept", extra=swept)
    # A fresh set a call: the usual one is shared by the process, and two ticks may run at once. Its service is the
    # environment's, which names the stage.
    metrics = EphemeralMetrics(namespace="Callboard")
    for name, field in METRICS.items():
        metrics.add_metric(name, MetricUnit.Count, swept[field])
    metrics.flush_metrics()
    return swept
