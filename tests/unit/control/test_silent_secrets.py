"""Secrets Manager as a place that may not answer: the caller is told while it still listens."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from callboard_control.ports.secrets import SecretsUnavailable
from callboard_control.ports.secrets_manager import CONNECT_S, READ_S, TRIES, SecretsManager
from tests.unit.infra import template


@pytest.fixture
def black_hole(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An address where connections are taken and nothing is ever said."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setenv("AWS_ENDPOINT_URL_SECRETS_MANAGER", address)
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        yield


def test_a_secret_store_that_never_answers_is_unavailable_before_any_function_that_asks_it_is_over(
    black_hole: None,
) -> None:
    """With botocore's own minute a try this test would end by its timeout, as the function did."""
    secrets = SecretsManager(prefix="callboard/dev/agent/")
    with pytest.raises(SecretsUnavailable, match="ReadTimeoutError"):
        secrets.read("an-agent", "a" * 36)


def test_the_longest_wait_for_secrets_fits_into_every_function_that_has_some() -> None:
    shared = template.load()["Globals"]["Function"]["Timeout"]
    asking = [
        body.get("Timeout", shared)
        for _, body in template.functions().values()
        if "CALLBOARD_SECRET_PREFIX" in body.get("Environment", {}).get("Variables", {})
    ]
    assert len(asking) == 3
    assert min(asking) > TRIES * (CONNECT_S + READ_S) + 1
