"""What a copilot run cost.

The stream says nothing about tokens (1.0.102); they are in the session's own `events.jsonl`, one
`session.usage_record` a model call. Where there are none (1.0.48, 1.0.85) `session.shutdown` has them: in 1.0.85 of
the whole session, the runs before this one too, in 1.0.48 of the last run alone. Input includes what came from and
went to the cache, output includes reasoning. The money there is counted in premium requests, not in dollars.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from callboard_adapters.dialects.json_values import count, flatten
from callboard_adapters.dialects.ndjson import LineParser
from callboard_adapters.messages import TokenUsage, add_usage

MARKERS = (b'"session.usage_record"', b'"session.start"', b'"session.resume"', b'"session.shutdown"')
"""The lines of a session's file that matter here."""


def tokens(usage: Mapping[str, Any]) -> TokenUsage:
    """One call, in buckets that do not overlap."""
    read, written = count(usage.get("cacheReadTokens")), count(usage.get("cacheWriteTokens"))
    whole = count(usage.get("inputTokens"))
    return TokenUsage(max(0, whole - read - written), count(usage.get("outputTokens")), read, written)


@dataclass(frozen=True, slots=True)
class SessionFile:
    """What a session's own file says about its last run."""

    usage: dict[str, TokenUsage]
    began_anew: bool  # the session was made by the run that asked for it, not resumed
    finish_reason: str = ""  # the provider's word for the end of the last call, "" where that is not recorded


def from_session_file(data: bytes, told_output: int = 0) -> SessionFile:
    """Read the lines with `MARKERS`. The usage is what was recorded after the last resume, each call once.

    `told_output` are the output tokens that the run's own messages told, 0 when they told none: they tell whether a
    `session.shutdown` counts the session or the run.
    """
    calls: dict[str, tuple[str, TokenUsage]] = {}
    before: dict[str, TokenUsage] = {}  # the last totals of the runs before this one
    last: dict[str, TokenUsage] = {}
    started = resumed = False
    finish_reason = ""
    for kind, inner in _events(data):
        if kind == "session.start":
            started = True
        elif kind == "session.resume":
            resumed = True
            calls, before, last, finish_reason = {}, last or before, {}, ""
        elif kind == "session.shutdown":
            last = totals(inner)
        elif kind == "session.usage_record" and isinstance(inner.get("usage"), dict):
            used = inner["usage"]
            finish_reason = flatten(used.get("finishReason"))
            accounting = used.get("accounting")
            once = accounting.get("usageId") if isinstance(accounting, dict) else None
            calls[str(once or used.get("apiCallId") or len(calls))] = (
                str(used.get("model") or "unknown"),
                tokens(used),
            )
    usage = _sum(calls.values()) if calls else _of_this_run(last, before, told_output)
    return SessionFile(usage, started and not resumed, finish_reason)


def _events(data: bytes) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    parser = LineParser()
    for line in data.splitlines():
        event = parser.parse(line)
        inner = event.get("data") if event else None
        if event and isinstance(inner, dict):
            yield event.get("type"), inner


def _of_this_run(last: dict[str, TokenUsage], before: dict[str, TokenUsage], told_output: int) -> dict[str, TokenUsage]:
    """The last run's part of a `session.shutdown`, by the reading that fits the output tokens the messages told."""
    part = {model: _minus(used, before.get(model, TokenUsage())) for model, used in last.items()}
    if not told_output:
        # A run asks the model at least once: totals that did not grow are not the session's.
        return part if _output(part) else last
    nearer = abs(_output(part) - told_output) <= abs(_output(last) - told_output)
    return part if nearer else last


def _output(usage: Mapping[str, TokenUsage]) -> int:
    return sum(used.output_tokens for used in usage.values())


def totals(shutdown: Mapping[str, Any]) -> dict[str, TokenUsage]:
    """`session.shutdown`: the whole session per model."""
    found = shutdown.get("modelMetrics")
    snapshot = shutdown.get("accountingSnapshot")
    if not isinstance(found, dict) and isinstance(snapshot, dict):
        found = snapshot.get("modelMetrics")
    result: dict[str, TokenUsage] = {}
    for model, metrics in found.items() if isinstance(found, dict) else ():
        used = metrics.get("usage") if isinstance(metrics, dict) else None
        if isinstance(used, dict):
            add_usage(result, str(model), tokens(used))
    return result


class StdoutUsage:
    """What older versions print: one source is taken, never a sum of several."""

    def __init__(self) -> None:
        self.model = ""
        self.shutdown: Mapping[str, Any] | None = None
        self._calls: dict[str, TokenUsage] = {}
        self._outputs: dict[str, TokenUsage] = {}

    def call(self, data: Mapping[str, Any]) -> None:
        """`assistant.usage`: one model call."""
        add_usage(self._calls, self._name(data), tokens(data))

    def message(self, data: Mapping[str, Any]) -> None:
        """`assistant.message` carries at least its output tokens."""
        self.model = str(data.get("model") or self.model)
        add_usage(self._outputs, self._name(data), TokenUsage(output_tokens=count(data.get("outputTokens"))))

    @property
    def told_output(self) -> int:
        """The output tokens of this run's messages, 0 when they told none."""
        return _output(self._outputs)

    def best(self, *, resumed: bool) -> dict[str, TokenUsage]:
        """The fullest there is. The session's totals hold earlier runs too when this one resumed it."""
        whole = totals(self.shutdown) if self.shutdown is not None and not resumed else {}
        return whole or self._calls or self._outputs

    def _name(self, data: Mapping[str, Any]) -> str:
        return str(data.get("model") or self.model or "unknown")


def _sum(calls: Iterable[tuple[str, TokenUsage]]) -> dict[str, TokenUsage]:
    total: dict[str, TokenUsage] = {}
    for model, used in calls:
        add_usage(total, model, used)
    return total


def _minus(whole: TokenUsage, before: TokenUsage) -> TokenUsage:
    return TokenUsage(
        max(0, whole.input_tokens - before.input_tokens),
        max(0, whole.output_tokens - before.output_tokens),
        max(0, whole.cache_read_tokens - before.cache_read_tokens),
        max(0, whole.cache_write_tokens - before.cache_write_tokens),
    )
