"""What schemathesis makes of the OpenAPI document, well formed and not, meets no bug: no 5xx, nothing undocumented."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.core import NotSet

from callboard_control import entrypoints, ports
from infra import openapi
from tests.contract.api.stage import Stage

ROUTES = sorted(f"{verb} {path}" for name in entrypoints.HTTP for verb, path in entrypoints.load(name).app.declared())
EXAMPLES = 15
ROLES = ("own", "mem", "agt", "dmn")


class Still:
    """A doorbell that nobody waits at: a fuzzed `wait` of 20 s would be held for 20 s."""

    def ring(self, *runtime_ids: str) -> None:
        pass

    def sample(self, runtime_ids: Any, /) -> Any:
        return None

    def wait(self, seen: Any, timeout: float, /) -> bool:
        return False


class Theatre:
    """The stage, and a new one when the last act has left it without an agent or somebody without a token."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stage: Stage | None = None
        self._built = 0

    def stage(self) -> Stage:
        if self._stage is None or not self._whole(self._stage):
            self.close()
            self._built += 1
            folder = self._folder / str(self._built)
            folder.mkdir()
            self._stage = Stage(folder)
            ports.use(replace(ports.current(), doorbell=Still()))
        return self._stage

    @staticmethod
    def _whole(stage: Stage) -> bool:
        everybody = [stage.world.call("GET", "/api/me", token=stage.tokens[actor]).status for actor in ROLES]
        agent = stage.world.call("GET", f"/api/agents/{stage.things['agent_id']}")
        return everybody == [200] * len(ROLES) and agent.status == 200 and not agent["archived"]

    def close(self) -> None:
        if self._stage is not None:
            self._stage.close()


@pytest.fixture(scope="module")
def theatre(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theatre]:
    theatre = Theatre(tmp_path_factory.mktemp("theatre"))
    yield theatre
    theatre.close()


@pytest.fixture(scope="module")
def operations() -> dict[str, Any]:
    found = schemathesis.openapi.from_dict(openapi.document()).get_all_operations()
    return {operation.ok().label: operation.ok() for operation in found}


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("actor", ROLES)
@pytest.mark.parametrize("label", ROUTES)
def test_nothing_generated_meets_a_bug(
    theatre: Theatre, operations: dict[str, Any], label: str, actor: str, mode: GenerationMode
) -> None:
    if label == "GET /device" and mode is GenerationMode.NEGATIVE:
        pytest.skip("it takes nothing, not even a token: nothing can be wrong with it")
    stage = theatre.stage()
    cases = operations[label].as_strategy(generation_mode=mode)

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(case=cases, real=st.booleans())
    def run(case: Any, real: bool) -> None:
        path = stage.filled(case.path, "") if real else case.formatted_path
        path = re.sub(r"\{\w+\}", "unknown", path)
        query = {str(name): str(value) for name, value in (case.query or {}).items()}
        answer = stage.world.call(case.method, path, text_of(case.body), stage.tokens[actor], query=query)
        assert answer.status in (200, 201) or 400 <= answer.status < 500, (path, case.body, query, answer)

    run()


def text_of(body: Any) -> str | None:
    """What schemathesis made up, as the text of a request."""
    if isinstance(body, bytes):
        return body.decode("utf-8", "replace")
    return None if isinstance(body, NotSet) else json.dumps(body)
