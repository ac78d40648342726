"""The one door from the command line to the control plane's code, which is an extra and may be missing."""

from __future__ import annotations

import importlib
from typing import Any

from callboard_daemon.errors import CallboardError


def load_server() -> Any:
    """`callboard_control.embedded.server`. Raises `CallboardError` when the server's packages are not installed."""
    try:
        return importlib.import_module("callboard_control.embedded.server")
    except ImportError as error:
        raise CallboardError(
            f"the control plane is not installed here ({error.name or error} is missing)",
            hint="Install it: pip install 'callboard[server]'",
        ) from error
