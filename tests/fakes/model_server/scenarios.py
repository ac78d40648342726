"""What the model can be made to do by a word in the prompt: `SCENARIO:tool please`.

The words, and what an answer and a failure are made of; `courses` puts them together, and the dialects (`anthropic`,
`chat`, `responses`) say them in their own words. The token counts are distinctive so that a test sees from a sum which
calls were counted, how often, and whether the cached part of the input was counted twice.
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
ROUNDS = 3
CUT_SHORT = "Hello from the loop"
DECLINED = "I will not help with"
UNICODE = (
    "emoji \U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f1eb\U0001f1ee, "
    "right to left \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627, "
    "combining e\u0301 a\u030a, line separator \u2028 paragraph separator \u2029 next line \u0085, "
    "carriage return\r\nand line feed, nul \x00 escape \x1b[31m, no-break \u00a0 and byte order mark \ufeff. End."
)
SURROGATE = "half a pair \ud83d and the other half \udc4d alone. End."
ERROR_LIKE = "API Error: 500 this is only an example of what a CLI prints."
JSON_LIKE = '{"type":"result","subtype":"error_during_execution","is_error":true,"error":{"message":"not a failure"}}'
SUBAGENT_PROMPT = "SCENARIO:text please"
HUGE_LINES = 6400  # 47 bytes each
UNKNOWN_TOOL = "NoSuchTool"

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
    PARALLEL = "parallel"  # two commands in one answer
    LOOP = "loop"  # three rounds of narration and command, each call at a price of its own
    TOOL_ONLY = "toolonly"  # the last call says nothing
    BAD_ARGUMENTS = "badargs"  # arguments that are no JSON, then the right ones
    UNKNOWN_TOOL = "unknowntool"  # a tool nobody offered, then the right one
    REFUSAL = "refusal"  # declined in the middle of its text
    REFUSAL_EMPTY = "refusalempty"
    MAX_TOKENS = "maxtokens"  # cut short by the limit of an answer, every time
    FORBIDDEN = "403"
    NO_MODEL = "404"
    INVALID = "400"
    TOO_LARGE = "413"
    ERROR_EVENT = "errorevent"  # an error inside the stream, after some text, every time
    ERROR_EVENT_ONCE = "erroreventonce"
    UNICODE = "unicode"
    SURROGATE = "surrogate"  # escapes of half a character, which JSON allows and UTF-8 does not
    HUGE_OUTPUT = "hugeoutput"  # 300 KB in colours
    BACKGROUND = "background"  # a command that leaves a process behind and returns at once
    ERROR_LIKE = "markdown"  # a good answer that looks like an error
    JSON_LIKE = "json"  # a good answer that looks like a failed result
    SUBAGENT = "subagent"  # hands a prompt of its own to the tool that starts another agent
    MCP = "mcp"  # calls the tool of an MCP server, after looking for it where a CLI wants that


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
LATER_CALLS = (Tokens(3456, 3000, 400, 78), Tokens(4567, 4000, 500, 89))  # the third and the fourth
AUXILIARY_CALL = Tokens(11, 0, 0, 3)


class FailureKind(StrEnum):
    """A refusal, before a dialect gives it a body."""

    UNAUTHORIZED = "unauthorized"
    RATE_LIMITED = "rate_limited"
    SERVER = "server"
    OVERLOADED = "overloaded"
    QUOTA = "quota"
    CONTEXT = "context"
    FORBIDDEN = "forbidden"
    NO_MODEL = "no_model"
    INVALID = "invalid"
    TOO_LARGE = "too_large"


@dataclass(frozen=True)
class Failure:
    """A refused call: the HTTP status, the sentence, and how long to wait (seconds) if the server says so."""

    kind: FailureKind
    status: int
    message: str
    retry_after: int | None = None


class Target(StrEnum):
    """Whose tool a call is meant for."""

    SHELL = "shell"
    SUBAGENT = "subagent"
    MCP = "mcp"
    SEARCH = "search"  # for the MCP tool, where a CLI does not offer it at once
    NOBODY = "nobody"


@dataclass(frozen=True)
class Call:
    """One tool call: `said` is the command, the sub-agent's prompt or the MCP tool's text.

    `broken` breaks the JSON of its arguments off in the middle.
    """

    said: str
    target: Target = Target.SHELL
    broken: bool = False


class Stop(StrEnum):
    """Why an answer without calls ended."""

    END = "end"
    MAX_TOKENS = "max_tokens"
    REFUSAL = "refusal"


@dataclass(frozen=True)
class Answer:
    """What the model says: thinking, then text in pieces, then perhaps tool calls."""

    tokens: Tokens
    text: tuple[str, ...] = ()
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    pause: float = 0.0  # seconds between the pieces of text
    stop: Stop = Stop.END


@dataclass(frozen=True)
class Plan:
    """One call's course: a failure, or an answer that may be cut off in its text, fail there, or never begin."""

    answer: Answer
    failure: Failure | None = None
    breaks: Failure | None = None  # said inside the stream, after some text
    cut: bool = False
    hang: bool = False


FAILURES = {
    Scenario.UNAUTHORIZED: Failure(FailureKind.UNAUTHORIZED, 401, "the loopback model says: invalid API key"),
    Scenario.RATE_LIMITED: Failure(FailureKind.RATE_LIMITED, 429, "the loopback model says: slow down", retry_after=1),
    Scenario.BROKEN: Failure(FailureKind.SERVER, 500, "the loopback model says: something broke"),
    Scenario.OVERLOADED: Failure(FailureKind.OVERLOADED, 529, "the loopback model says: overloaded"),
    Scenario.QUOTA: Failure(FailureKind.QUOTA, 429, "You exceeded your current quota, please check your plan."),
    Scenario.CONTEXT: Failure(FailureKind.CONTEXT, 400, "prompt is too long: 250000 tokens > 200000 maximum"),
    Scenario.FORBIDDEN: Failure(FailureKind.FORBIDDEN, 403, "the loopback model says: this key may not do that"),
    Scenario.NO_MODEL: Failure(FailureKind.NO_MODEL, 404, "the loopback model says: no such model"),
    Scenario.INVALID: Failure(FailureKind.INVALID, 400, "messages.1.content: Input should be a valid list"),
    Scenario.TOO_LARGE: Failure(FailureKind.TOO_LARGE, 413, "Request exceeds the maximum size"),
}


def words_of(text: str) -> list[str]:
    """The scenario words in a text, in order; words nobody defined are left out."""
    return [word for word in _MARKER.findall(text) if word in _WORDS]


def commands(mark: str) -> dict[Scenario, str]:
    """The shell command of each scenario that runs one, says `FINISHED` and is done.

    `mark` is part of the command line of what lasts: a process that was left alive is found by it, even where the CLI
    gave the tool a fresh environment. Plain `sleep 300` is refused by claude and qwen.
    """
    sleeper = f"python3 -c 'import time; time.sleep(300)' {mark}"
    line = "\\033[3{n % 8}mline {n:06} of a long coloured output\\033[0m"
    return {
        Scenario.TOOL: f"echo {TOOL_OUTPUT}",
        Scenario.TOOLFAIL: f"echo {TOOL_OUTPUT}; exit 3",
        Scenario.WRITE: f"echo {WRITTEN_TEXT} > {WRITTEN_FILE} && cat {WRITTEN_FILE}",
        Scenario.LONGTOOL: sleeper,
        Scenario.HUGE_OUTPUT: f"""python3 -c 'for n in range({HUGE_LINES}): print(f"{line}")'""",
        Scenario.BACKGROUND: f"{sleeper} > /dev/null 2>&1 & echo {TOOL_OUTPUT}",
    }


def recalled(history: Sequence[str]) -> str:
    """The answer of `recall`: the scenario words of the conversation, in order."""
    return "History markers: " + " ".join(history)
