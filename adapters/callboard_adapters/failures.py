"""Why a run failed: evidence → one of the closed reasons.

Structured fields decide before wording: an HTTP status or a provider's error code is what the provider meant, while a
sentence may quote anything. The wording rules are for CLIs that leave nothing else; the first match wins and their
order matters (a context overflow is often reported as a 400 that also says "limit").
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from callboard_adapters.base import ProcessExit
from callboard_adapters.messages import FailureDetail
from callboard_wire.failures import FailureReason

_CODES: Final = {
    "authentication_failed": FailureReason.AUTH,
    "authentication_error": FailureReason.AUTH,
    "permission_error": FailureReason.AUTH,
    "permission_denied": FailureReason.AUTH,
    "invalid_api_key": FailureReason.AUTH,
    "unauthorized": FailureReason.AUTH,
    "oauth_org_not_allowed": FailureReason.AUTH,
    "billing_error": FailureReason.QUOTA,
    "insufficient_quota": FailureReason.QUOTA,
    "quota_exceeded": FailureReason.QUOTA,
    "usage_limit_reached": FailureReason.QUOTA,
    "rate_limit": FailureReason.RATE_LIMIT,
    "rate_limit_error": FailureReason.RATE_LIMIT,
    "rate_limit_exceeded": FailureReason.RATE_LIMIT,
    "overloaded": FailureReason.RATE_LIMIT,
    "overloaded_error": FailureReason.RATE_LIMIT,
    "server_error": FailureReason.SERVER_ERROR,
    "api_error": FailureReason.SERVER_ERROR,
    "internal_server_error": FailureReason.SERVER_ERROR,
    "model_not_found": FailureReason.MODEL,
    "not_found_error": FailureReason.MODEL,
    "context_length_exceeded": FailureReason.CONTEXT_OVERFLOW,
    "prompt_too_long": FailureReason.CONTEXT_OVERFLOW,
    "model_context_window_exceeded": FailureReason.CONTEXT_OVERFLOW,
    "request_too_large": FailureReason.CONTEXT_OVERFLOW,
    "connection_failed": FailureReason.NETWORK,
}
_REFUSED_AS_IT_IS: Final = frozenset({"invalid_request", "invalid_request_error"})
_STATUSES: Final = {
    401: FailureReason.AUTH,
    402: FailureReason.QUOTA,
    403: FailureReason.AUTH,
    404: FailureReason.MODEL,
    408: FailureReason.NETWORK,
    413: FailureReason.CONTEXT_OVERFLOW,
    429: FailureReason.RATE_LIMIT,
    529: FailureReason.RATE_LIMIT,
}


def classify(
    text: str,
    exit: ProcessExit | None = None,
    *,
    http_status: int | None = None,
    provider_code: str | None = None,
    retry_after_s: float | None = None,
) -> FailureDetail:
    """The failure for an error sentence and whatever structured evidence there is. Never raises."""
    reason = _from_code(provider_code) or _from_status(http_status, text) or from_wording(text)
    if reason is FailureReason.UNKNOWN and _plain(provider_code) in _REFUSED_AS_IT_IS:
        reason = FailureReason.API_INVALID_REQUEST
    # After the turn had ended the signal was ours, for a process that did not leave by itself.
    if reason is FailureReason.UNKNOWN and exit is not None and exit.signal is not None and not exit.turn_ended:
        reason = FailureReason.PROCESS
    return FailureDetail(reason, text, http_status, provider_code, retry_after_s)


def from_wording(text: str) -> FailureReason:
    """C13.2 of the fact sheet, made stricter where it was loose ("signal", "token" with "limit")."""
    low = text.lower()
    if not low.strip():
        return FailureReason.UNKNOWN
    return next((reason for reason, says in _WORDING if says(low)), FailureReason.UNKNOWN)


def _from_code(code: str | None) -> FailureReason | None:
    return _CODES.get(_plain(code))


def _plain(code: str | None) -> str:
    return (code or "").lower().replace("-", "_")


def _from_status(status: int | None, text: str) -> FailureReason | None:
    if status is None:
        return None
    if status in _STATUSES:
        return _STATUSES[status]
    if status == 400:
        # The one status that says nothing by itself: balance, context and bad history all arrive as 400.
        worded = from_wording(text)
        return FailureReason.API_INVALID_REQUEST if worded is FailureReason.UNKNOWN else worded
    return FailureReason.SERVER_ERROR if 500 <= status <= 599 else None


def _any(*phrases: str) -> Callable[[str], bool]:
    return lambda text: any(p in text for p in phrases)


def _all(*phrases: str) -> Callable[[str], bool]:
    return lambda text: all(p in text for p in phrases)


def _number(*patterns: str) -> Callable[[str], bool]:
    """A number that stands for itself: `402913 tokens`, `529ms`, an id like `2acb0f9bb548`, a version `1.402` and a
    place in a program (`provider.ts:582:13`, `582 | return x`) are no statuses."""
    before = r"(?:(?<![a-z0-9.])|(?<=http))(?<!\.ts:)(?<!\.js:)(?<!\.py:)"
    found = re.compile(f"{before}(?:{'|'.join(patterns)})" + r"(?![a-z0-9]|\.\d|:\d| \|)").search
    return lambda text: found(text) is not None


def _token_limit(text: str) -> bool:
    """`token` and `limit`, unless the sentence is about a rate (tokens per minute)."""
    return (
        "token" in text
        and "limit" in text
        and not any(p in text for p in ("rate limit", "per minute", "per min", "per day"))
    )


_WORDING: Final[tuple[tuple[FailureReason, Callable[[str], bool]], ...]] = (
    (
        FailureReason.CONTEXT_OVERFLOW,
        _any(
            "context length",
            "context_length_exceeded",
            "maximum context",
            "prompt is too long",
            "context size has been exceeded",
            "context window limit",
            "model_context_window_exceeded",
            "prompt_too_long",
        ),
    ),
    (FailureReason.CONTEXT_OVERFLOW, _token_limit),
    # Both come inside sentences about a broken stream or an internal error, and trying again gives the same.
    (FailureReason.AGENT_BLOCKED, _any("content_filter", "content filter", "safety refusal", "safety policy")),
    (FailureReason.EMPTY_OUTPUT, _any("max_output_tokens", "max output tokens", "by max_tokens")),
    (
        FailureReason.MISSING_CONFIG,
        _any("missing environment variable", "no llm provider configured", "no provider configured"),
    ),
    (FailureReason.MISSING_CONFIG, _all("missing", "api_key")),
    (FailureReason.MISSING_CONFIG, _all("api key", "required")),
    (FailureReason.AUTH, _number("401", "403")),
    (
        FailureReason.AUTH,
        _any(
            "unauthorized",
            "login required",
            "authentication required",
            "not logged in",
            "please login again",
            "please run /login",
            "refresh token",
            "invalid api key",
            "access token",
            "subscription access",
            "does not have access",
            "you may not have access",
            "failed to authenticate",
        ),
    ),
    (FailureReason.QUOTA, _number("402")),
    (
        FailureReason.QUOTA,
        _any(
            "insufficient_balance",
            "balance is too low",
            "monthly usage limit",
            "usage limit",
            "you've hit your limit",
            "you’ve hit your limit",
            "credits",
            "credit balance",
            "quota",
        ),
    ),
    (FailureReason.RATE_LIMIT, _number("429", "529")),
    (FailureReason.RATE_LIMIT, _any("rate limit", "overloaded", "no capacity available")),
    (
        FailureReason.SERVER_ERROR,
        _any("server had an error", "provider returned error", "internal error", "service unavailable", "bad gateway"),
    ),
    (FailureReason.SERVER_ERROR, _number(r"5\d\d")),
    (
        FailureReason.NETWORK,
        _any(
            "stream disconnected",
            "opencode stream ended",
            "connection closed",
            "mid-response",
            "error sending request",
            "unable to connect",
            "dial tcp",
            "connection refused",
            "connectionrefused",
            "dns",
            "i/o timeout",
            "deadline exceeded",
            "timeout exceeded while awaiting",
            "connection error",
        ),
    ),
    (FailureReason.MODEL, _all("model", "not found")),
    (FailureReason.MODEL, _any("unknown model", "selected model", "http 404", "404 page not found")),
    (
        FailureReason.EMPTY_OUTPUT,
        _any(
            "returned empty output",
            "returned no parseable output",
            "no response received from model",
            "no response was returned",
            "empty response text",
        ),
    ),
    (FailureReason.AGENT_TIMEOUT, _any("timed out after")),
    (FailureReason.MISSING_EXECUTABLE, _any("executable not found", "exec format error")),
    (
        FailureReason.VERSION,
        _any("below the minimum supported version", "requires a newer version", "no longer maintained"),
    ),
    (
        FailureReason.PROCESS,
        _any(
            "exit status",
            "killed by signal",
            "panic",
            "sigsegv",
            "process exited",
            "start codex:",
            "pipe has been ended",
            "file already closed",
            "initialize failed",
        ),
    ),
    # The type of an error document, for want of anything better: OpenAI's of a 401 has it too.
    (FailureReason.API_INVALID_REQUEST, _any("invalid_request_error")),
)
