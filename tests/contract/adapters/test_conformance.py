"""Our adapters through the suite that ships for everybody's. The other recordings follow in the slow suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from callboard_adapters import registry
from callboard_adapters.conformance import CASES, Recording, check
from callboard_adapters.conformance.cases import (
    cancel_half_way,
    command_line_is_safe,
    cut_at_every_byte,
    plays_whole,
    silent_exit,
)

RECORDINGS = Path(__file__).parents[2] / "fixtures" / "transcripts"


def recordings(provider: str) -> list[str]:
    return sorted(p.name for p in (RECORDINGS / provider).iterdir()) if (RECORDINGS / provider).is_dir() else []


async def conforms(provider: str, names: list[str], folder: Path, cases=CASES) -> None:
    loaded = [Recording.load(RECORDINGS / provider / name) for name in names]
    report = await check(registry.adapter_class(provider), loaded, folder, cases)
    assert report.ran
    assert not report.problems, report


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_claude_conforms(tmp_path, case):
    await conforms("claude", ["tool"], tmp_path, [case])


async def test_echo_conforms_where_it_differs_from_claude(tmp_path):
    cases = [plays_whole, command_line_is_safe, cut_at_every_byte, silent_exit, cancel_half_way]
    await conforms("echo", ["write"], tmp_path, cases)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("provider", "name"), [(p, n) for p in ("claude", "echo") for n in recordings(p)])
async def test_every_recording_of_claude_and_echo_conforms(tmp_path, provider, name):
    await conforms(provider, [name], tmp_path)


async def test_the_suite_finds_an_adapter_that_calls_silence_a_success(tmp_path):
    from dataclasses import replace

    from callboard_adapters.base import Outcome
    from callboard_adapters.claude import ClaudeAdapter
    from callboard_adapters.messages import RunStatus

    class Gullible(ClaudeAdapter):
        def finish(self, exit):
            return (
                replace(super().finish(exit), status=RunStatus.COMPLETED)
                if exit.code == 0
                else Outcome(RunStatus.FAILED)
            )

    recording = Recording.load(RECORDINGS / "claude" / "text")
    report = await check(Gullible, [recording], tmp_path, [silent_exit])
    assert [p.case for p in report.problems] == ["silent_exit"]


async def test_the_suite_finds_an_adapter_that_raises(tmp_path):
    from callboard_adapters.claude import ClaudeAdapter
    from callboard_adapters.conformance.cases import mutated_lines

    class Fragile(ClaudeAdapter):
        def receive(self, line):
            import json

            json.loads(line)
            return super().receive(line)

    recording = Recording.load(RECORDINGS / "claude" / "text")
    report = await check(Fragile, [recording], tmp_path, [mutated_lines])
    assert report.problems


def test_a_case_is_named_by_what_must_hold():
    assert all(case.__doc__ for case in CASES)
