"""The whole path with real CLIs: API call, gateway, daemon, adapter, CLI, and back to the API.

Claude Code goes through everything a task can meet; the others write a file and resume, which is where a daemon that
moves their homes, folders or environment would show.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from callboard_wire.failures import FailureReason
from callboard_wire.states import TaskStatus
from tests.fakes.model_server import ModelServer, Scenario, scenarios
from tests.system.real_cli.expectations import PROVIDERS
from tests.system.real_cli.install import ensure
from tests.system.real_cli.runs import end_all, left_alive, tool_is_running
from tests.system.real_cli.stage import Stage, raised, usage_of
from tests.system.real_cli.worlds import make_world

ENDS_WITHIN = 60.0  # seconds
ONE_CALL, TWO_CALLS = (1234, 56, 1000, 200), (3579, 123, 3000, 500)
OTHERS = [one for one in PROVIDERS if one not in ("claude", "qoder")]  # qoder: no run without a login

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(5 * ENDS_WITHIN, func_only=True)]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One gateway and one daemon for the module: the runs follow each other as they would on a machine."""
    folder = tmp_path_factory.mktemp("stage")
    with ModelServer() as model:
        world = make_world(ensure("claude"), model, folder)
        try:
            with raised(world, folder) as running:
                yield running
        finally:
            end_all(world)


@pytest.fixture
def other(request: pytest.FixtureRequest, model: ModelServer, tmp_path: Path) -> Iterator[Stage]:
    """A gateway and a daemon of its own for the provider of the test."""
    world = make_world(ensure(request.param), model, tmp_path)
    try:
        with raised(world, tmp_path) as running:
            yield running
    finally:
        end_all(world)


def nothing_alive(stage: Stage) -> bool:
    return asyncio.run(left_alive(stage.world)) == []


def test_a_text_answer_comes_back_with_its_session_and_its_cost(stage: Stage) -> None:
    task = stage.ended(stage.enqueue("SCENARIO:text please"), ENDS_WITHIN)
    assert task.status is TaskStatus.COMPLETED, task
    assert task.output == scenarios.HELLO
    assert task.session_id
    assert usage_of(task) == ONE_CALL
    assert scenarios.HELLO in "".join(one.content for one in stage.messages(task.id) if one.type == "text")
    assert nothing_alive(stage)


def test_a_tool_call_writes_its_file_and_is_shown_with_its_output(stage: Stage) -> None:
    task = stage.ended(stage.enqueue("SCENARIO:write please"), ENDS_WITHIN)
    assert task.status is TaskStatus.COMPLETED, task
    assert task.output == scenarios.FINISHED
    assert usage_of(task) == TWO_CALLS
    assert Path(task.work_dir, scenarios.WRITTEN_FILE).read_text().strip() == scenarios.WRITTEN_TEXT
    said = {one.type: one for one in stage.messages(task.id)}
    assert scenarios.WRITTEN_FILE in f"{said['tool_use'].input}"
    assert scenarios.WRITTEN_TEXT in said["tool_result"].output
    assert nothing_alive(stage)


def test_a_resumed_session_knows_its_history_and_bills_its_own_call_only(stage: Stage) -> None:
    first = stage.ended(stage.enqueue("SCENARIO:text please"), ENDS_WITHIN)
    second = stage.ended(stage.enqueue("SCENARIO:recall please", resume_task_id=first.id), ENDS_WITHIN)
    assert second.status is TaskStatus.COMPLETED, second
    assert second.output == scenarios.recalled([Scenario.TEXT, Scenario.RECALL])
    assert second.session_id == first.session_id
    assert second.work_dir == first.work_dir
    assert usage_of(second) == ONE_CALL


def test_a_session_the_cli_has_forgotten_is_said_so_and_replaced_by_a_fresh_one(stage: Stage) -> None:
    first = stage.ended(stage.enqueue("SCENARIO:text please"), ENDS_WITHIN)
    shutil.rmtree(stage.world.home / ".claude/projects")
    second = stage.ended(stage.enqueue("SCENARIO:recall please", resume_task_id=first.id), ENDS_WITHIN)
    assert second.status is TaskStatus.COMPLETED, second
    assert second.output == scenarios.recalled([Scenario.RECALL])
    assert second.session_id not in ("", first.session_id)
    assert usage_of(second) == ONE_CALL
    assert any("could not be resumed" in one.content for one in stage.messages(second.id))


def test_a_refused_key_fails_the_task_as_a_matter_of_login_without_another_attempt(stage: Stage) -> None:
    task = stage.ended(stage.enqueue("SCENARIO:401 please"), ENDS_WITHIN)
    assert task.status is TaskStatus.FAILED, task
    assert task.failure_reason == FailureReason.AUTH
    assert task.error
    assert not task.retried_by_task_id
    assert nothing_alive(stage)


def test_a_cancel_in_the_middle_of_a_tool_ends_the_task_and_the_tool(stage: Stage) -> None:
    task_id = stage.enqueue("SCENARIO:longtool please")
    deadline = time.monotonic() + ENDS_WITHIN
    while not tool_is_running(stage.world):
        assert time.monotonic() < deadline, f"the tool never ran: {stage.task(task_id)}"
        time.sleep(0.1)
    stage.cancel(task_id)
    task = stage.ended(task_id, ENDS_WITHIN)
    assert task.status is TaskStatus.CANCELLED, task
    assert nothing_alive(stage)


@pytest.mark.parametrize("other", OTHERS, indirect=True)
def test_any_providers_task_writes_in_its_own_folder_and_is_resumed_there(other: Stage) -> None:
    first = other.ended(other.enqueue("SCENARIO:write please"), 2 * ENDS_WITHIN)
    assert first.status is TaskStatus.COMPLETED, first
    assert first.output == scenarios.FINISHED
    assert usage_of(first) == (*TWO_CALLS[:3], 0)
    assert Path(first.work_dir, scenarios.WRITTEN_FILE).read_text().strip() == scenarios.WRITTEN_TEXT
    second = other.ended(other.enqueue("SCENARIO:recall please", resume_task_id=first.id), 2 * ENDS_WITHIN)
    assert second.status is TaskStatus.COMPLETED, second
    assert second.output == scenarios.recalled([Scenario.WRITE, Scenario.RECALL])
    assert second.session_id == first.session_id
    assert usage_of(second) == (*ONE_CALL[:3], 0)
    assert nothing_alive(other)
