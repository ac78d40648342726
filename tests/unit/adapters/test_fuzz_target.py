"""The fuzzer's target by itself, without a fuzzer: `make fuzz` runs it some millions of times."""

from __future__ import annotations

import pytest

from callboard_adapters.base import Outcome
from callboard_adapters.messages import RunStatus
from tests.fuzz.mutate import mutate
from tests.fuzz.target import DIALECTS, Broken, Target, check_usage, seeds


@pytest.mark.parametrize("provider", DIALECTS)
def test_every_dialect_survives_its_seeds_and_what_is_made_of_them(provider):
    target = Target(provider)
    target.play(b"")
    for number, seed in enumerate(seeds(provider)):
        target.play(seed)
        for change in range(15):
            target.play(mutate(seed, 100 * number + change, 20_000))


def test_a_seed_is_a_conversation_that_the_adapter_takes_part_in():
    outcomes = [Target("codex").play(seed) for seed in seeds("codex")]
    assert any(isinstance(o, Outcome) and o.status is RunStatus.COMPLETED and o.output for o in outcomes)


def test_a_change_is_the_same_for_the_same_seed():
    seed = next(seeds("claude"))
    assert mutate(seed, 7, 20_000) == mutate(seed, 7, 20_000) != seed


def test_an_adapter_that_bills_less_than_nothing_is_found():
    from callboard_adapters.messages import TokenUsage

    with pytest.raises(Broken):
        check_usage({"m": TokenUsage(-1)})
