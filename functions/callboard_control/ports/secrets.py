"""Where agents' secret environments are kept: Secrets Manager on AWS, encrypted under a key file on one machine.

The table knows the *version* of an agent's secret and never its content. A version is written once and never changed,
so a cached one is always right, and a claim that finds a new version on the agent asks for the new content.
"""

from __future__ import annotations

from typing import Final, Protocol

PREFIX: Final = "CALLBOARD_SECRET_PREFIX"
"""The setting that names where in Secrets Manager an agent's secret lies, such as ``callboard/prod/agent/``."""


class Secrets(Protocol):
    def read(self, agent_id: str, version: str) -> dict[str, str]:
        """The secret environment of an agent in `version`. Raises `SecretsUnavailable`."""
        ...

    def write(self, agent_id: str, version: str, values: dict[str, str]) -> None:
        """Keep `values` as `version`. Writing the same version again changes nothing."""
        ...

    def forget(self, agent_id: str) -> None:
        """Remove every version of an agent's secret."""
        ...


class SecretsUnavailable(Exception):
    """The secret store did not answer, or does not hold what the table points to. Never carries a value."""


class NoSecrets:
    """A place without a secret store: agents have no secret environment there, and none can be given."""

    def read(self, agent_id: str, version: str) -> dict[str, str]:
        raise SecretsUnavailable("there is no secret store here")

    def write(self, agent_id: str, version: str, values: dict[str, str]) -> None:
        raise SecretsUnavailable("there is no secret store here")

    def forget(self, agent_id: str) -> None:
        pass
