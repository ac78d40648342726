"""What each provider must answer in each case, and why where it is not what one would think.

A case a provider cannot do is `Excluded` with its reason: the test report lists it as skipped, it is never silently
absent. `DEFAULTS` say what a good run looks like; `OVERRIDES` hold what was seen to differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from callboard_adapters import RunStatus, TokenUsage
from callboard_wire.failures import FailureReason
from tests.fakes.model_server import Scenario, scenarios
from tests.system.real_cli.recipes import RECIPES


class Case(StrEnum):
    """What is tried with every provider; the value is the scenario word of its prompt."""

    TEXT = Scenario.TEXT
    TOOL = Scenario.TOOL
    WRITE = Scenario.WRITE
    THINKING = Scenario.THINKING
    RESUME = Scenario.RECALL
    RESUME_BOGUS = "resume-bogus"
    UNAUTHORIZED = Scenario.UNAUTHORIZED
    RATE_LIMITED_ONCE = Scenario.RATE_LIMITED_ONCE
    BROKEN_ONCE = Scenario.BROKEN_ONCE
    QUOTA = Scenario.QUOTA
    CONTEXT = Scenario.CONTEXT
    CUT_ONCE = Scenario.CUT_ONCE
    CUT = Scenario.CUT
    CANCEL_TOOL = Scenario.LONGTOOL
    CANCEL_SILENT = Scenario.HANG
    BIG = Scenario.BIG


@dataclass(frozen=True)
class Want:
    """The right end of a run.

    `output` is the whole answer, `output_end` how it must end where the CLI itself glues what came before a cut to
    what came after; `usage` None is not asserted; `reasons` are the failure reasons that are all right; `shown` says
    whether the CLI shows thinking and tool calls in the mode the adapter drives.
    """

    status: RunStatus = RunStatus.COMPLETED
    output: str | None = None
    output_end: str = ""
    usage: TokenUsage | None = None
    reasons: tuple[FailureReason, ...] = ()
    rejected: bool = False
    session: bool = True
    shown: bool = True
    timeout: float = 60.0  # seconds for one run


@dataclass(frozen=True)
class Excluded:
    """A case this provider cannot do here, and why."""

    reason: str


def _tokens(*calls: scenarios.Tokens, cache_write: bool = False) -> TokenUsage:
    return TokenUsage(
        input_tokens=sum(call.uncached for call in calls),
        output_tokens=sum(call.output for call in calls),
        cache_read_tokens=sum(call.cache_read for call in calls),
        cache_write_tokens=sum(call.cache_write for call in calls) if cache_write else 0,
    )


ONE_CALL, TWO_CALLS = _tokens(scenarios.FIRST_CALL), _tokens(scenarios.FIRST_CALL, scenarios.AFTER_TOOL)
NOTHING = TokenUsage()
RECALLED = scenarios.recalled([Scenario.TEXT, Scenario.RECALL])

_HELLO = Want(output=scenarios.HELLO, usage=ONE_CALL)
_FAILED = Want(RunStatus.FAILED, usage=NOTHING)
DEFAULTS: Mapping[Case, Want] = {
    Case.TEXT: _HELLO,
    Case.TOOL: Want(output=scenarios.FINISHED, usage=TWO_CALLS),
    Case.WRITE: Want(output=scenarios.FINISHED, usage=TWO_CALLS),
    Case.THINKING: _HELLO,  # reasoning is inside the 56 output tokens
    Case.RESUME: Want(output=RECALLED, usage=ONE_CALL),  # this run's call only, not the first run's again
    Case.RESUME_BOGUS: replace(_FAILED, rejected=True, session=False),
    Case.UNAUTHORIZED: replace(_FAILED, reasons=(FailureReason.AUTH,)),
    Case.RATE_LIMITED_ONCE: _HELLO,
    Case.BROKEN_ONCE: _HELLO,
    Case.QUOTA: replace(_FAILED, reasons=(FailureReason.QUOTA,)),
    Case.CONTEXT: replace(_FAILED, reasons=(FailureReason.CONTEXT_OVERFLOW,)),
    Case.CUT_ONCE: _HELLO,
    Case.CUT: Want(RunStatus.FAILED, reasons=(FailureReason.NETWORK, FailureReason.SERVER_ERROR)),
    Case.CANCEL_TOOL: Want(RunStatus.CANCELLED),
    Case.CANCEL_SILENT: Want(RunStatus.CANCELLED),
    Case.BIG: Want(output=scenarios.BIG_ANSWER, usage=ONE_CALL),
}

_GLUED = Want(output_end=scenarios.HELLO, usage=ONE_CALL)
_QODER = "qoder's models are its vendor's: without a login it refuses every session, so only that refusal is tried"
_SLOW = 120.0  # openclaw: 8–17 s to its first and only output on an idle machine
_SLOW_HELLO = replace(_HELLO, timeout=_SLOW)

_WRITTEN_TOO = {  # claude's dialect reports the tokens written to the cache
    ONE_CALL: _tokens(scenarios.FIRST_CALL, cache_write=True),
    TWO_CALLS: _tokens(scenarios.FIRST_CALL, scenarios.AFTER_TOOL, cache_write=True),
}

OVERRIDES: Mapping[str, Mapping[Case, Want | Excluded]] = {
    "claude": {
        # It counts the attempt that was cut off too, its output estimated from the text that had arrived.
        Case.CUT_ONCE: Want(output=scenarios.HELLO, usage=TokenUsage(2468, 61, 2000, 400)),
        Case.CUT: Excluded("claude retries a dropped stream ten times, 184 s; midcutonce covers the retry"),
    },
    "codebuddy": {  # it retries neither
        Case.RATE_LIMITED_ONCE: replace(_FAILED, reasons=(FailureReason.RATE_LIMIT, FailureReason.QUOTA)),
        Case.BROKEN_ONCE: replace(_FAILED, reasons=(FailureReason.SERVER_ERROR,)),
        # It makes room by itself with a call of its own, asks again and answers: both calls are this run's.
        Case.CONTEXT: Want(output=scenarios.HELLO, usage=TokenUsage(1245, 59, 1000)),
    },
    "opencode": {
        # It prints nothing, not even a session id, before the model has begun to answer.
        Case.CANCEL_SILENT: replace(DEFAULTS[Case.CANCEL_SILENT], session=False),
        # An `error` event, then it makes room by itself and answers: the answer counts, exit status 1 or not.
        Case.CONTEXT: Want(output=scenarios.HELLO),
        Case.QUOTA: Excluded("opencode retries a 429 of any kind five times in silence, 78 s"),
        Case.CUT: Excluded("opencode retries a dropped stream five times in silence, about 70 s"),
    },
    "qwen": {
        Case.CUT_ONCE: _GLUED,  # "preserving delivered text", it says on stderr
        Case.QUOTA: Excluded("qwen retries a 429 of any kind ten times, up to two minutes apart: over 240 s"),
    },
    "pi": {},
    "copilot": {Case.QUOTA: Excluded("copilot retries a 429 of any kind six times, 64 s")},
    "openclaw": {
        Case.TEXT: _SLOW_HELLO,
        Case.TOOL: replace(DEFAULTS[Case.TOOL], shown=False, timeout=_SLOW),
        Case.WRITE: replace(DEFAULTS[Case.WRITE], timeout=_SLOW),
        Case.THINKING: replace(_SLOW_HELLO, shown=False),
        Case.RESUME: replace(DEFAULTS[Case.RESUME], timeout=_SLOW),
        # An unknown id silently starts a new session under that id; its empty history betrays it.
        Case.RESUME_BOGUS: replace(_SLOW_HELLO, rejected=True),
        # It benches the key and says "disabled after a provider auth/billing failure": either reason is right.
        Case.UNAUTHORIZED: replace(
            _FAILED, reasons=(FailureReason.AUTH, FailureReason.QUOTA), session=False, timeout=_SLOW
        ),
        Case.RATE_LIMITED_ONCE: _SLOW_HELLO,
        Case.BROKEN_ONCE: _SLOW_HELLO,
        Case.QUOTA: replace(DEFAULTS[Case.QUOTA], session=False, timeout=_SLOW),
        Case.CONTEXT: replace(DEFAULTS[Case.CONTEXT], session=False, timeout=_SLOW),
        Case.CUT_ONCE: _SLOW_HELLO,
        Case.CUT: Excluded("openclaw retries a dropped stream eight times in silence, 91 s"),
        Case.CANCEL_TOOL: replace(DEFAULTS[Case.CANCEL_TOOL], session=False, timeout=_SLOW),
        Case.CANCEL_SILENT: replace(DEFAULTS[Case.CANCEL_SILENT], session=False, timeout=_SLOW),
        Case.BIG: replace(DEFAULTS[Case.BIG], timeout=_SLOW),
    },
    # A dead id costs nothing but itself: the run goes on in a new thread and says so.
    "codex": {Case.RESUME_BOGUS: replace(_HELLO, rejected=True)},
    "kimi": {
        # It tries to make room several times before it gives up; those calls are billed.
        Case.CONTEXT: Want(RunStatus.FAILED, reasons=(FailureReason.CONTEXT_OVERFLOW,)),
        Case.CUT: Excluded("kimi retries a dropped stream ten times, 150 s"),
    },
    "grok": {Case.CUT: Excluded("grok retries a dropped stream up to 15 times, over 180 s")},
    "hermes": {Case.CUT_ONCE: _GLUED},
    "qoder": {
        Case.TEXT: Want(
            RunStatus.FAILED,
            usage=NOTHING,
            reasons=(FailureReason.AUTH, FailureReason.MISSING_CONFIG),
            session=False,
        ),
        **{case: Excluded(_QODER) for case in Case if case is not Case.TEXT},
    },
}


def wanted(provider: str, case: Case) -> Want | Excluded:
    """The expectation of one case for one provider."""
    want = OVERRIDES[provider].get(case, DEFAULTS[case])
    if provider == "claude" and isinstance(want, Want) and want.usage in _WRITTEN_TOO:
        return replace(want, usage=_WRITTEN_TOO[want.usage])
    return want


PROVIDERS = tuple(RECIPES)
BOGUS_SESSIONS = {
    "opencode": "ses_doesnotexist0000000000000",
    "kimi": "session_11111111-2222-4333-8444-555555555555",
    "openclaw": "callboard-never-seen",
}
BOGUS_SESSION = "11111111-2222-4333-8444-555555555555"
STARTS_UNDER_THE_REQUESTED_ID = ("openclaw",)  # the caller chooses its session ids
