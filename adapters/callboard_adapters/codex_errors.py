"""Codex's own error kinds → why a run failed.

`codexErrorInfo` is a word (`usageLimitExceeded`) or an object around the HTTP status of the last attempt
(`{"responseTooManyFailedAttempts": {"httpStatusCode": 429}}`). For a provider's 5xx the text is only a friendly
sentence, so the kind decides before the wording.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from callboard_adapters import failures
from callboard_adapters.base import ProcessExit
from callboard_adapters.messages import FailureDetail
from callboard_wire.failures import FailureReason

_REASONS = {
    "contextWindowExceeded": FailureReason.CONTEXT_OVERFLOW,
    "sessionBudgetExceeded": FailureReason.QUOTA,
    "usageLimitExceeded": FailureReason.QUOTA,
    "rateLimitExceeded": FailureReason.RATE_LIMIT,
    "flexUnavailable": FailureReason.RATE_LIMIT,
    "serverOverloaded": FailureReason.RATE_LIMIT,
    "policyCapacityUnavailable": FailureReason.RATE_LIMIT,
    "modelNotFound": FailureReason.MODEL,
    "internalServerError": FailureReason.SERVER_ERROR,
    "unauthorized": FailureReason.AUTH,
    "badRequest": FailureReason.API_INVALID_REQUEST,
    "cyberPolicy": FailureReason.API_INVALID_REQUEST,
    "bioPolicy": FailureReason.API_INVALID_REQUEST,
    "misalignmentPolicyViolation": FailureReason.API_INVALID_REQUEST,
    "httpConnectionFailed": FailureReason.NETWORK,
    "responseStreamConnectionFailed": FailureReason.NETWORK,
    "responseStreamDisconnected": FailureReason.NETWORK,
}


@dataclass(frozen=True, slots=True)
class TurnError:
    """One error codex announced: `text` is a sentence, `kind` the word of its `codexErrorInfo` or ""."""

    text: str
    kind: str = ""
    http_status: int | None = None

    @classmethod
    def read(cls, error: Any) -> TurnError | None:
        """From an `error` object or string; None when there is nothing in it."""
        if isinstance(error, str):
            return cls(error) if error.strip() else None
        if not isinstance(error, dict) or not error:
            return None
        message = error.get("message")
        text = message if isinstance(message, str) and message.strip() else "codex reported an error without a text"
        details = error.get("additionalDetails")
        if isinstance(details, str) and details.strip() and details not in text:
            text = f"{text}: {details}"
        kind, status = _kind(error.get("codexErrorInfo"))
        return cls(text, kind, status)

    def failure(self, sentence: str = "", exit: ProcessExit | None = None) -> FailureDetail:
        """The failure with `sentence` (this error's text when empty): status, then kind, then wording."""
        text = sentence or self.text
        found = failures.classify(self.text, exit, http_status=self.http_status)
        reason = found.reason
        if self.http_status is None and self.kind in _REASONS:
            reason = _REASONS[self.kind]
        return FailureDetail(reason, text, self.http_status, self.kind or None)


def _kind(info: Any) -> tuple[str, int | None]:
    """(kind in today's spelling, HTTP status). The older events say `context_window_exceeded`, `http_status_code`."""
    if isinstance(info, str):
        return _today(info), None
    if isinstance(info, dict) and len(info) == 1:
        kind, detail = next(iter(info.items()))
        detail = detail if isinstance(detail, dict) else {}
        status = detail.get("httpStatusCode", detail.get("http_status_code"))
        return _today(str(kind)), status if type(status) is int else None
    return "", None


def _today(kind: str) -> str:
    first, *rest = kind.split("_")
    return first + "".join(word.capitalize() for word in rest)
