from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from callboard_control.embedded.server import Running
from tests.integration.gateway.toys import Toys


@pytest.fixture(scope="module")
def toys() -> Toys:
    return Toys()


@pytest.fixture(scope="module")
def client(toys: Toys, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a real gateway over the toys, one for the tests of a module."""
    with (
        Running(toys.gateway(tmp_path_factory.mktemp("gateway"))) as gateway,
        httpx.Client(base_url=gateway.url, timeout=30) as client,
    ):
        yield client
