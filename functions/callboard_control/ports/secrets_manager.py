"""AWS Secrets Manager: a secret for each that an agent has; its versions are ours by client request token."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from callboard_control.ports.secrets import PREFIX, SecretsUnavailable

CACHED: Final = 256
CONNECT_S: Final = 1
READ_S: Final = 2
TRIES: Final = 2
"""A call must have failed while its caller still listens, as the store's must: botocore's minute a try would end the
function first, and with a claim the answer for tasks that it has taken already."""


class SecretsManager:
    """`Secrets` on AWS. Content is cached by version: a version never changes, a rotated secret has a new one."""

    def __init__(self, client: Any = None, prefix: str | None = None) -> None:
        self._client = client
        self._prefix = prefix or os.environ[PREFIX]
        self._cached = lru_cache(maxsize=CACHED)(self._fetch)

    def read(self, name: str, version: str) -> dict[str, str]:
        return dict(self._cached(name, version))

    def write(self, name: str, version: str, values: dict[str, str]) -> None:
        body = json.dumps(values)
        try:
            self._secrets().put_secret_value(
                SecretId=self._prefix + name, ClientRequestToken=version, SecretString=body
            )
        except self._secrets().exceptions.ResourceNotFoundException:
            self._create(name, version, body)
        except (BotoCoreError, ClientError) as e:
            raise SecretsUnavailable(_code(e)) from e

    def _create(self, name: str, version: str, body: str) -> None:
        try:
            self._secrets().create_secret(Name=self._prefix + name, ClientRequestToken=version, SecretString=body)
        except (BotoCoreError, ClientError) as e:
            raise SecretsUnavailable(_code(e)) from e

    def _fetch(self, name: str, version: str) -> dict[str, str]:
        try:
            answer = self._secrets().get_secret_value(SecretId=self._prefix + name, VersionId=version)
        except (BotoCoreError, ClientError) as e:
            raise SecretsUnavailable(_code(e)) from e
        found: dict[str, str] = json.loads(answer["SecretString"])
        return found

    def _secrets(self) -> Any:
        # Made when first needed: most calls of most functions never need one, and it costs 70 ms at a cold start.
        if self._client is None:
            # Not boto3: the bundle has botocore, the runtime's own boto3 would want another version of it.
            import botocore.session
            from botocore.config import Config

            tries = {"total_max_attempts": TRIES, "mode": "standard"}
            bounded = Config(connect_timeout=CONNECT_S, read_timeout=READ_S, retries=tries)
            self._client = botocore.session.get_session().create_client("secretsmanager", config=bounded)
        return self._client


def _code(error: Exception) -> str:
    """The error's code and nothing of its text, which may quote the request."""
    if isinstance(error, ClientError):
        return str(error.response.get("Error", {}).get("Code", "ClientError"))
    return type(error).__name__
