"""The promise of the product under a storm: no task is lost, none runs twice at once, every one ends."""

from __future__ import annotations

import pytest

from tests.simulation.actors import Violation
from tests.simulation.sim import Simulation, simplest

STEPS = 500


@pytest.mark.parametrize("seed", range(8))
def test_no_seed_breaks_an_invariant_and_everything_ends(seed: int) -> None:
    try:
        Simulation(seed, STEPS).run()
    except Violation:
        pytest.fail(simplest(seed, STEPS), pytrace=False)


def test_the_same_seed_tells_the_same_story() -> None:
    stories = []
    for _ in range(2):
        simulation = Simulation(7, 200)
        simulation.run()
        stories.append([line.split(" -> ")[-1] for line in simulation.history])
    assert stories[0] == stories[1]
