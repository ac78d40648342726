"""The ACP adapters through the suite that ships for everybody's. The other recordings follow in the slow suite."""

from __future__ import annotations

import pytest

from callboard_adapters.conformance import CASES
from tests.contract.adapters.test_conformance import conforms, recordings

RECORDED = ("grok", "hermes", "kimi", "qoder")
NOT_OF_A_CONVERSATION = ("cut_at_every_byte", "stdin_closed_early")
OF_A_CONVERSATION = [case for case in CASES if case.__name__ not in NOT_OF_A_CONVERSATION]


@pytest.mark.parametrize("case", OF_A_CONVERSATION, ids=lambda case: case.__name__)
async def test_kimi_conforms(tmp_path, case):
    await conforms("kimi", ["tool"], tmp_path, [case])


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("provider", "name"), [(p, n) for p in RECORDED for n in recordings(p) if n != "cancel"])
async def test_every_recording_conforms(tmp_path, provider, name):
    """`cancel` waits for the caller's cancel: `test_acp_recordings` plays it."""
    await conforms(provider, [name], tmp_path)
