"""The adapters of CLIs with a stream of their own, through the suite that ships for everybody's.

By default one of them; all, with every recording, in the slow suite.
"""

from __future__ import annotations

import pytest

from callboard_adapters.conformance import CASES
from tests.contract.adapters.test_conformance import conforms, recordings

RECORDED = ("opencode", "pi", "copilot", "openclaw", "deveco", "antigravity")  # the last two: made up from the sheets


WITH_A_GRACE = ("never_exits", "hung_and_deaf")
"""Cases that wait for a real grace to run out: seconds each, and the same driver for every provider."""


@pytest.mark.parametrize("case", [c for c in CASES if c.__name__ not in WITH_A_GRACE], ids=lambda case: case.__name__)
async def test_opencode_conforms(tmp_path, case):
    await conforms("opencode", ["tool"], tmp_path, [case])


ID_OF_OUR_OWN = {("copilot", "sigterm-tool-group")} | {
    ("openclaw", name) for name in ("401", "after-401", "nologin", "sigterm-tool-group")
}
"""They end before the CLI names the session, so the id is the fresh one the adapter chose: no two runs end alike."""
WHOLE = [(p, n) for p in RECORDED for n in recordings(p) if (p, n) not in ID_OF_OUR_OWN]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("provider", "name"), WHOLE)
async def test_every_recording_conforms(tmp_path, provider, name):
    await conforms(provider, [name], tmp_path)
