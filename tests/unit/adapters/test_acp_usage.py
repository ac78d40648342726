"""Tokens as ACP agents state them, and what they mean."""

from __future__ import annotations

import itertools

import pytest

from callboard_adapters import TokenUsage
from callboard_adapters.dialects.acp_usage import UsageBook, usage_of


def total(*statements: object) -> TokenUsage:
    book = UsageBook()
    for statement in statements:
        book.add(statement)
    return book.total


@pytest.mark.parametrize(
    ("stated", "means"),
    [
        # Hermes, grok: the total is input + output, so the cached tokens are inside the input.
        (
            {"inputTokens": 2234, "outputTokens": 56, "cachedReadTokens": 1000, "totalTokens": 2290},
            TokenUsage(1234, 56, 1000),
        ),
        # … and the thoughts inside the output.
        (
            {
                "inputTokens": 2234,
                "outputTokens": 56,
                "cachedReadTokens": 1000,
                "thoughtTokens": 7,
                "totalTokens": 2290,
            },
            TokenUsage(1234, 56, 1000),
        ),
        # All parts apart.
        (
            {
                "inputTokens": 10,
                "outputTokens": 5,
                "cachedReadTokens": 100,
                "cachedWriteTokens": 20,
                "totalTokens": 135,
            },
            TokenUsage(10, 5, 100, 20),
        ),
        # Thoughts beside the output.
        ({"inputTokens": 10, "outputTokens": 5, "thoughtTokens": 3, "totalTokens": 18}, TokenUsage(10, 8)),
        # Written tokens inside the input, too, under one of their other names.
        (
            {
                "input_tokens": 130,
                "output_tokens": 5,
                "cacheReadTokens": 100,
                "cacheCreationTokens": 20,
                "total_tokens": 135,
            },
            TokenUsage(10, 5, 100, 20),
        ),
        # No total: nothing says otherwise, so the parts stay as they are.
        ({"inputTokens": 10, "outputTokens": 5, "cachedReadTokens": 100}, TokenUsage(10, 5, 100)),
        # More cached than input: it cannot be inside.
        ({"inputTokens": 10, "outputTokens": 5, "cachedReadTokens": 100, "totalTokens": 15}, TokenUsage(10, 5, 100)),
        # Digits as text, nonsense elsewhere.
        ({"inputTokens": "10", "outputTokens": -4, "cachedReadTokens": None, "totalTokens": "x"}, TokenUsage(10)),
        ({"inputTokens": float("nan"), "outputTokens": float("inf"), "cachedReadTokens": True}, TokenUsage()),
        ({"inputTokens": 1, "outputTokens": 1, "costUsdTicks": 1200}, TokenUsage(1, 1, cost_usd_ticks=1200)),
        ({}, TokenUsage()),
        (None, TokenUsage()),
    ],
)
def test_the_stated_total_decides_what_the_parts_mean(stated, means):
    assert usage_of(stated) == means
    assert total(stated) == means


def test_whole_run_statements_are_the_same_in_any_order():
    early = {"inputTokens": 100, "outputTokens": 10, "cachedReadTokens": 40, "totalTokens": 110}
    final = {"inputTokens": 300, "outputTokens": 30, "cachedReadTokens": 90, "totalTokens": 330}
    vague = {"inputTokens": 120, "outputTokens": 12, "cachedReadTokens": 40}
    assert {total(*order) for order in itertools.permutations((early, final, vague))} == {TokenUsage(210, 30, 90)}


def test_a_later_statement_without_a_total_beats_an_older_one_with():
    old = {"inputTokens": 100, "outputTokens": 10, "cachedReadTokens": 40, "totalTokens": 110}
    assert total(old, {"inputTokens": 500, "outputTokens": 50}) == TokenUsage(500, 50)


def test_holes_are_filled_from_the_places_after_and_nothing_else():
    book = UsageBook()
    flat = {"inputTokens": 4345, "outputTokens": 67, "cachedReadTokens": 2000, "totalTokens": 4412}
    book.add(None, {"inputTokens": 6579, "outputTokens": 123, "cachedReadTokens": 3000, "totalTokens": 6702}, flat)
    assert book.total == TokenUsage(3579, 123, 3000)
    assert total() == TokenUsage()
