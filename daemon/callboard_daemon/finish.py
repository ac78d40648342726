"""Hop 8: from how a run ended here to what the server is told about it. Pure."""

from __future__ import annotations

from typing import Any, Final

from callboard_adapters.messages import Result, RunStatus
from callboard_daemon.execute import Ran
from callboard_daemon.report import Masker, usage_rows
from callboard_daemon.runs import Ending, RunRecord
from callboard_daemon.stop import StopCause
from callboard_wire.bodies import CancelAckRequest, CompleteRequest, FailRequest
from callboard_wire.failures import FailureReason

MAX_OUTPUT_CHARS: Final = 1_000_000
MAX_ERROR_CHARS: Final = 8_000
MAX_SESSION_CHARS: Final = 512


def ending_of(ran: Ran, record: RunRecord, cause: StopCause | None, mask: Masker) -> Ending:
    """What to say about a run that had a result. Only `completed` completes; whatever else it may be is a failure,
    because a blocked or limited run shown as done is the worse lie."""
    result = ran.result
    usage = usage_rows(record.provider, result.usage)
    common = _common(record, result, ran.retired_session_id)
    if cause is StopCause.CANCELLED:
        return Ending(kind="cancel_ack", usage=usage, cancel_ack=CancelAckRequest(**_only_ack(common)))
    if result.status is RunStatus.COMPLETED:
        output = _clipped(mask.text(result.output))
        return Ending(kind="complete", usage=usage, complete=CompleteRequest(**common, output=output))
    reason, error = _why(result, cause)
    fail = FailRequest(
        **common,
        error=mask.text(error)[:MAX_ERROR_CHARS],
        failure_reason=reason,
        output=_clipped(mask.text(result.output)),
    )
    return Ending(kind="fail", usage=usage, fail=fail)


def _clipped(output: str) -> str:
    """`output` within its limit, and saying so where it was cut: half an answer must not look whole."""
    if len(output) <= MAX_OUTPUT_CHARS:
        return output
    mark = f"\n\n[cut here: the answer has {len(output)} characters]"
    return output[: MAX_OUTPUT_CHARS - len(mark)] + mark


def ending_without_run(record: RunRecord, cause: StopCause | None, error: str, reason: FailureReason) -> Ending:
    """What to say about a task whose agent never started, or whose daemon did not live to see the result."""
    common = _common(record, None, "")
    if cause is StopCause.CANCELLED:
        return Ending(kind="cancel_ack", cancel_ack=CancelAckRequest(**_only_ack(common)))
    if cause is StopCause.DRAIN:
        error, reason = _DRAINED, FailureReason.RUNTIME_RECOVERY
    return Ending(kind="fail", fail=FailRequest(**common, error=error[:MAX_ERROR_CHARS], failure_reason=reason))


_DRAINED: Final = "the daemon was stopped while the task ran; the task was handed back"


def _why(result: Result, cause: StopCause | None) -> tuple[FailureReason, str]:
    if cause is StopCause.DRAIN:
        return FailureReason.RUNTIME_RECOVERY, _DRAINED
    if result.failure_reason is not None:
        return result.failure_reason, result.error or result.failure_reason
    if result.status is RunStatus.TIMEOUT:
        return FailureReason.TIMEOUT, result.error or "the run took longer than it may"
    return FailureReason.UNKNOWN, result.error or f"the run ended as {result.status.value}"


def keepable(session_id: str) -> str:
    """`session_id`, or nothing when the server could not keep it (too long, or without UTF-8): a run must not lose its
    ending to what its CLI calls its conversation."""
    fits = len(session_id) <= MAX_SESSION_CHARS and session_id.encode("utf-8", "ignore").decode() == session_id
    return session_id if fits else ""


def _common(record: RunRecord, result: Result | None, retired: str) -> dict[str, Any]:
    session = result.session_id if result is not None else record.session_id
    return {
        "claim_id": record.claim_id,
        "fence": record.fence,
        "session_id": keepable(session),
        "work_dir": record.work_dir,
        "retired_session_id": retired,
        "duration_ms": result.duration_ms if result is not None else None,
    }


def _only_ack(common: dict[str, Any]) -> dict[str, Any]:
    return {key: common[key] for key in ("claim_id", "fence", "session_id", "work_dir")}
