"""The ACP adapters through the suite that ships for everybody's. The other recordings follow in the slow suite."""

from __future__ import annotations

import json

import pytest

from callboard_adapters.conformance import CASES, Recording, check
from callboard_adapters.conformance.cases import mutated_lines, noise_between_lines, plays_whole
from callboard_adapters.registry import adapter_class
from tests.contract.adapters.acp_play import Talk
from tests.contract.adapters.test_conformance import conforms, recordings
from tests.fakes import acp_sheets
from tests.fakes.acp_agent import Script

RECORDED = ("grok", "hermes", "kimi", "qoder")
FROM_SHEETS = ("kiro", "traecli")
NOT_OF_A_CONVERSATION = ("cut_at_every_byte", "stdin_closed_early")
ENDED_FROM_OUTSIDE = ("cancel", "sigterm-tool-group")  # they wait for it; `test_acp_recordings` plays them
OF_A_CONVERSATION = [case for case in CASES if case.__name__ not in NOT_OF_A_CONVERSATION]


def from_sheet(provider: str) -> Recording:
    """What the scripted agent of the sheets and the adapter say to each other, in the shape of a recording."""
    says = getattr(acp_sheets, provider)()
    script, lines, client, sent_after = Script(says), [], [], []
    for message in Talk(provider, says).start().sent:
        client.append(json.dumps(message).encode())
        sent_after.append(len(lines))
        lines += [what for do, what in script.hear(client[-1]) if do == "write"]
    return Recording("sheet", tuple(lines), tuple(client), tuple(sent_after), prompt="Fix it")


async def sheet_conforms(provider, folder, cases):
    report = await check(adapter_class(provider), [from_sheet(provider)], folder, cases)
    assert report.ran
    assert not report.problems, report


@pytest.mark.parametrize("case", OF_A_CONVERSATION, ids=lambda case: case.__name__)
async def test_kimi_conforms(tmp_path, case):
    await conforms("kimi", ["tool"], tmp_path, [case])


@pytest.mark.parametrize("case", [plays_whole, noise_between_lines, mutated_lines], ids=lambda case: case.__name__)
@pytest.mark.parametrize("provider", FROM_SHEETS)
async def test_what_the_sheets_describe_conforms(tmp_path, provider, case):
    await sheet_conforms(provider, tmp_path, [case])


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("provider", FROM_SHEETS)
async def test_every_case_holds_for_what_the_sheets_describe(tmp_path, provider):
    await sheet_conforms(provider, tmp_path, CASES)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("provider", "name"), [(p, n) for p in RECORDED for n in recordings(p) if n not in ENDED_FROM_OUTSIDE]
)
async def test_every_recording_conforms(tmp_path, provider, name):
    await conforms(provider, [name], tmp_path)
