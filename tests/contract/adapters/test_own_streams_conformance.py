"""The adapters of CLIs with a stream of their own, through the suite that ships for everybody's."""

from __future__ import annotations

import pytest

from callboard_adapters.conformance import CASES
from tests.contract.adapters.test_conformance import conforms, recordings

RECORDED = ("opencode", "pi", "copilot", "openclaw")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("provider", RECORDED)
async def test_the_tool_recording_conforms(tmp_path, provider, case):
    await conforms(provider, ["tool"], tmp_path, [case])


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("provider", "name"), [(p, n) for p in RECORDED for n in recordings(p)])
async def test_every_recording_conforms(tmp_path, provider, name):
    await conforms(provider, [name], tmp_path)
