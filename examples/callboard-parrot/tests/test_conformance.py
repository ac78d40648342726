from pathlib import Path

import pytest
from callboard_parrot import ParrotAdapter

from callboard_adapters import BackendConfig, ExecOptions, create_backend, providers
from callboard_adapters.conformance import Recording, check

RECORDINGS = sorted(p for p in (Path(__file__).parent / "recordings").iterdir() if p.is_dir())


@pytest.mark.parametrize("folder", RECORDINGS, ids=lambda p: p.name)
async def test_the_adapter_conforms(folder, tmp_path):
    report = await check(ParrotAdapter, [Recording.load(folder)], tmp_path)
    assert not report.problems, report


async def test_the_real_parrot_repeats_what_it_is_told(tmp_path):
    assert "parrot" in providers()
    session = await create_backend("parrot", BackendConfig()).execute("Polly wants", ExecOptions(cwd=tmp_path))
    said = [m.content async for m in session.messages if m.type == "text"]
    result = await session.result()
    assert (said, result.output) == (["Polly", "wants", "Polly wants"], "Polly wants")
    assert result.session_id
