"""Where agents' secret environments are kept: Secrets Manager on AWS, an encrypted file on one machine."""

from __future__ import annotations

from typing import Protocol


class Secrets(Protocol):
    def read(self, agent_id: str) -> dict[str, str]:
        """The secret environment of an agent; empty when it has none."""
        ...


class NoSecrets:
    """A place without a secret store: agents have no secret environment."""

    def read(self, agent_id: str) -> dict[str, str]:
        return {}
