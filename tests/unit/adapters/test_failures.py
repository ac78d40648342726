from __future__ import annotations

import pytest

from callboard_adapters.base import ProcessExit
from callboard_adapters.failures import classify, from_wording
from callboard_wire.failures import FailureReason as R

SENTENCES = [
    ("This model's maximum context length is 200000 tokens", R.CONTEXT_OVERFLOW),
    ("Prompt is too long", R.CONTEXT_OVERFLOW),
    ("input exceeds the token limit of the model", R.CONTEXT_OVERFLOW),
    ("rate limit: 30000 tokens per minute, limit reached", R.RATE_LIMIT),
    ("Missing environment variable: FOO", R.MISSING_CONFIG),
    ("An API key is required", R.MISSING_CONFIG),
    ("HTTP 401: no", R.AUTH),
    ("used 14012 of 20000", R.UNKNOWN),
    ("Not logged in · Please run /login", R.AUTH),
    ("your credit balance is too low", R.QUOTA),
    ("You’ve hit your limit", R.QUOTA),
    ("status 402", R.QUOTA),
    ("402913 words", R.UNKNOWN),
    ("429 Too Many Requests", R.RATE_LIMIT),
    ("Overloaded", R.RATE_LIMIT),
    ("503 Service Unavailable", R.SERVER_ERROR),
    ("took 15290ms", R.UNKNOWN),
    ("connect: connection refused", R.NETWORK),
    ("stages model:594ms, sessionId=callboard-745fedd2-9c64-4f1c-bd30-2acb0f9bb548", R.UNKNOWN),  # openclaw's log
    (
        "578 |       })\n579 |       s.sdk.set(key, loaded)\nProviderInitError: at src/provider/provider.ts:582:13",
        R.UNKNOWN,
    ),
    ("at run (/opt/cli/index.js:401)", R.UNKNOWN),
    ("version 1.402.7 failed", R.UNKNOWN),
    ('{"status":429}', R.RATE_LIMIT),
    ("HTTP503 from the provider", R.SERVER_ERROR),
    ("error:500.", R.SERVER_ERROR),
    ("stream disconnected before completion", R.NETWORK),
    ("model gpt-9 not found", R.MODEL),
    ("the CLI returned empty output", R.EMPTY_OUTPUT),
    ("No response received from model", R.EMPTY_OUTPUT),  # codebuddy
    ("No response was returned. Send your message again to retry.", R.EMPTY_OUTPUT),  # copilot
    ("[API Error: Model stream ended with empty response text.]", R.EMPTY_OUTPUT),  # qwen
    ("the run timed out after 3 s", R.AGENT_TIMEOUT),
    ("stream disconnected before completion: Incomplete response returned, reason: content_filter", R.AGENT_BLOCKED),
    ("provider.filtered: Provider safety policy blocked the response.", R.AGENT_BLOCKED),
    ("Incomplete response returned, reason: max_output_tokens", R.EMPTY_OUTPUT),
    ('Internal error {"message": "response truncated by max_tokens"}', R.EMPTY_OUTPUT),
    ('{"error": {"message": "content: not a list", "type": "invalid_request_error"}}', R.API_INVALID_REQUEST),
    ('{"error": {"message": "invalid API key", "type": "invalid_request_error"}}', R.AUTH),
    ("executable not found: claude", R.MISSING_EXECUTABLE),
    ("claude 1.0.0 is below the minimum supported version 2.0.0", R.VERSION),
    ("ended with exit status 3", R.PROCESS),
    ("killed by signal SIGKILL", R.PROCESS),
    ("a smoke signal was seen", R.UNKNOWN),
    ("", R.UNKNOWN),
]


@pytest.mark.parametrize(("text", "reason"), SENTENCES)
def test_wording_is_classified_when_there_is_nothing_better(text, reason):
    assert from_wording(text) is reason


def test_a_status_outranks_the_sentence_and_a_code_outranks_the_status():
    assert classify("Prompt is too long", http_status=401).reason is R.AUTH
    assert classify("quota", http_status=429, provider_code="insufficient_quota").reason is R.QUOTA
    assert classify("401", http_status=500, provider_code="overloaded_error").reason is R.RATE_LIMIT


def test_a_request_refused_as_it_is_is_named_so_where_nothing_tells_more():
    assert classify("Opus flagged this message", provider_code="invalid_request").reason is R.API_INVALID_REQUEST
    assert classify("prompt is too long", provider_code="invalid_request_error").reason is R.CONTEXT_OVERFLOW
    assert classify("too large", http_status=413, provider_code="invalid_request_error").reason is R.CONTEXT_OVERFLOW


def test_status_400_says_nothing_by_itself():
    assert classify("Your credit balance is too low", http_status=400).reason is R.QUOTA
    assert classify("prompt is too long", http_status=400).reason is R.CONTEXT_OVERFLOW
    assert classify("messages.3: image exceeds 5 MB", http_status=400).reason is R.API_INVALID_REQUEST


def test_an_unknown_code_leaves_the_decision_to_what_is_known():
    assert classify("x", http_status=503, provider_code="weird_new_code").reason is R.SERVER_ERROR
    assert classify("rate limit", provider_code="weird_new_code").reason is R.RATE_LIMIT


def test_the_evidence_is_kept_as_fields():
    detail = classify("slow down", http_status=429, provider_code="rate_limit_error", retry_after_s=12.0)
    assert (detail.http_status, detail.provider_code, detail.retry_after_s) == (429, "rate_limit_error", 12.0)


def test_a_signal_explains_what_no_sentence_does():
    killed = ProcessExit(None, 9, None, False, "")
    assert classify("it went away", killed).reason is R.PROCESS
    assert str(killed) == "killed by signal SIGKILL"
    assert str(ProcessExit(None, 250, None, False, "")) == "killed by signal 250"
