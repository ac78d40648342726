"""Where agents' secrets are kept: Secrets Manager on AWS, encrypted under a key file on one machine.

An agent may have two: its environment, under its id, and its gateway's token, under `gateway_token_of`. They are apart
because the `agents` function, which takes tokens in, may write no environment and read no secret at all.
The table knows the *version* of a secret and never its content. A version is written once and never changed, so a
cached one is always right, and a claim that finds a new version on the agent asks for the new content.
"""

from __future__ import annotations

from typing import Final, Protocol

PREFIX: Final = "CALLBOARD_SECRET_PREFIX"
"""The setting that names where in Secrets Manager agents' secrets lie, such as ``callboard/prod/agent/``."""


def gateway_token_of(agent_id: str) -> str:
    """The name of the secret that holds an agent's gateway token."""
    return f"gateway/{agent_id}"


class Secrets(Protocol):
    def read(self, name: str, version: str) -> dict[str, str]:
        """What the secret `name` holds in `version`. Raises `SecretsUnavailable`."""
        ...

    def write(self, name: str, version: str, values: dict[str, str]) -> None:
        """Keep `values` as `version`. Writing the same version again changes nothing. Raises `SecretsUnavailable`."""
        ...


class SecretsUnavailable(Exception):
    """The secret store did not answer, or does not hold what the table points to. Never carries a value."""


class SecretsLost(SecretsUnavailable):
    """What the table points to will never be read again, such as under another key file: waiting does not help."""


class NoSecrets:
    """A place without a secret store: agents have no secrets there, and none can be given."""

    def read(self, name: str, version: str) -> dict[str, str]:
        raise SecretsUnavailable("there is no secret store here")

    def write(self, name: str, version: str, values: dict[str, str]) -> None:
        raise SecretsUnavailable("there is no secret store here")
