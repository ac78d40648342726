"""What the control plane needs of the world besides its table, as interfaces with one implementation each per place.

`current()` is what the running process uses: on AWS the defaults built from the environment, on one machine what
`callboard_control.embedded` puts there with `use()`, in a simulation a virtual clock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from callboard_control.ports.doorbell import Doorbell, SilentDoorbell
from callboard_control.ports.secrets import PREFIX, NoSecrets, Secrets

__all__ = ["Doorbell", "Ports", "Secrets", "current", "now_ms", "ring", "use"]


def _secrets() -> Secrets:
    """Secrets Manager where the template names a prefix, else none."""
    if PREFIX not in os.environ:
        return NoSecrets()
    from callboard_control.ports.secrets_manager import SecretsManager

    return SecretsManager()


@dataclass(frozen=True, slots=True)
class Ports:
    """`clock` answers milliseconds since 1970; `bootstrap_secret` None: no first person is made over HTTP here;
    `forget_bootstrap_secret` is called once it has let somebody in."""

    clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    doorbell: Doorbell = field(default_factory=SilentDoorbell)
    secrets: Secrets = field(default_factory=_secrets)
    bootstrap_secret: Callable[[], str | None] = lambda: None
    forget_bootstrap_secret: Callable[[], None] = lambda: None


_current: list[Ports] = []


def use(ports: Ports) -> None:
    """Make `ports` the process's own (embedded default, tests, simulations)."""
    _current[:] = [ports]


def current() -> Ports:
    if not _current:
        _current.append(Ports())
    return _current[0]


def now_ms() -> int:
    return current().clock()


def ring(*runtime_ids: str) -> None:
    """Say "maybe work" to the daemons of these runtimes. After the commit, never before it."""
    current().doorbell.ring(*(r for r in runtime_ids if r))
