"""tick: once a minute, what time alone decides."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from aws_lambda_powertools import Metrics
from aws_lambda_powertools.metrics import MetricUnit

from callboard_control.entrypoints._http import logger
from callboard_control.tasks.sweep import sweep

metrics = Metrics(namespace="Callboard", service="callboard")


@metrics.log_metrics
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Sweep once; `{"more": true}` means it stopped at its bound and the next tick goes on."""
    swept = asdict(sweep())
    swept.pop("_left")
    logger.info("swept", extra=swept)
    metrics.add_metric("OrphanSlots", MetricUnit.Count, swept["orphan_slots"])
    metrics.add_metric("TaskLeaseExpired", MetricUnit.Count, swept["requeued"])
    metrics.add_metric("TaskQueuedExpired", MetricUnit.Count, swept["expired"])
    return swept
