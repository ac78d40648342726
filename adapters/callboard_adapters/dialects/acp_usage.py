"""Tokens as ACP agents state them → this library's buckets, which do not overlap.

Agents agree on neither the key names nor on whether `inputTokens` holds the cached ones and `outputTokens` the
thoughts. Where they state a total, the total decides: it is the sum of exactly the parts that are separate.
"""

from __future__ import annotations

from typing import Any

from callboard_adapters.messages import TokenUsage

_INPUT = ("inputTokens", "input_tokens")
_OUTPUT = ("outputTokens", "output_tokens")
_READ = ("cachedReadTokens", "cacheReadTokens", "cached_input_tokens", "cache_read_tokens", "cache_read_input_tokens")
_WRITE = (
    "cachedWriteTokens",
    "cacheWriteTokens",
    "cacheCreationTokens",
    "cache_write_tokens",
    "cache_creation_input_tokens",
)
_THOUGHT = ("thoughtTokens", "thought_tokens", "reasoningTokens", "reasoning_tokens")
_TOTAL = ("totalTokens", "total_tokens")
_COST = ("costUsdTicks", "cost_usd_ticks")
_KEYS = (_INPUT, _OUTPUT, _READ, _WRITE, _THOUGHT, _TOTAL, _COST)
_LARGEST = 2**53


class UsageBook:
    """The run's usage from statements that each cover the whole run so far, in any order.

    A statement whose total fixed the meaning of its parts beats one that left it open, unless it is plainly older.
    """

    def __init__(self) -> None:
        self._certain = TokenUsage()
        self._open = TokenUsage()
        self._cost: int | None = None

    def add(self, *sources: Any) -> bool:
        """Take one statement; later sources only fill what earlier ones left out. True when it said anything."""
        values = _merge(sources)
        usage, certain = resolve(values)
        cost = values[6]
        if cost:
            self.add_cost(cost)
        if not usage.tokens:
            return bool(cost)
        if certain and usage.tokens >= self._certain.tokens:
            self._certain = usage
        elif not certain:
            self._open = _largest(self._open, usage)
        return True

    def add_cost(self, ticks: int) -> None:
        self._cost = max(self._cost or 0, ticks)

    @property
    def total(self) -> TokenUsage:
        stated = self._open.input_tokens + self._open.output_tokens
        best = self._certain if self._certain.tokens and self._certain.tokens >= stated else self._open
        return TokenUsage(
            best.input_tokens, best.output_tokens, best.cache_read_tokens, best.cache_write_tokens, self._cost
        )


def usage_of(source: Any) -> TokenUsage:
    """One statement by itself, with its cost."""
    values = _merge((source,))
    usage, _ = resolve(values)
    return TokenUsage(
        usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens, values[6] or None
    )


def resolve(values: list[int]) -> tuple[TokenUsage, bool]:
    """(buckets, whether the total fixed them) for [input, output, read, write, thought, total, …]."""
    given, output, read, write, thought, total = values[:6]
    cached = read + write
    thoughts_apart = {given + output + thought, given + output + thought + cached} if thought else set()
    if total and total in thoughts_apart and total not in (given + output, given + output + cached):
        output += thought
    if total and total == given + output and cached <= given:
        return TokenUsage(given - cached, output, read, write), True
    return TokenUsage(given, output, read, write), bool(total) and total == given + output + cached


def _merge(sources: tuple[Any, ...]) -> list[int]:
    merged = [0] * len(_KEYS)
    for source in sources:
        if not isinstance(source, dict):
            continue
        for at, names in enumerate(_KEYS):
            value = next((n for n in (_number(source.get(name)) for name in names) if n), 0)
            if at == len(_KEYS) - 1:
                merged[at] = max(merged[at], value)
            elif not merged[at]:
                merged[at] = value
    return merged


def _number(value: Any) -> int:
    """A count, also as a string of digits; whatever is none is 0."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= 15:
        value = int(value)
    if type(value) not in (int, float):
        return 0
    return int(value) if 0 <= value < _LARGEST else 0


def _largest(a: TokenUsage, b: TokenUsage) -> TokenUsage:
    return TokenUsage(
        max(a.input_tokens, b.input_tokens),
        max(a.output_tokens, b.output_tokens),
        max(a.cache_read_tokens, b.cache_read_tokens),
        max(a.cache_write_tokens, b.cache_write_tokens),
    )
