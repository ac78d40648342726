"""What a run says, what it cost and how it ended: the values that cross the library's public face.

Messages are plain slotted objects and not frozen: a busy run makes tens of thousands, and a frozen dataclass costs
three times as much to build. Nobody but the run that made them may change them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from callboard_wire.failures import FailureReason


class MessageType(StrEnum):
    """The seven kinds of message; the values are the wire's."""

    TEXT = "text"
    THINKING = "thinking"
    TOOL_USE = "tool-use"
    TOOL_RESULT = "tool-result"
    STATUS = "status"
    ERROR = "error"
    LOG = "log"


class RunStatus(StrEnum):
    """How a run ended. Exactly one per run.

    `completed`  the agent finished its turn. `failed`  it could not. `aborted`  the agent's side interrupted the turn
    and nobody here had asked. `timeout`  one of our clocks ran out (`Result.failure.watchdog` says which).
    `cancelled`  the caller asked for the end.
    """

    COMPLETED = "completed"
    FAILED = "failed"
    ABORTED = "aborted"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"


class Watchdog(StrEnum):
    """The clocks of a run, each with its own limit in `ExecOptions`."""

    HARD = "hard"  # the caller's deadline for the whole run
    HANDSHAKE = "handshake"  # the CLI never became ready
    FIRST_PROGRESS = "first_progress"  # ready, and then not one word, thought or tool call
    SEMANTIC_INACTIVITY = "semantic_inactivity"  # it says things, but nothing that moves the work
    IDLE = "idle"  # no message of any kind, no tool running
    TOOL = "tool"  # no message of any kind while a tool runs


@dataclass(slots=True)
class Message:
    """One thing a run says. Fields that do not apply to `type` are empty.

    `content` belongs to text, thinking, error and log; `tool`, `call_id`, `input` to tool-use; `call_id`, `output`,
    `status` to tool-result; `status`, `session_id` to status; `level` (debug, info, warn, error) to log.
    `parent_call_id` is the tool call that spawned the sub-agent speaking, empty for the main agent.
    """

    type: MessageType
    content: str = ""
    tool: str = ""
    call_id: str = ""
    parent_call_id: str = ""
    input: Mapping[str, Any] | None = None
    output: str = ""
    status: str = ""
    level: str = ""
    session_id: str = ""


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of one model in one run. The four buckets never overlap.

    `input_tokens` is what was neither read from nor written to a cache; `output_tokens` holds reasoning once;
    `cost_usd_ticks` counts 1e-10 US dollars and is None unless the provider itself stated a cost for this run.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd_ticks: int | None = None

    def __add__(self, other: TokenUsage) -> TokenUsage:
        mine, theirs = self.cost_usd_ticks, other.cost_usd_ticks
        return TokenUsage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            theirs if mine is None else mine if theirs is None else mine + theirs,
        )

    @property
    def tokens(self) -> int:
        """All four buckets together."""
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens


@dataclass(frozen=True, slots=True)
class FailureDetail:
    """Why a run did not complete: the closed reason plus the structured evidence for it.

    `http_status` and `provider_code` are the provider's own; `retry_after_s` is seconds, when the provider named a
    wait; `watchdog` is set when one of our clocks ended the run.
    """

    reason: FailureReason
    detail: str = ""
    http_status: int | None = None
    provider_code: str | None = None
    retry_after_s: float | None = None
    watchdog: Watchdog | None = None


@dataclass(frozen=True, slots=True)
class StreamCounts:
    """What the stream held besides messages: for logs and for telling a quiet run from an unreadable one."""

    lines: int = 0
    bytes: int = 0
    noise_lines: int = 0  # not the provider's protocol
    invalid_utf8: int = 0  # lines with bytes that are not UTF-8
    folded_messages: int = 0  # merged or summarised because the consumer was behind


@dataclass(frozen=True, slots=True)
class Result:
    """How a run ended. `output` is the agent's final answer (partial or empty unless completed)."""

    status: RunStatus
    output: str = ""
    error: str = ""
    failure: FailureDetail | None = None
    duration_ms: int = 0
    session_id: str = ""
    resume_rejected: bool = False
    usage: dict[str, TokenUsage] = field(default_factory=dict)
    exit_code: int | None = None
    exit_signal: int | None = None
    cli_version: str = ""
    counts: StreamCounts = StreamCounts()

    @property
    def failure_reason(self) -> FailureReason | None:
        """The closed reason, None on a completed or cancelled run."""
        return self.failure.reason if self.failure else None


def add_usage(total: dict[str, TokenUsage], model: str, usage: TokenUsage) -> None:
    """Add `usage` to `model`'s entry in place; an entry of zeros without a cost is not made."""
    if usage.tokens or usage.cost_usd_ticks:
        total[model] = total[model] + usage if model in total else usage
