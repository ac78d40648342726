"""Puts the one-machine control plane together: store, ports, functions, front door, schedule.

The order matters: the environment first, because entry points and models read it once, when they are imported.
"""

from __future__ import annotations

from pathlib import Path

from callboard_control.embedded.gateway import Gateway


def compose(data: Path) -> Gateway:
    """The gateway on the data folder `data`, not yet listening.

    Raises:
        GatewayError: the folder cannot be used.
    """
    raise NotImplementedError(data)
