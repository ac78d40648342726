"""What models do now and then, against the real CLIs: several calls at once, broken calls, refusals, odd answers.

One row a provider and scenario. A row is what was seen to be right; a provider without a row was not tried.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from callboard_adapters import MessageType, RunStatus, TokenUsage
from callboard_wire.failures import FailureReason as R
from tests.fakes.model_server import Scenario, scenarios
from tests.system.real_cli.runs import Run, drive, left_alive
from tests.system.real_cli.worlds import World

S = Scenario
TIMEOUT = 90.0
MCP_SERVER = Path(__file__).parents[2] / "fakes" / "mcp_server.py"
PRICES = (scenarios.FIRST_CALL, scenarios.AFTER_TOOL, *scenarios.LATER_CALLS)
pytestmark = [pytest.mark.real_cli]


@dataclass(frozen=True)
class Row:
    """The right end: `reason` None is a completed run; `calls` are the indices of the model calls that were counted,
    each at its price; `tools` how many were called, and how many of them failed."""

    provider: str
    scenario: Scenario
    output: str = scenarios.FINISHED
    reason: R | None = None
    calls: tuple[int, ...] = (0, 1)
    tools: int = 1
    failed_tools: int = 0
    max_turns: int | None = None


def _everywhere(row: Row) -> list[Row]:
    return [replace(row, provider=provider) for provider in ("claude", "codebuddy", "qwen")]


def _answers(scenario: Scenario, output: str) -> list[Row]:
    return _everywhere(Row("", scenario, output=output, calls=(0,), tools=0))


def _refused(scenario: Scenario, reason: R) -> list[Row]:
    return _everywhere(Row("", scenario, output="", reason=reason, calls=(), tools=0))


ROWS = [
    *_everywhere(Row("", S.PARALLEL, tools=2)),
    *_everywhere(Row("", S.LOOP, calls=(0, 1, 2, 3), tools=3)),
    *_everywhere(Row("", S.LOOP, output="", reason=R.ITERATION_LIMIT, tools=2, max_turns=2)),
    *_everywhere(Row("", S.HUGE_OUTPUT)),
    *_everywhere(Row("", S.BACKGROUND)),
    *_everywhere(Row("", S.MCP, calls=(0, 1, 2), tools=2)),
    *_answers(S.UNICODE, scenarios.UNICODE),
    *_answers(S.ERROR_LIKE, scenarios.ERROR_LIKE),
    *_answers(S.JSON_LIKE, scenarios.JSON_LIKE),
    *_answers(S.SURROGATE, scenarios.SURROGATE.replace("\ud83d", "\ufffd").replace("\udc4d", "\ufffd")),
    *_refused(S.FORBIDDEN, R.AUTH),
    *_refused(S.NO_MODEL, R.MODEL),
    *_refused(S.INVALID, R.API_INVALID_REQUEST),
    *_refused(S.TOO_LARGE, R.CONTEXT_OVERFLOW),
    Row("claude", S.BAD_ARGUMENTS, calls=(0, 1, 2), tools=2, failed_tools=1),
    Row("codebuddy", S.BAD_ARGUMENTS, calls=(0, 1, 2), tools=2),  # it mends the JSON and runs what came of it
    Row("qwen", S.BAD_ARGUMENTS, calls=(0, 1, 2), tools=2, failed_tools=1),
    Row("claude", S.UNKNOWN_TOOL, calls=(0, 1, 2), tools=2, failed_tools=1),
    Row("codebuddy", S.UNKNOWN_TOOL, output="", reason=R.UNKNOWN, calls=(0,), tools=0),  # it gives up at once
    Row("qwen", S.UNKNOWN_TOOL, calls=(0, 1, 2), tools=2, failed_tools=1),
    Row("claude", S.TOOL_ONLY, output="", calls=(0, 1, 1)),  # it asks once more
    Row("codebuddy", S.TOOL_ONLY, output=""),
    Row("claude", S.SUBAGENT, calls=(0, 0, 1)),
    Row("codebuddy", S.SUBAGENT, calls=(0, 0, 1)),
    Row("qwen", S.SUBAGENT, calls=(0, 0, 1, 1)),  # in the background: its report is one more call
    Row("claude", S.REFUSAL, output="", reason=R.AGENT_BLOCKED, calls=(0, 0), tools=0),  # it tries once more
    Row("codebuddy", S.REFUSAL, output=scenarios.DECLINED, calls=(0,), tools=0),
    Row("qwen", S.REFUSAL, output=scenarios.DECLINED, calls=(0,), tools=0),
    Row("claude", S.MAX_TOKENS, output="", reason=R.EMPTY_OUTPUT, calls=(0, 0, 0, 0), tools=0),
    Row("codebuddy", S.ERROR_EVENT, output="", reason=R.RATE_LIMIT, calls=(), tools=0),
    Row("qwen", S.ERROR_EVENT, output="", reason=R.RATE_LIMIT, calls=(), tools=0),
]


def _id(row: Row) -> str:
    return f"{row.provider}-{row.scenario}{'-maxturns' if row.max_turns else ''}"


@pytest.mark.timeout(2 * TIMEOUT, func_only=True)
@pytest.mark.parametrize("row", ROWS, ids=_id)
async def test_an_unusual_turn_ends_as_it_should(row: Row, world_of: Callable[[str], World]) -> None:
    world = world_of(row.provider)
    servers = {"loopback": {"command": sys.executable, "args": [str(MCP_SERVER)]}}
    run = await drive(
        world,
        f"SCENARIO:{row.scenario} please",
        timeout=TIMEOUT,
        max_turns=row.max_turns,
        mcp_config={"mcpServers": servers} if row.scenario is S.MCP else None,
    )
    seen = run.describe()
    status = RunStatus.COMPLETED if row.reason is None else RunStatus.FAILED
    assert (run.result.status, run.result.failure_reason) == (status, row.reason), seen
    assert run.result.output.strip() == row.output.strip(), seen
    assert _counted(run) == _price(row), seen
    _tools_are_paired(run, row)
    assert run.result.session_id, seen
    assert await left_alive(world) == [], seen


def _counted(run: Run) -> TokenUsage:
    usage = run.usage()
    return TokenUsage(usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens)


def _price(row: Row) -> TokenUsage:
    calls = [PRICES[index] for index in row.calls]
    return TokenUsage(
        sum(call.uncached for call in calls),
        sum(call.output for call in calls),
        sum(call.cache_read for call in calls),
        sum(call.cache_write for call in calls) if row.provider == "claude" else 0,
    )


def _tools_are_paired(run: Run, row: Row) -> None:
    """Every call of the run's own agent is told once, and so is its result."""
    called = [one.call_id for one in run.of(MessageType.TOOL_USE) if not one.parent_call_id]
    results = [one for one in run.of(MessageType.TOOL_RESULT) if not one.parent_call_id]
    assert len(set(called)) == len(called) == row.tools, run.describe()
    if row.max_turns is None:
        assert sorted(one.call_id for one in results) == sorted(called), run.describe()
    assert [one.status for one in results].count("failed") == row.failed_tools, run.describe()
