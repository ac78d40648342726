"""CLIs change every week. A field that is renamed, missing, null or of another type never breaks the adapter, never
makes a failed run a success, and what was said is still shown, if only as a log message."""

from __future__ import annotations

import pytest

from callboard_adapters import registry
from callboard_adapters.conformance import Recording
from tests.contract.adapters.changed import Undisturbed, changes
from tests.contract.adapters.test_conformance import RECORDINGS, recordings

PROVIDERS = sorted(p.name for p in RECORDINGS.iterdir())
OFTEN = ("tool", "401", "thinking", "resume-bogus")


def check(provider: str, name: str) -> None:
    recording = Recording.load(RECORDINGS / provider / name)
    undisturbed = Undisturbed(registry.adapter_class(provider), recording)
    problems = [f"{change}: {problem}" for change in changes(recording) if (problem := undisturbed.problem(change))]
    assert not problems, "\n".join(problems[:20])


@pytest.mark.parametrize(("provider", "name"), [(p, n) for p in PROVIDERS for n in recordings(p) if n in OFTEN])
def test_a_newer_cli_breaks_nothing_and_hides_nothing(provider, name):
    check(provider, name)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("provider", "name"), [(p, n) for p in PROVIDERS for n in recordings(p) if n not in OFTEN])
def test_the_same_of_every_other_recording(provider, name):
    check(provider, name)
