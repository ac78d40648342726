"""What error answers mean: gone, busy, or why the run failed."""

from __future__ import annotations

import pytest

from callboard_adapters.dialects.acp_errors import busy, failure, gone, picture_in_history
from callboard_adapters.dialects.json_rpc import RpcError
from callboard_wire.failures import FailureReason as Why


@pytest.mark.parametrize(
    "error",
    [
        RpcError(-32603, "Internal error", "model not found in this session's provider"),
        RpcError(-32602, "Invalid params", "unknown mode for session"),
        RpcError(-32000, "Authentication required: session not found in keychain"),
        RpcError(-32603, "Internal error", {"http_status": 404}),
        RpcError(-32603, "session not found", "but it is locked by pid 4242"),
        RpcError(None, "an error without a text"),
    ],
)
def test_other_errors_are_no_evidence_that_the_session_is_gone(error):
    assert not gone(error, "s-1", opening=True)


def test_the_id_in_the_middle_of_the_words_hides_nothing():
    for said in (
        "Session s-1 not found",
        'session "s-1" not found',
        "no session found: s-1",
        "Session `s-1` does not exist",
    ):
        assert gone(RpcError(-32603, "Internal error", said), "s-1", opening=False), said


@pytest.mark.parametrize(
    ("error", "reason", "status"),
    [
        (RpcError(-32603, "Internal error", "Unauthorized (401) from http://127.0.0.1:8765/v1"), Why.AUTH, None),
        (RpcError(-32003, "Rate limited", "429 Too Many Requests"), Why.RATE_LIMIT, None),
        (
            RpcError(-32603, "Internal error", {"message": "prompt is too long", "http_status": 400}),
            Why.CONTEXT_OVERFLOW,
            400,
        ),
        (RpcError(-32603, "Internal error", {"error": {"statusCode": 503, "message": "x"}}), Why.SERVER_ERROR, 503),
        (RpcError(-32603, "Internal error", {"details": "No LLM provider configured."}), Why.MISSING_CONFIG, None),
        (RpcError(-32603, "Internal error", {"code": "insufficient_quota", "http_status": 429}), Why.QUOTA, 429),
        (RpcError(-32000, "Authentication required"), Why.AUTH, None),
        (RpcError(-32000, "error sending request for url (https://auth.example/)"), Why.NETWORK, None),
        (RpcError(-32603, "Internal error"), Why.SERVER_ERROR, None),
    ],
)
def test_the_evidence_is_in_the_data_before_it_is_in_the_words(error, reason, status):
    found = failure(error, "session/prompt")
    assert (found.reason, found.http_status) == (reason, status)
    assert found.detail.startswith("session/prompt: ")


def test_a_status_that_is_no_status_is_not_believed():
    assert failure(RpcError(-32603, "Internal error", {"status": True, "code": 7}), "x").http_status is None


def test_held_is_told_from_gone_and_a_large_picture_from_both():
    held = RpcError(-32603, "Internal error", "session is owned by pid 77")
    assert busy(held)
    assert not gone(held, "s", opening=True)
    picture = RpcError(-32603, "x", "image.source.base64.data: image dimensions exceed max allowed size")
    assert picture_in_history(picture)
    assert not picture_in_history(held)
