"""What real models do beyond the ordinary, through CLIs with a stream of their own: opencode, pi, copilot, openclaw.

Several calls at once, broken calls, refusals, answers cut at the token limit, requests refused for each reason, an
error in mid stream, what looks like an error and is none, a process left behind, a sub-agent, a first run beside
another, a resume in another folder.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

import pytest

from callboard_adapters import MessageType, RunStatus, TokenUsage
from callboard_wire.failures import FailureReason
from tests.fakes.model_server import Scenario, scenarios
from tests.system.real_cli.expectations import ONE_CALL, TWO_CALLS, Want
from tests.system.real_cli.runs import drive
from tests.system.real_cli.test_adapters import check
from tests.system.real_cli.worlds import World

WorldOf: TypeAlias = Callable[[str], World]

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(260, func_only=True)]
TIMEOUT = 120.0


def failed(reason: FailureReason) -> Want:
    return Want(RunStatus.FAILED, reasons=(reason,))


def said(answer: str) -> Want:
    return Want(output=answer, usage=ONE_CALL)


RAN = Want(output=scenarios.FINISHED, usage=TWO_CALLS)
BLOCKED = failed(FailureReason.AGENT_BLOCKED)
THREE_CALLS, FOUR_CALLS = TokenUsage(7035, 201, 6000), TokenUsage(11602, 290, 10000)
WANTED: Mapping[Scenario, Want] = {
    Scenario.PARALLEL: RAN,
    Scenario.LOOP: replace(RAN, usage=FOUR_CALLS),
    Scenario.TOOL_ONLY: replace(RAN, output=None),  # nothing was said after the tool
    Scenario.BAD_ARGUMENTS: replace(RAN, usage=THREE_CALLS),
    Scenario.UNKNOWN_TOOL: replace(RAN, usage=THREE_CALLS),
    Scenario.REFUSAL: BLOCKED,
    Scenario.REFUSAL_EMPTY: BLOCKED,
    Scenario.MAX_TOKENS: said(scenarios.CUT_SHORT),  # and a line of the log says that it was cut
    Scenario.FORBIDDEN: failed(FailureReason.AUTH),
    Scenario.NO_MODEL: failed(FailureReason.MODEL),
    Scenario.INVALID: failed(FailureReason.API_INVALID_REQUEST),
    Scenario.TOO_LARGE: failed(FailureReason.CONTEXT_OVERFLOW),
    Scenario.ERROR_EVENT_ONCE: said(scenarios.HELLO),
    Scenario.UNICODE: said(scenarios.UNICODE),
    Scenario.HUGE_OUTPUT: RAN,
    Scenario.BACKGROUND: RAN,
    Scenario.ERROR_LIKE: said(scenarios.ERROR_LIKE),
    Scenario.JSON_LIKE: said(scenarios.JSON_LIKE),
}
OTHERWISE: Mapping[tuple[str, Scenario], Want] = {
    # It makes room by itself, as it does for a full context window.
    ("opencode", Scenario.TOO_LARGE): Want(output=scenarios.HELLO, usage=TokenUsage(1245, 59, 1000)),
    # It asks to go on twice, and is cut twice more.
    ("copilot", Scenario.MAX_TOKENS): Want(output_end=scenarios.CUT_SHORT, usage=TokenUsage(3702, 168, 3000)),
    ("copilot", Scenario.SUBAGENT): replace(RAN, usage=TokenUsage(4813, 179, 4000)),  # the sub-agent's call too
}
OPENCLAW = (  # it takes half a minute a run and shows no tools: what its document says in a way of its own
    *(Scenario.REFUSAL, Scenario.MAX_TOKENS, Scenario.FORBIDDEN, Scenario.INVALID, Scenario.TOO_LARGE),
    *(Scenario.LOOP, Scenario.JSON_LIKE),
)
ROWS = [
    *[(provider, scenario) for provider in ("opencode", "pi", "copilot") for scenario in WANTED],
    ("copilot", Scenario.SUBAGENT),
    *[("openclaw", scenario) for scenario in OPENCLAW],
]


@pytest.mark.parametrize(("provider", "scenario"), ROWS)
async def test_an_unusual_turn_ends_as_an_expert_would_say(
    provider: str, scenario: Scenario, world_of: WorldOf
) -> None:
    world = world_of(provider)
    want = OTHERWISE.get((provider, scenario)) or WANTED[scenario]
    run = await drive(world, f"SCENARIO:{scenario} please", timeout=TIMEOUT)
    await check(run, want, world)
    called = Counter(one.call_id for one in run.of(MessageType.TOOL_USE))
    answered = Counter(one.call_id for one in run.of(MessageType.TOOL_RESULT))
    assert called == answered, run.describe()
    assert set(called.values()) <= {1}, run.describe()


@pytest.mark.parametrize("provider", ["opencode", "pi", "copilot"])
async def test_the_first_two_runs_of_a_home_do_not_disturb_each_other(provider: str, world_of: WorldOf) -> None:
    world = world_of(provider)
    prompts = (f"SCENARIO:{Scenario.TEXT} please", f"SCENARIO:{Scenario.TOOL} please")
    first, second = await asyncio.gather(*(drive(world, prompt, timeout=TIMEOUT) for prompt in prompts))
    await check(first, said(scenarios.HELLO), world)
    await check(second, RAN, world)
    assert first.result.session_id != second.result.session_id


@pytest.mark.parametrize("provider", ["opencode", "pi", "copilot"])
async def test_a_resume_in_another_folder_goes_on_or_says_that_it_cannot(provider: str, world_of: WorldOf) -> None:
    world = world_of(provider)
    first = await drive(world, f"SCENARIO:{Scenario.TEXT} please", timeout=TIMEOUT)
    elsewhere = replace(world, workdir=world.home / "elsewhere")
    elsewhere.workdir.mkdir()
    resume = first.result.session_id
    run = await drive(elsewhere, f"SCENARIO:{Scenario.RECALL} please", timeout=TIMEOUT, resume=resume)
    if provider == "opencode":  # it goes on where the session began, and nothing of it is seen here
        await check(run, Want(RunStatus.FAILED, rejected=True, session=False), world)
        return
    await check(run, said(scenarios.recalled([Scenario.TEXT, Scenario.RECALL])), world)
    assert run.result.session_id == resume
