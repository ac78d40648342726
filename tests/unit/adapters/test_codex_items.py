"""Codex's items and tokens as this library's messages and buckets."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard_adapters.codex_errors import TurnError
from callboard_adapters.codex_items import MAX_PATCH, legacy_changes, patch_input, reasoning_text, tool_of
from callboard_adapters.codex_usage import RunUsage, ThreadUsage, from_rollout, tokens, turn_usage
from callboard_adapters.messages import TokenUsage
from callboard_wire.failures import FailureReason


def test_a_patch_shows_every_file_with_its_kind_and_text():
    changes = [
        {
            "path": "a.py",
            "kind": {"type": "update", "move_path": "b.py"},
            "diff": "@@ -1 +1 @@\n-x\n+y\n\nMoved to: b.py",
        },
        {"path": "new.py", "kind": {"type": "add"}, "diff": "whole file\n"},
        {"path": "old.py", "kind": "delete", "diff": "gone\n"},
        {"path": "empty.py", "kind": {"type": "add"}, "diff": ""},
    ]
    tool = tool_of({"type": "fileChange", "id": "p", "status": "completed", "changes": changes})
    assert tool.input == {
        "changes": [
            {"path": "a.py", "kind": "update", "move_path": "b.py", "diff": "@@ -1 +1 @@\n-x\n+y"},
            {"path": "new.py", "kind": "add", "content": "whole file\n"},
            {"path": "old.py", "kind": "delete", "content": "gone\n"},
            {"path": "empty.py", "kind": "add", "content": ""},
        ]
    }
    assert (tool.name, tool.output, tool.failed) == ("patch_apply", "completed (4 files)", False)


def test_a_declined_patch_has_failed():
    tool = tool_of({"type": "fileChange", "status": "declined", "changes": [{"path": "a"}]})
    assert (tool.failed, tool.output) == (True, "declined (1 file)")


def test_the_older_patches_come_out_as_todays():
    changes = {
        "b.py": {"type": "update", "unified_diff": "@@", "move_path": "c.py"},
        "a.py": {"type": "add", "content": ""},
    }
    assert legacy_changes(changes) == [
        {"path": "a.py", "kind": "add", "content": ""},
        {"path": "b.py", "kind": "update", "move_path": "c.py", "diff": "@@"},
    ]


def test_a_large_patch_is_cut_after_its_secrets_are_out():
    """A key across the cut would leave a half that no pattern knows."""
    key = "-----BEGIN RSA PRIVATE KEY-----\n" + "A" * 4000 + "\n-----END RSA PRIVATE KEY-----\n"
    diff = "x" * (MAX_PATCH - 2000) + key + "é" * MAX_PATCH
    given = patch_input(
        [{"path": "a", "kind": "add", "content": diff}, {"path": "b", "kind": "add", "content": "tail"}]
    )
    text = given["changes"][0]["content"]
    assert "AAAA" not in text
    assert len(text.encode()) <= MAX_PATCH
    assert given["changes"][1]["content"] == ""
    assert given["truncated"] is True
    assert given["original_bytes"] > MAX_PATCH


@pytest.mark.parametrize(
    ("fields", "output", "failed"),
    [
        ({"status": "completed", "exitCode": 0, "aggregatedOutput": "a\n"}, "a\n", False),
        ({"status": "failed", "exitCode": 2, "aggregatedOutput": "boom"}, "boom", True),
        ({"status": "failed", "exitCode": 2, "aggregatedOutput": None}, "exit code 2", True),
        ({"status": "completed", "exitCode": 1, "aggregatedOutput": ""}, "exit code 1", True),
        ({"status": "declined", "aggregatedOutput": None}, "declined", True),
        ({}, "", False),
    ],
)
def test_a_command_ends_with_what_it_printed_or_why_not(fields, output, failed):
    tool = tool_of({"type": "commandExecution", "id": "c", "command": "ls", **fields})
    assert (tool.name, tool.input, tool.output, tool.failed) == ("exec_command", {"command": "ls"}, output, failed)


def test_an_mcp_call_shows_its_server_its_text_and_names_what_is_no_text():
    result = {"content": [{"type": "text", "text": "found"}, {"type": "image", "data": "AAAA" * 1000}]}
    item = {"type": "mcpToolCall", "server": "docs", "tool": "search", "arguments": {"q": "x"}, "status": "completed"}
    tool = tool_of({**item, "result": result})
    assert (tool.name, tool.input) == ("search", {"server": "docs", "arguments": {"q": "x"}})
    assert (tool.output, tool.failed) == ("found\n[image]", False)
    failed = tool_of({**item, "status": "failed", "error": {"message": "token=abc refused"}})
    assert failed.failed
    assert "abc" not in failed.output


def test_a_web_search_is_shown_when_its_query_is_known():
    assert not tool_of({"type": "webSearch", "id": "w", "query": ""}).early
    tool = tool_of({"type": "webSearch", "id": "w", "query": "q", "action": {"type": "search", "query": "q"}})
    assert tool.input == {"query": "q", "action": {"type": "search", "query": "q"}}


@pytest.mark.parametrize("kind", ["agentMessage", "reasoning", "userMessage", "somethingNew", "", None, 7])
def test_what_is_no_tool_is_none(kind):
    assert tool_of({"type": kind}) is None


def test_a_thought_is_its_summary_or_else_its_raw_text():
    assert reasoning_text({"summary": ["one", "two"], "content": ["raw"]}) == "one\n\ntwo"
    assert reasoning_text({"summary": [], "content": [{"type": "text", "text": "raw"}]}) == "raw"
    assert reasoning_text({"summary": None}) == ""


# ── tokens ──────────────────────────────────────────────────────────────────────────


def usage(total: tuple[int, int, int] | None, last: tuple[int, int, int] | None) -> dict:
    names = ("inputTokens", "cachedInputTokens", "outputTokens")
    pairs = {"total": total, "last": last}
    return {key: dict(zip(names, value, strict=True)) for key, value in pairs.items() if value is not None}


def test_cached_input_is_part_of_input_and_reasoning_part_of_output():
    counts = {"input_tokens": 100, "cached_input_tokens": 80, "output_tokens": 10, "reasoning_output_tokens": 5}
    assert turn_usage({"usage": counts}) == TokenUsage(20, 10, 80)


def test_a_resumed_thread_counts_from_its_old_total():
    thread = ThreadUsage(fresh=False)
    thread.step(usage((9000, 500, 90), (100, 0, 9)), mine=False)
    thread.step(usage((9200, 600, 95), (200, 100, 5)), mine=True)
    assert tokens(thread.ours) == TokenUsage(100, 5, 100)


def test_a_resumed_thread_whose_old_total_was_never_told_counts_its_calls():
    thread = ThreadUsage(fresh=False)
    thread.step(usage((9200, 600, 95), (200, 100, 5)), mine=True)
    thread.step(usage((9300, 600, 96), (100, 0, 1)), mine=True)
    assert tokens(thread.ours) == TokenUsage(200, 6, 100)


def test_an_event_told_twice_counts_once_and_one_never_told_counts_too():
    thread = ThreadUsage(fresh=True)
    for _ in range(3):
        thread.step(usage((100, 0, 10), (100, 0, 10)), mine=True)
    thread.step(usage((300, 0, 30), (100, 0, 10)), mine=True)  # the one between was lost
    assert tokens(thread.ours) == TokenUsage(300, 30)


def test_a_total_that_fell_was_reset_and_the_call_still_counts():
    thread = ThreadUsage(fresh=True)
    thread.step(usage((1000, 0, 100), (1000, 0, 100)), mine=True)
    thread.step(usage((50, 0, 5), (50, 0, 5)), mine=True)
    assert tokens(thread.ours) == TokenUsage(1050, 105)


def test_what_the_turn_itself_states_counts_only_where_nothing_was_counted():
    run = RunUsage()
    run.follow("t", fresh=True)
    run.stated(TokenUsage(7, 1))
    assert run.by_model() == {"unknown": TokenUsage(7, 1)}
    run.step("t", usage((5, 0, 2), (5, 0, 2)), mine=True)
    assert run.by_model() == {"unknown": TokenUsage(5, 2)}


def _count(at: str, total: int, last: int) -> bytes:
    info = {"total_token_usage": {"input_tokens": total}, "last_token_usage": {"input_tokens": last}}
    return json.dumps({"timestamp": at, "type": "event_msg", "payload": {"type": "token_count", "info": info}}).encode()


def _context(at: str, model: str, **payload: str) -> bytes:
    return json.dumps({"timestamp": at, "type": "turn_context", "payload": {"model": model, **payload}}).encode()


def test_a_rollout_without_turn_ids_is_cut_by_time():
    lines = [
        _context("2026-01-01T00:00:00Z", "old"),
        _count("2026-01-01T00:00:01Z", 1000, 1000),
        b"not json",
        _context("2026-01-02T00:00:00Z", "new"),
        _count("2026-01-02T00:00:01Z", 1100, 100),
    ]
    started = 1767312000.0  # 2026-01-02T00:00:00Z
    assert from_rollout(lines, "", started, resumed=True) == {"new": TokenUsage(100)}


def test_a_rollout_is_cut_by_the_turn_where_it_names_it():
    lines = [
        _context("2026-01-01T00:00:00Z", "m", turn_id="a"),
        _count("2026-01-01T00:00:01Z", 1000, 1000),
        _context("2026-01-01T00:00:02Z", "m", turn_id="b"),
        _count("2026-01-01T00:00:03Z", 1300, 300),
    ]
    assert from_rollout(lines, "b", 0.0, resumed=True) == {"m": TokenUsage(300)}
    assert from_rollout(lines, "c", 0.0, resumed=True) == {}


# ── errors ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("error", "reason", "status"),
    [
        (
            {"message": "x", "codexErrorInfo": {"httpConnectionFailed": {"httpStatusCode": 401}}},
            FailureReason.AUTH,
            401,
        ),
        (
            {"message": "x", "codexErrorInfo": {"responseTooManyFailedAttempts": {"httpStatusCode": 429}}},
            FailureReason.RATE_LIMIT,
            429,
        ),
        ({"message": "We are busy", "codexErrorInfo": "internalServerError"}, FailureReason.SERVER_ERROR, None),
        ({"message": "x", "codexErrorInfo": "usageLimitExceeded"}, FailureReason.QUOTA, None),
        ({"message": "x", "codexErrorInfo": "contextWindowExceeded"}, FailureReason.CONTEXT_OVERFLOW, None),
        (
            {"message": "x", "codexErrorInfo": {"responseStreamDisconnected": {"httpStatusCode": None}}},
            FailureReason.NETWORK,
            None,
        ),
        ({"message": "stream disconnected before completion", "codexErrorInfo": "other"}, FailureReason.NETWORK, None),
        ("rate limit reached", FailureReason.RATE_LIMIT, None),
    ],
)
def test_the_kind_of_an_error_decides_before_its_words(error, reason, status):
    failure = TurnError.read(error).failure()
    assert (failure.reason, failure.http_status) == (reason, status)


@pytest.mark.parametrize("nothing", [None, {}, "", "  ", 5, []])
def test_nothing_is_no_error(nothing):
    assert TurnError.read(nothing) is None


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
KINDS = ["commandExecution", "fileChange", "mcpToolCall", "dynamicToolCall", "webSearch", "collabAgentToolCall"]
FIELDS = [
    "id",
    "command",
    "changes",
    "result",
    "error",
    "arguments",
    "status",
    "exitCode",
    "aggregatedOutput",
    "action",
]


@given(st.sampled_from([*KINDS, "imageView", "sleep"]), st.dictionaries(st.sampled_from(FIELDS), anything))
def test_an_item_of_any_shape_is_still_a_tool(kind, fields):
    tool = tool_of({**fields, "type": kind})
    assert tool.name
    assert isinstance(tool.output, str)


@given(st.lists(st.tuples(anything, st.booleans()), max_size=6))
def test_usage_of_any_shape_never_goes_below_nothing(events):
    thread = ThreadUsage(fresh=False)
    for value, mine in events:
        thread.step({"total": value, "last": value}, mine=mine)
        thread.step(value, mine=mine)
    counted = tokens(thread.ours)
    assert min(counted.input_tokens, counted.output_tokens, counted.cache_read_tokens) >= 0
