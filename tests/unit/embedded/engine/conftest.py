from __future__ import annotations

from collections.abc import Iterator

import pytest

from callboard_control.embedded.engine import Engine
from tests.unit.embedded.engine import tables


@pytest.fixture
def engine() -> Iterator[Engine]:
    """An engine in memory with the table of `tables`."""
    with Engine(":memory:") as made:
        tables.create(made)
        yield made
