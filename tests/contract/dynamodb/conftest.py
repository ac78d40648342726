"""Fixtures: one engine and one ministack a session, with the same tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from callboard_control.embedded import engine as embedded
from tests.contract.dynamodb.backends import EMBEDDED, TABLES, Dynamo
from tests.fakes import ministack


@pytest.fixture(scope="session")
def embedded_dynamo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dynamo]:
    with embedded.Engine(tmp_path_factory.mktemp("engine") / "contract.db") as engine:
        yield _prepared(EMBEDDED, embedded.client(engine, retries=0, parameter_validation=False))


@pytest.fixture(scope="session")
def ministack_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ministack.running(tmp_path_factory.mktemp("ministack")) as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def ministack_dynamo(ministack_endpoint: str) -> Iterator[Dynamo]:
    client = ministack.client(ministack_endpoint)
    yield _prepared("ministack", client)
    client.close()


@pytest.fixture
def dynamo(request: pytest.FixtureRequest) -> Dynamo:
    """The backend named by the parameter."""
    prepared: Dynamo = request.getfixturevalue(f"{request.param}_dynamo")
    return prepared


@pytest.fixture(scope="session")
def ministack_clients(ministack_endpoint: str) -> Iterator[list[Any]]:
    made = [ministack.client(ministack_endpoint) for _ in range(4)]
    yield made
    for client in made:
        client.close()


@pytest.fixture
def clients(dynamo: Dynamo, request: pytest.FixtureRequest) -> list[Any]:
    """Clients of the backend for threads to share; the engine has no connections, so one serves all."""
    if dynamo.name == EMBEDDED:
        return [dynamo.client]
    made: list[Any] = request.getfixturevalue("ministack_clients")
    return made


def _prepared(name: str, client: object) -> Dynamo:
    dynamo = Dynamo(name, client)
    for table in TABLES:
        dynamo.client.create_table(**table)
    return dynamo
