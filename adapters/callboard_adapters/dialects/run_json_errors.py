"""An `error` event of an opencode-like CLI as a failure: the provider's own status and code before any wording."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from callboard_adapters import failures
from callboard_adapters.base import ProcessExit
from callboard_adapters.dialects.run_json import error_text
from callboard_adapters.messages import FailureDetail, RunStatus
from callboard_wire.failures import FailureReason

_COLOUR = re.compile(r"\x1b?\[[0-9;]*m")
_NAMES = {
    "ContextOverflowError": FailureReason.CONTEXT_OVERFLOW,
    "ProviderAuthError": FailureReason.AUTH,
    "ProviderModelNotFoundError": FailureReason.MODEL,
    "MessageOutputLengthError": FailureReason.ITERATION_LIMIT,
}


def reported(error: Mapping[str, Any], exit: ProcessExit) -> tuple[RunStatus, str, FailureDetail]:
    """(status, sentence, failure) for the `error` object that was the last word of a run."""
    text, name = error_text(error), str(error.get("name") or "")
    data = error.get("data")
    detail = data if isinstance(data, dict) else {}
    if name == "MessageAbortedError":
        return RunStatus.ABORTED, text, FailureDetail(FailureReason.UNKNOWN, text)
    code = _body_code(detail.get("responseBody"))
    status = detail.get("statusCode")
    found = failures.classify(
        text,
        exit,
        http_status=status if type(status) is int else None,
        provider_code=code,
        retry_after_s=_retry_after(detail.get("responseHeaders")),
    )
    named = _NAMES.get(name)
    if named is not None and found.reason in (FailureReason.UNKNOWN, FailureReason.API_INVALID_REQUEST):
        found = FailureDetail(named, text, found.http_status, code or name, found.retry_after_s)
    return RunStatus.FAILED, text, found


def _body_code(body: Any) -> str | None:
    """The provider's own code in the body of its answer."""
    try:
        value = json.loads(body) if isinstance(body, str) else body
    except (ValueError, RecursionError):
        return None
    error = value.get("error") if isinstance(value, dict) else None
    if not isinstance(error, dict):
        return None
    code = error.get("code") or error.get("type")
    return code if isinstance(code, str) else None


def _retry_after(headers: Any) -> float | None:
    said = headers.get("retry-after") if isinstance(headers, dict) else None
    try:
        seconds = float(said) if said is not None else None
    except (TypeError, ValueError):
        return None
    return seconds if seconds is not None and 0 <= seconds < 1e7 else None


def silent(name: str, exit: ProcessExit) -> tuple[RunStatus, str, FailureDetail]:
    """The same for a run without a single step: whatever stderr says decides; without a word there is nothing."""
    said = _COLOUR.sub("", exit.stderr_tail).strip()
    error = f"{name} returned empty output ({exit})" + (f"; {name} stderr: {said}" if said else "")
    worded = failures.classify(said, exit)
    empty = worded.reason is FailureReason.UNKNOWN
    return RunStatus.FAILED, error, FailureDetail(FailureReason.EMPTY_OUTPUT if empty else worded.reason, error)


def approval(name: str) -> tuple[RunStatus, str, FailureDetail]:
    """The same for a run that fell silent after a tool until a clock ended it."""
    text = (
        f"{name} fell silent after a tool: it may be waiting for an approval or an answer that nobody can give it; "
        "look for a rule that says `ask` in its configuration and its agents"
    )
    return RunStatus.FAILED, text, FailureDetail(FailureReason.IDLE_WATCHDOG, text)
