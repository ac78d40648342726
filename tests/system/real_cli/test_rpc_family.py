"""What real models do beyond the ordinary, through the CLIs that speak JSON-RPC: codex, grok, hermes and kimi.

Several calls at once, refusals, answers cut at the token limit, requests refused for each reason, an error in mid
stream, what looks like an error and is none, a process left behind, a sub-agent.
"""

from __future__ import annotations

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

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(180, func_only=True)]


def failed(reason: FailureReason) -> Want:
    return Want(RunStatus.FAILED, reasons=(reason,))


RAN = Want(output=scenarios.FINISHED, usage=TWO_CALLS)
BLOCKED, CUT_SHORT = failed(FailureReason.AGENT_BLOCKED), failed(FailureReason.EMPTY_OUTPUT)
FOUR_CALLS = TokenUsage(11602, 290, 10000)
WANTED: Mapping[Scenario, Want] = {
    Scenario.PARALLEL: RAN,
    Scenario.LOOP: replace(RAN, usage=FOUR_CALLS),
    Scenario.REFUSAL: BLOCKED,
    Scenario.REFUSAL_EMPTY: BLOCKED,
    Scenario.MAX_TOKENS: CUT_SHORT,
    Scenario.FORBIDDEN: failed(FailureReason.AUTH),
    Scenario.NO_MODEL: failed(FailureReason.MODEL),
    Scenario.INVALID: failed(FailureReason.API_INVALID_REQUEST),
    Scenario.TOO_LARGE: failed(FailureReason.CONTEXT_OVERFLOW),
    Scenario.ERROR_EVENT_ONCE: Want(output=scenarios.HELLO, usage=ONE_CALL),
    Scenario.UNICODE: Want(output=scenarios.UNICODE, usage=ONE_CALL),
    Scenario.BACKGROUND: RAN,
    Scenario.ERROR_LIKE: Want(output=scenarios.ERROR_LIKE, usage=ONE_CALL),
    Scenario.JSON_LIKE: Want(output=scenarios.JSON_LIKE, usage=ONE_CALL),
}
OTHERWISE: Mapping[tuple[str, Scenario], Want] = {
    ("grok", Scenario.REFUSAL): Want(output=scenarios.DECLINED, usage=ONE_CALL),  # the model's own words stand
    ("kimi", Scenario.MAX_TOKENS): Want(output=scenarios.CUT_SHORT, usage=ONE_CALL),  # and its log says "completed"
    ("hermes", Scenario.ERROR_EVENT_ONCE): Want(output_end=scenarios.HELLO, usage=ONE_CALL),  # it glues them
    # The turn, the sub-agent's call, and the turn its end begins.
    ("grok", Scenario.SUBAGENT): Want(output_end=scenarios.FINISHED, usage=TokenUsage(7158, 246, 6000)),
}
ROWS = [(provider, scenario) for provider in ("codex", "grok", "hermes", "kimi") for scenario in WANTED]


@pytest.mark.parametrize(("provider", "scenario"), [*ROWS, ("grok", Scenario.SUBAGENT)])
async def test_beyond_the_ordinary(provider: str, scenario: Scenario, world_of: WorldOf) -> None:
    want = OTHERWISE.get((provider, scenario)) or WANTED[scenario]
    world = world_of(provider)
    run = await drive(world, f"SCENARIO:{scenario} please", timeout=want.timeout)
    await check(run, want, world)
    used = [one.call_id for one in run.of(MessageType.TOOL_USE)]
    ended = [one.call_id for one in run.of(MessageType.TOOL_RESULT)]
    assert len(set(used)) == len(used), run.describe()
    assert sorted(used) == sorted(ended), run.describe()
