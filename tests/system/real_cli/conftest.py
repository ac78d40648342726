"""A model server, an installed CLI and a world of its own for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.model_server import ModelServer
from tests.system.real_cli.install import ensure
from tests.system.real_cli.runs import end_all
from tests.system.real_cli.worlds import World, make_world


@pytest.fixture
def model() -> Iterator[ModelServer]:
    """A model server of the test's own: what it was asked is this test's alone."""
    with ModelServer() as server:
        yield server


@pytest.fixture
def world_of(model: ModelServer, tmp_path: Path) -> Iterator[Callable[[str], World]]:
    """Makes the world of a provider, installing its CLI first if need be, and leaves no process behind."""
    made: list[World] = []

    def make(provider: str) -> World:
        made.append(make_world(ensure(provider), model, tmp_path))
        return made[-1]

    yield make
    for world in made:
        end_all(world)
