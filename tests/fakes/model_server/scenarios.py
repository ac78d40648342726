"""What the model does, chosen by a word in the prompt: `SCENARIO:tool please`.

Pure: a scenario and how far the conversation has come make a `Plan`; the dialects (`anthropic`, `chat`, `responses`)
say the plan in their own words. The token counts are distinctive so that a test sees from a sum which calls were
counted, how often, and whether the cached part of the input was counted twice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

HELLO = "Hello from the loopback model."
NARRATION = "I will run a command now."
FINISHED = "Finished. The tool was run."
THOUGHT = "Let me think about this carefully."
AUXILIARY = "A short title"
TOOL_OUTPUT = "hello-from-tool"
WRITTEN_FILE, WRITTEN_TEXT = "written.txt", "written-by-tool"
REASONING_TOKENS = 7
BIG_ANSWER_BYTES = 2_000_000
# No two pieces alike: qwen takes a piece that comes again for a provider that repeats itself, and drops it.
BIG_ANSWER = "".join(f"big {number:06} " for number in range(BIG_ANSWER_BYTES // len("big 000000 ")))

_MARKER = re.compile(r"SCENARIO:([0-9a-z]+)")


class Scenario(StrEnum):
    """Every word the prompt may carry. `once` ones fail the first call and answer the next."""

    TEXT = "text"
    RECALL = "recall"  # names every scenario word of the conversation: proves that a resumed session has its history
    THINKING = "thinking"
    TOOL = "tool"
    TOOLFAIL = "toolfail"  # the command exits 3
    WRITE = "write"
    LONGTOOL = "longtool"  # a command that runs for five minutes unless somebody stops it
    UNAUTHORIZED = "401"
    RATE_LIMITED = "429"
    RATE_LIMITED_ONCE = "429once"
    BROKEN = "500"
    BROKEN_ONCE = "500once"
    OVERLOADED = "529"
    QUOTA = "quota"
    CONTEXT = "context"
    EMPTY = "empty"
    SLOW = "slow"  # about ten seconds of text
    HANG = "hang"  # headers, then nothing until the client goes
    CUT = "midcut"  # the connection ends in the middle of the answer, every time
    CUT_ONCE = "midcutonce"
    BIG = "bigline"


_WORDS = frozenset(Scenario)


@dataclass(frozen=True)
class Tokens:
    """What one call says it used; `uncached` is the input without what came from or went to the cache."""

    uncached: int
    cache_read: int
    cache_write: int
    output: int
    reasoning: int = 0


FIRST_CALL = Tokens(1234, 1000, 200, 56)
AFTER_TOOL = Tokens(2345, 2000, 300, 67)
AUXILIARY_CALL = Tokens(11, 0, 0, 3)


class FailureKind(StrEnum):
    """A refusal, before a dialect gives it a body."""

    UNAUTHORIZED = "unauthorized"
    RATE_LIMITED = "rate_limited"
    SERVER = "server"
    OVERLOADED = "overloaded"
    QUOTA = "quota"
    CONTEXT = "context"


@dataclass(frozen=True)
class Failure:
    """A refused call: the HTTP status, the sentence, and how long to wait (seconds) if the server says so."""

    kind: FailureKind
    status: int
    message: str
    retry_after: int | None = None


@dataclass(frozen=True)
class Answer:
    """What the model says: thinking, then text in pieces, then perhaps one shell command."""

    tokens: Tokens
    text: tuple[str, ...] = ()
    thinking: str = ""
    command: str = ""
    pause: float = 0.0  # seconds between the pieces of text


@dataclass(frozen=True)
class Plan:
    """One call's course: a failure, or an answer that may be cut off in its text or never begin."""

    answer: Answer
    failure: Failure | None = None
    cut: bool = False
    hang: bool = False


FAILURES = {
    Scenario.UNAUTHORIZED: Failure(FailureKind.UNAUTHORIZED, 401, "the loopback model says: invalid API key"),
    Scenario.RATE_LIMITED: Failure(FailureKind.RATE_LIMITED, 429, "the loopback model says: slow down", retry_after=1),
    Scenario.BROKEN: Failure(FailureKind.SERVER, 500, "the loopback model says: something broke"),
    Scenario.OVERLOADED: Failure(FailureKind.OVERLOADED, 529, "the loopback model says: overloaded"),
    Scenario.QUOTA: Failure(FailureKind.QUOTA, 429, "You exceeded your current quota, please check your plan."),
    Scenario.CONTEXT: Failure(FailureKind.CONTEXT, 400, "prompt is too long: 250000 tokens > 200000 maximum"),
}
_ONCE = {
    Scenario.RATE_LIMITED_ONCE: Scenario.RATE_LIMITED,
    Scenario.BROKEN_ONCE: Scenario.BROKEN,
}


def words_of(text: str) -> list[str]:
    """The scenario words in a text, in order; words nobody defined are left out."""
    return [word for word in _MARKER.findall(text) if word in _WORDS]


def commands(mark: str) -> dict[Scenario, str]:
    """The shell command of each tool scenario.

    `mark` is part of the long one's command line: a process that was left alive is found by it, even where the CLI
    gave the tool a fresh environment. Plain `sleep 300` is refused by claude and qwen.
    """
    return {
        Scenario.TOOL: f"echo {TOOL_OUTPUT}",
        Scenario.TOOLFAIL: f"echo {TOOL_OUTPUT}; exit 3",
        Scenario.WRITE: f"echo {WRITTEN_TEXT} > {WRITTEN_FILE} && cat {WRITTEN_FILE}",
        Scenario.LONGTOOL: f"python3 -c 'import time; time.sleep(300)' {mark}",
    }


def plan(history: Sequence[str], *, tool_done: bool, auxiliary: bool, earlier: int, mark: str) -> Plan:
    """Decide what one call answers.

    `history` is every scenario word of the conversation, the last one is in force (none: plain text); `tool_done`
    says that a tool's result came after it; `auxiliary` that no tools were offered (titles, summaries); `earlier`
    how many main calls this server has already planned for that word.
    """
    if auxiliary:
        return Plan(Answer(AUXILIARY_CALL, text=(AUXILIARY,)))
    scenario = Scenario(history[-1]) if history else Scenario.TEXT
    if scenario in commands(mark):
        return Plan(_tool_answer(commands(mark)[scenario], tool_done))
    hello = Answer(FIRST_CALL, text=_pieces(HELLO))
    if scenario in FAILURES:
        return Plan(hello, failure=FAILURES[scenario])
    if scenario in _ONCE and earlier == 0:
        return Plan(hello, failure=FAILURES[_ONCE[scenario]])
    if scenario is Scenario.RECALL:
        hello = Answer(FIRST_CALL, text=_pieces(recalled(history)))
    return Plan(
        _ANSWERS.get(scenario, hello),
        cut=scenario is Scenario.CUT or (scenario is Scenario.CUT_ONCE and earlier == 0),
        hang=scenario is Scenario.HANG,
    )


def recalled(history: Sequence[str]) -> str:
    """The answer of `recall`: the scenario words of the conversation, in order."""
    return "History markers: " + " ".join(history)


def _tool_answer(command: str, done: bool) -> Answer:
    if done:
        return Answer(AFTER_TOOL, text=_pieces(FINISHED))
    return Answer(FIRST_CALL, text=_pieces(NARRATION), command=command)


def _pieces(text: str, size: int = 8) -> tuple[str, ...]:
    return tuple(text[start : start + size] for start in range(0, len(text), size))


_THINKING_TOKENS = Tokens(
    FIRST_CALL.uncached, FIRST_CALL.cache_read, FIRST_CALL.cache_write, FIRST_CALL.output, REASONING_TOKENS
)
_ANSWERS = {
    Scenario.THINKING: Answer(_THINKING_TOKENS, text=_pieces(HELLO), thinking=THOUGHT),
    Scenario.EMPTY: Answer(FIRST_CALL),
    Scenario.SLOW: Answer(FIRST_CALL, text=tuple(f"word{number} " for number in range(40)), pause=0.25),
    Scenario.BIG: Answer(FIRST_CALL, text=_pieces(BIG_ANSWER, BIG_ANSWER_BYTES // 100)),
}
