from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.sim_world import Clock, Machine, World


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def world(clock: Clock) -> Iterator[World]:
    world = World(clock=clock)
    yield world
    world.close()


@pytest.fixture
def machine(world: World) -> Machine:
    machine = world.machine()
    world.agent("ada", machine)
    return machine
