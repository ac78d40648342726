"""A skill that an agent was given is in what the real CLI sends to its model: it was found where we put it.

The brief names a skill and says what it is for only where the CLI finds it nowhere by itself, so the description in a
model call is the CLI's own doing everywhere else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from callboard_wire.states import TaskStatus
from tests.fakes.model_server import ModelServer, scenarios
from tests.system.real_cli.expectations import PROVIDERS
from tests.system.real_cli.install import ensure
from tests.system.real_cli.runs import end_all
from tests.system.real_cli.stage import Stage, raised
from tests.system.real_cli.worlds import make_world

ENDS_WITHIN = 120.0  # seconds
FOR = "Use it whenever a lighthouse keeper writes a changelog"
SKILL = f"---\nname: Keeper's log\ndescription: {FOR}.\n---\n\nBegin with the weather.\n"

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(4 * ENDS_WITHIN, func_only=True)]


@pytest.fixture
def stage(request: pytest.FixtureRequest, model: ModelServer, tmp_path: Path) -> Iterator[Stage]:
    world = make_world(ensure(request.param), model, tmp_path)
    try:
        with raised(world, tmp_path) as running:
            yield running
    finally:
        end_all(world)


@pytest.mark.parametrize("stage", [one for one in PROVIDERS if one != "qoder"], indirect=True)  # no run without a login
def test_the_cli_tells_its_model_of_the_skill(stage: Stage) -> None:
    made = stage.api.post("/api/skills", json={"content": SKILL, "files": [{"path": "a.md", "content": "x"}]})
    assert made.is_success, made.text
    given = stage.api.put(f"/api/agents/{stage.agent}/skills", json={"skill_ids": [made.json()["id"]]})
    assert given.is_success, given.text
    task = stage.ended(stage.enqueue("SCENARIO:text please"), ENDS_WITHIN)
    assert task.status is TaskStatus.COMPLETED, task
    assert task.output == scenarios.HELLO
    asked = [json.dumps(call.body, ensure_ascii=False) for call in stage.world.server.main_calls()]
    assert any(FOR in body for body in asked), f"no model call of {len(asked)} speaks of the skill"
    assert any("keeper-s-log" in body for body in asked)
    assert any("You are working for Callboard" in body for body in asked), "nor is the brief read"
