"""What schemathesis makes of the OpenAPI document, well formed and not, meets no bug: no 5xx, nothing undocumented."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

from callboard_control import ports
from infra import openapi
from tests.contract.api.stage import Stage

SCHEMA = schemathesis.openapi.from_dict(openapi.document())
OPERATIONS = {operation.ok().label: operation.ok() for operation in SCHEMA.get_all_operations()}
EXAMPLES = 15


class Still:
    """A doorbell that nobody waits at: a fuzzed `wait` of 20 s would be held for 20 s."""

    def ring(self, *runtime_ids: str) -> None:
        pass

    def sample(self, runtime_ids: Any, /) -> Any:
        return None

    def wait(self, seen: Any, timeout: float, /) -> bool:
        return False


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    stage = Stage(tmp_path_factory.mktemp("stage"))
    ports.use(replace(ports.current(), doorbell=Still()))
    yield stage
    stage.close()


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("actor", ["own", "mem", "agt", "dmn"])
@pytest.mark.parametrize("label", sorted(OPERATIONS))
def test_nothing_generated_meets_a_bug(stage: Stage, label: str, actor: str, mode: GenerationMode) -> None:
    stage.prepare("")
    try:
        cases = OPERATIONS[label].as_strategy(generation_mode=mode)
        cases.validate()
    except Exception as e:  # noqa: BLE001  # schemathesis has several errors for it
        pytest.skip(f"nothing to generate: {e}")

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
        if "{" in path:
            path = re.sub(r"\{\w+\}", "unknown", path)
        body = case.body
        if isinstance(body, bytes):
            body = body.decode("utf-8", "replace")
        elif not isinstance(body, str | dict | list | int | float | bool | None):
            body = None
        elif body is not None:
            body = json.dumps(body)
        query = {str(k): str(v) for k, v in (case.query or {}).items()}
        answer = stage.world.call(case.method, path, body, stage.tokens[actor], query=query)
        assert answer.status < 500, (path, body, query, answer)
        assert answer.status in (200, 201) or 400 <= answer.status < 500

    run()
