"""How each scenario goes: a word and how far the conversation has come make a `Plan`. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fakes.model_server import scenarios
from tests.fakes.model_server.scenarios import (
    AFTER_TOOL,
    FAILURES,
    FINISHED,
    FIRST_CALL,
    HELLO,
    NARRATION,
    Answer,
    Call,
    Failure,
    Plan,
    Scenario,
    Stop,
    Target,
    Tokens,
    commands,
)

_ONCE = {
    Scenario.RATE_LIMITED_ONCE: Scenario.RATE_LIMITED,
    Scenario.BROKEN_ONCE: Scenario.BROKEN,
}
_PRICES = (FIRST_CALL, AFTER_TOOL, *scenarios.LATER_CALLS)


def plan(history: Sequence[str], *, results: int, auxiliary: bool, earlier: int, mark: str) -> Plan:
    """Decide what one call answers.

    `history` is every scenario word of the conversation, the last one is in force (none: plain text); `results` how
    many tool results came after it; `auxiliary` says that no tools were offered (titles, summaries); `earlier` how
    many main calls this server has already planned for that word.
    """
    if auxiliary:
        return Plan(Answer(scenarios.AUXILIARY_CALL, text=(scenarios.AUXILIARY,)))
    scenario = Scenario(history[-1]) if history else Scenario.TEXT
    hello = Answer(FIRST_CALL, text=_pieces(HELLO))
    if scenario in FAILURES:
        return Plan(hello, failure=FAILURES[scenario])
    if scenario in _ONCE and earlier == 0:
        return Plan(hello, failure=FAILURES[_ONCE[scenario]])
    if scenario is Scenario.RECALL:
        return Plan(Answer(FIRST_CALL, text=_pieces(scenarios.recalled(history))))
    if scenario in (steps := _steps(mark)):
        # Whether a CLI answers a bad call with a result or asks again is what those two scenarios are about.
        gone = earlier if scenario in (Scenario.BAD_ARGUMENTS, Scenario.UNKNOWN_TOOL) else results
        return Plan(steps[scenario][min(gone, len(steps[scenario]) - 1)])
    return Plan(
        _ANSWERS.get(scenario, hello),
        breaks=_breaks(scenario, earlier),
        cut=scenario is Scenario.CUT or (scenario is Scenario.CUT_ONCE and earlier == 0),
        hang=scenario is Scenario.HANG,
    )


def _breaks(scenario: Scenario, earlier: int) -> Failure | None:
    always, once = scenario is Scenario.ERROR_EVENT, scenario is Scenario.ERROR_EVENT_ONCE
    return FAILURES[Scenario.OVERLOADED] if always or (once and earlier == 0) else None


def _steps(mark: str) -> dict[Scenario, tuple[Answer, ...]]:
    """The answers of every scenario that calls tools, in order; the last one stays."""
    echo = f"echo {scenarios.TOOL_OUTPUT}"
    rounds = [_calls(Call(f"{echo}-{number}"), step=number) for number in range(scenarios.ROUNDS)]
    silent = Answer(AFTER_TOOL)
    return {
        **{scenario: _once(Call(command)) for scenario, command in commands(mark).items()},
        Scenario.PARALLEL: _once(Call(f"{echo}-0"), Call(f"{echo}-1")),
        Scenario.LOOP: (*rounds, _finished(scenarios.ROUNDS)),
        Scenario.TOOL_ONLY: (_calls(Call(echo)), silent),
        Scenario.BAD_ARGUMENTS: (_calls(Call(echo, broken=True)), _calls(Call(echo), step=1), _finished(2)),
        Scenario.UNKNOWN_TOOL: (_calls(Call(echo, Target.NOBODY)), _calls(Call(echo), step=1), _finished(2)),
        Scenario.SUBAGENT: _once(Call(scenarios.SUBAGENT_PROMPT, Target.SUBAGENT)),
        Scenario.MCP: (
            _calls(Call(scenarios.TOOL_OUTPUT, Target.SEARCH)),
            _calls(Call(scenarios.TOOL_OUTPUT, Target.MCP), step=1),
            _finished(2),
        ),
    }


def _once(*calls: Call) -> tuple[Answer, Answer]:
    return _calls(*calls), _finished(1)


def _calls(*calls: Call, step: int = 0) -> Answer:
    return Answer(_PRICES[step], text=_pieces(NARRATION), calls=calls)


def _finished(step: int) -> Answer:
    return Answer(_PRICES[step], text=_pieces(FINISHED))


def _pieces(text: str, size: int = 8) -> tuple[str, ...]:
    return tuple(text[start : start + size] for start in range(0, len(text), size))


_THINKING_TOKENS = Tokens(
    FIRST_CALL.uncached, FIRST_CALL.cache_read, FIRST_CALL.cache_write, FIRST_CALL.output, scenarios.REASONING_TOKENS
)
_ANSWERS = {
    Scenario.THINKING: Answer(_THINKING_TOKENS, text=_pieces(HELLO), thinking=scenarios.THOUGHT),
    Scenario.EMPTY: Answer(FIRST_CALL),
    Scenario.SLOW: Answer(FIRST_CALL, text=tuple(f"word{number} " for number in range(40)), pause=0.25),
    Scenario.BIG: Answer(FIRST_CALL, text=_pieces(scenarios.BIG_ANSWER, scenarios.BIG_ANSWER_BYTES // 100)),
    Scenario.REFUSAL: Answer(FIRST_CALL, text=_pieces(scenarios.DECLINED), stop=Stop.REFUSAL),
    Scenario.REFUSAL_EMPTY: Answer(FIRST_CALL, stop=Stop.REFUSAL),
    Scenario.MAX_TOKENS: Answer(FIRST_CALL, text=_pieces(scenarios.CUT_SHORT), stop=Stop.MAX_TOKENS),
    Scenario.UNICODE: Answer(FIRST_CALL, text=_pieces(scenarios.UNICODE)),
    Scenario.SURROGATE: Answer(FIRST_CALL, text=_pieces(scenarios.SURROGATE)),
    Scenario.ERROR_LIKE: Answer(FIRST_CALL, text=_pieces(scenarios.ERROR_LIKE)),
    Scenario.JSON_LIKE: Answer(FIRST_CALL, text=_pieces(scenarios.JSON_LIKE)),
}
