"""Secrets Manager as the port uses it, at botocore's own check of what is sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import botocore.session
import pytest
from botocore.stub import Stubber

from callboard_control.ports.secrets import SecretsUnavailable, gateway_token_of
from callboard_control.ports.secrets_manager import SecretsManager

VERSION = "01a22e08-95d5-736d-a65c-a40571d98eb7"
NAME = f"callboard/prod/agent/gateway/{VERSION}"
BODY = '{"token": "c4n4ry"}'


@pytest.fixture
def stubbed() -> Iterator[tuple[SecretsManager, Stubber]]:
    keys = {"aws_access_key_id": "x", "aws_secret_access_key": "x", "region_name": "us-east-1"}
    client: Any = botocore.session.get_session().create_client("secretsmanager", **keys)
    with Stubber(client) as stub:
        yield SecretsManager(client, "callboard/prod/agent/"), stub
        stub.assert_no_pending_responses()


def test_a_token_is_written_under_its_own_name_without_a_look_at_what_is_there(
    stubbed: tuple[SecretsManager, Stubber],
) -> None:
    secrets, stub = stubbed
    put = {"SecretId": NAME, "ClientRequestToken": VERSION, "SecretString": BODY}
    stub.add_response("put_secret_value", {"Name": NAME}, put)
    secrets.write(gateway_token_of(VERSION), VERSION, {"token": "c4n4ry"})


def test_the_first_one_makes_the_secret(stubbed: tuple[SecretsManager, Stubber]) -> None:
    secrets, stub = stubbed
    stub.add_client_error("put_secret_value", "ResourceNotFoundException")
    made = {"Name": NAME, "ClientRequestToken": VERSION, "SecretString": BODY}
    stub.add_response("create_secret", {"Name": NAME}, made)
    secrets.write(gateway_token_of(VERSION), VERSION, {"token": "c4n4ry"})


def test_a_version_is_asked_for_once(stubbed: tuple[SecretsManager, Stubber]) -> None:
    secrets, stub = stubbed
    stub.add_response("get_secret_value", {"SecretString": BODY}, {"SecretId": NAME, "VersionId": VERSION})
    for _ in range(2):
        assert secrets.read(gateway_token_of(VERSION), VERSION) == {"token": "c4n4ry"}


def test_a_refusal_is_told_by_its_code_and_not_by_its_text(stubbed: tuple[SecretsManager, Stubber]) -> None:
    """AWS quotes the request in some of its messages."""
    secrets, stub = stubbed
    name, quoted = gateway_token_of(VERSION), f"not allowed to do {BODY}"
    stub.add_client_error("put_secret_value", "AccessDeniedException", quoted)
    with pytest.raises(SecretsUnavailable, match=r"^AccessDeniedException$"):
        secrets.write(name, VERSION, {"token": "c4n4ry"})
    stub.add_client_error("put_secret_value", "ResourceNotFoundException")
    stub.add_client_error("create_secret", "LimitExceededException", quoted)
    with pytest.raises(SecretsUnavailable, match=r"^LimitExceededException$"):
        secrets.write(name, VERSION, {"token": "c4n4ry"})
    stub.add_client_error("get_secret_value", "AccessDeniedException", quoted)
    with pytest.raises(SecretsUnavailable, match=r"^AccessDeniedException$"):
        secrets.read(name, VERSION)
