"""Each adapter against its real CLI and the loopback model: status, output, usage to the token, session, files, and
nothing left alive."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from callboard_adapters import MessageType
from tests.fakes.model_server import scenarios
from tests.system.real_cli.expectations import (
    BOGUS_SESSION,
    BOGUS_SESSIONS,
    PROVIDERS,
    STARTS_UNDER_THE_REQUESTED_ID,
    Case,
    Excluded,
    Want,
    wanted,
)
from tests.system.real_cli.runs import Run, drive, left_alive, tool_is_running
from tests.system.real_cli.worlds import World

WorldOf: TypeAlias = Callable[[str], World]
ROOM = 60.0  # seconds beside the runs' own timeouts: versions asked, processes reaped

# The install in the fixture may take minutes the first time: only the test's own time is bounded.
pytestmark = [pytest.mark.real_cli]


def every_provider(case: Case) -> pytest.MarkDecorator:
    """One test a provider; what is excluded is listed as skipped, with its reason."""
    rows = []
    for provider in PROVIDERS:
        want = wanted(provider, case)
        mark = (
            pytest.mark.skip(reason=f"{provider}: {want.reason}")
            if isinstance(want, Excluded)
            else pytest.mark.timeout(2 * want.timeout + ROOM, func_only=True)
        )
        rows.append(pytest.param(provider, want, id=provider, marks=mark))
    return pytest.mark.parametrize(("provider", "want"), rows)


def prompt(case: Case) -> str:
    return f"SCENARIO:{case} please"


async def check(run: Run, want: Want, world: World) -> None:
    """What holds for every case."""
    seen = run.describe()
    assert run.result.status is want.status, seen
    if want.output is not None:
        assert run.result.output.strip() == want.output.strip(), seen
        assert run.text().count(want.output.strip()) == 1, seen
    assert run.result.output.strip().endswith(want.output_end), seen
    if want.usage is not None:
        got = run.usage()
        buckets = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
        assert {one: getattr(got, one) for one in buckets} == {one: getattr(want.usage, one) for one in buckets}, seen
    if want.reasons:
        assert run.result.failure_reason in want.reasons, seen
    assert run.result.resume_rejected is want.rejected, seen
    if want.session:
        assert run.result.session_id, seen
    assert await left_alive(world) == [], seen


@every_provider(Case.TEXT)
async def test_a_text_answer_is_the_output_and_costs_one_call(provider: str, want: Want, world_of: WorldOf) -> None:
    world = world_of(provider)
    run = await drive(world, prompt(Case.TEXT), timeout=want.timeout)
    await check(run, want, world)


@every_provider(Case.TOOL)
async def test_a_tool_call_shows_its_command_and_its_output(provider: str, want: Want, world_of: WorldOf) -> None:
    world = world_of(provider)
    run = await drive(world, prompt(Case.TOOL), timeout=want.timeout)
    await check(run, want, world)
    if want.shown:
        [call] = run.of(MessageType.TOOL_USE)
        [answer] = run.of(MessageType.TOOL_RESULT)
        assert call.call_id
        assert call.call_id == answer.call_id
        assert f"echo {scenarios.TOOL_OUTPUT}" in f"{call.input}", run.describe()
        assert scenarios.TOOL_OUTPUT in answer.output, run.describe()


@every_provider(Case.WRITE)
async def test_a_tool_call_writes_its_file_in_the_workdir(provider: str, want: Want, world_of: WorldOf) -> None:
    world = world_of(provider)
    run = await drive(world, prompt(Case.WRITE), timeout=want.timeout)
    await check(run, want, world)
    assert (world.workdir / scenarios.WRITTEN_FILE).read_text().strip() == scenarios.WRITTEN_TEXT


@every_provider(Case.THINKING)
async def test_thinking_is_shown_once_and_is_no_part_of_the_answer(
    provider: str, want: Want, world_of: WorldOf
) -> None:
    world = world_of(provider)
    run = await drive(world, prompt(Case.THINKING), timeout=want.timeout)
    await check(run, want, world)
    assert run.text(MessageType.THINKING).count(scenarios.THOUGHT) == int(want.shown), run.describe()


@every_provider(Case.RESUME)
async def test_a_resumed_session_knows_its_history_and_bills_its_own_call_only(
    provider: str, want: Want, world_of: WorldOf
) -> None:
    world = world_of(provider)
    first = await drive(world, prompt(Case.TEXT), timeout=want.timeout)
    run = await drive(world, prompt(Case.RESUME), timeout=want.timeout, resume=first.result.session_id)
    await check(run, want, world)
    assert run.result.session_id == first.result.session_id


@every_provider(Case.RESUME_BOGUS)
async def test_a_session_that_does_not_exist_is_reported_as_rejected(
    provider: str, want: Want, world_of: WorldOf
) -> None:
    world = world_of(provider)
    bogus = BOGUS_SESSIONS.get(provider, BOGUS_SESSION)
    run = await drive(world, prompt(Case.TEXT), timeout=want.timeout, resume=bogus)
    await check(run, want, world)
    assert (run.result.session_id == bogus) is (provider in STARTS_UNDER_THE_REQUESTED_ID), run.describe()


@every_provider(Case.UNAUTHORIZED)
async def test_a_refused_key_fails_the_run_as_a_matter_of_login(provider: str, want: Want, world_of: WorldOf) -> None:
    world = world_of(provider)
    run = await drive(world, prompt(Case.UNAUTHORIZED), timeout=want.timeout)
    await check(run, want, world)
    assert run.result.error


@every_provider(Case.RATE_LIMITED_ONCE)
async def test_one_429_does_not_change_the_answer_nor_its_cost(provider: str, want: Want, world_of: WorldOf) -> None:
    world = world_of(provider)
    run = await drive(world, prompt(Case.RATE_LIMITED_ONCE), timeout=want.timeout)
    await check(run, want, world)


@every_provider(Case.BROKEN_ONCE)
async def test_one_500_does_not_change_the_answer_nor_its_cost(provider: str, want: Want, world_of: WorldOf) -> None:
    world = world_of(provider)
    run = await drive(world, prompt(Case.BROKEN_ONCE), timeout=want.timeout)
    await check(run, want, world)


@every_provider(Case.QUOTA)
async def test_an_empty_account_is_a_matter_of_quota(provider: str, want: Want, world_of: WorldOf) -> None:
    world = world_of(provider)
    run = await drive(world, prompt(Case.QUOTA), timeout=want.timeout)
    await check(run, want, world)


@every_provider(Case.CONTEXT)
async def test_a_full_context_window_is_named_as_such(provider: str, want: Want, world_of: WorldOf) -> None:
    world = world_of(provider)
    run = await drive(world, prompt(Case.CONTEXT), timeout=want.timeout)
    await check(run, want, world)


@every_provider(Case.CUT_ONCE)
async def test_one_answer_cut_off_in_the_middle_is_asked_for_again(
    provider: str, want: Want, world_of: WorldOf
) -> None:
    world = world_of(provider)
    run = await drive(world, prompt(Case.CUT_ONCE), timeout=want.timeout)
    await check(run, want, world)


@every_provider(Case.CUT)
async def test_answers_cut_off_every_time_fail_the_run(provider: str, want: Want, world_of: WorldOf) -> None:
    world = world_of(provider)
    run = await drive(world, prompt(Case.CUT), timeout=want.timeout)
    await check(run, want, world)


@every_provider(Case.CANCEL_TOOL)
async def test_a_cancel_while_a_tool_runs_takes_the_tool_along(provider: str, want: Want, world_of: WorldOf) -> None:
    world = world_of(provider)
    run = await drive(world, prompt(Case.CANCEL_TOOL), timeout=want.timeout, cancel_when=lambda: tool_is_running(world))
    await check(run, want, world)


@every_provider(Case.CANCEL_SILENT)
async def test_a_cancel_while_the_model_is_silent_ends_the_run(provider: str, want: Want, world_of: WorldOf) -> None:
    world = world_of(provider)
    run = await drive(
        world,
        prompt(Case.CANCEL_SILENT),
        timeout=want.timeout,
        cancel_when=lambda: any(call.scenario == Case.CANCEL_SILENT for call in world.server.main_calls()),
    )
    await check(run, want, world)


@every_provider(Case.BIG)
async def test_an_answer_of_two_megabytes_arrives_whole(provider: str, want: Want, world_of: WorldOf) -> None:
    world = world_of(provider)
    run = await drive(world, prompt(Case.BIG), timeout=want.timeout)
    await check(run, want, world)
