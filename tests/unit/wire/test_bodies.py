"""What every body that crosses the wire keeps to itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pydantic import ValidationError

import callboard_wire.agents
import callboard_wire.api
import callboard_wire.login
import callboard_wire.people
import callboard_wire.runtimes
import callboard_wire.skills  # noqa: F401  (bodies of all subjects are looked at)
from callboard_wire.bodies import Body, ClaimResponse
from callboard_wire.runtime_config import RuntimeConfig

SECRET = "zq-canary-0123456789"


def bodies(kind: type[Body] = Body) -> Iterator[type[Body]]:
    for each in kind.__subclasses__():
        yield each
        yield from bodies(each)


def test_no_body_repeats_in_an_error_what_did_not_fit() -> None:
    kinds = set(bodies())
    assert len(kinds) > 80
    assert not [kind.__name__ for kind in kinds if kind.model_config.get("hide_input_in_errors") is not True]


@pytest.mark.parametrize(
    "tasks",
    [
        [{"id": "t", "auth_token": SECRET}],
        [{"agent": {"custom_env": {"KEY": [SECRET]}}}],
        [{"agent": {"id": 1, "custom_env": {"KEY": SECRET}}}],
        SECRET,
    ],
)
def test_a_claim_that_cannot_be_read_leaves_no_secret_in_a_log(tasks: object) -> None:
    with pytest.raises(ValidationError) as refused:
        ClaimResponse.model_validate({"tasks": tasks})
    assert SECRET[-10:] not in str(refused.value)
    assert SECRET[-10:] not in repr(refused.value)


@pytest.mark.parametrize("gateway", [{"tokne": SECRET}, {"port": SECRET}, {"token": [SECRET]}, SECRET])
def test_a_gateways_token_under_a_wrong_key_is_not_repeated(gateway: object) -> None:
    with pytest.raises(ValidationError) as refused:
        RuntimeConfig.model_validate({"gateway": gateway})
    assert SECRET[-10:] not in str(refused.value)
