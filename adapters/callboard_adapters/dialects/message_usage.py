"""Usage that is stated per message, where several events repeat one message's.

Only a fallback for runs that end without a total: the output tokens are stated as a message begins, so their sum is a
lower bound.
"""

from __future__ import annotations

from callboard_adapters.messages import TokenUsage

_OPEN_MESSAGES = 64  # events of one message come close together; older ones are settled


class MessageUsage:
    def __init__(self) -> None:
        self._latest: dict[str, tuple[str, TokenUsage]] = {}
        self._total: dict[str, TokenUsage] = {}
        self._events = 0  # of messages without an id
        self._nameless: tuple[str, TokenUsage] | None = None

    def note(self, message_id: str, model: str, usage: TokenUsage) -> bool:
        """Count a message's usage once, whatever number of events repeats it. True when it was news.

        Without an id the same numbers twice in a row are one message told twice: the next call sends more.
        """
        if not message_id and self._nameless != (model, usage):
            self._nameless = (model, usage)
            self._events += 1
        key = message_id or f"#{self._events}"
        old = self._latest.get(key)
        if old == (model, usage):
            return False
        if old is not None:
            self._add(old[0], _negative(old[1]))
        elif len(self._latest) >= _OPEN_MESSAGES:
            del self._latest[next(iter(self._latest))]
        self._latest[key] = (model, usage)
        self._add(model, usage)
        return True

    def by_model(self, default_model: str) -> dict[str, TokenUsage]:
        """The sum so far; messages without a model count for `default_model`."""
        total: dict[str, TokenUsage] = {}
        for model, usage in self._total.items():
            if usage.tokens:
                name = model or default_model or "unknown"
                total[name] = total[name] + usage if name in total else usage
        return total

    def _add(self, model: str, usage: TokenUsage) -> None:
        before = self._total.get(model)
        self._total[model] = usage if before is None else before + usage


def _negative(usage: TokenUsage) -> TokenUsage:
    return TokenUsage(
        -usage.input_tokens, -usage.output_tokens, -usage.cache_read_tokens, -usage.cache_write_tokens, None
    )
