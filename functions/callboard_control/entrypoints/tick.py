"""tick: once a minute, what time alone decides."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from callboard_control.entrypoints._http import logger
from callboard_control.tasks.sweep import sweep

METRICS = {
    "OrphanSlots": "orphan_slots",
    "TaskLeaseExpired": "requeued",
    "TaskQueuedExpired": "expired",
    "TaskUnmovable": "broken",
}


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Sweep once; `{"more": true}` means it stopped at its bound and the next tick goes on."""
    swept = asdict(sweep())
    swept.pop("_left")
    logger.info("swept", extra=swept)
    # A fresh set a call: the usual one is shared by the process, and two ticks may run at once. Its service is the
    # environment's, which names the stage.
    metrics = EphemeralMetrics(namespace="Callboard")
    for name, field in METRICS.items():
        metrics.add_metric(name, MetricUnit.Count, swept[field])
    metrics.flush_metrics()
    return swept
