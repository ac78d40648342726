"""Which variables an agent's secret environment may not set. Refused when written and once more before a run, because
a daemon does not have to believe the server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final

# A custom_env must not become the daemon's voice, move the user's home, or break the run's own arrangement.
BLOCKED: Final = (
    *("MULTICA_*", "CALLBOARD_*", "HOME", "PATH", "USER", "SHELL", "TERM", "TMPDIR", "TMP", "TEMP", "PWD"),
    *("CODEX_HOME", "CURSOR_DATA_DIR", "REASONIX_STATE_HOME", "OPENCLAW_CONFIG_PATH", "OPENCLAW_INCLUDE_ROOTS"),
)
MAX_BYTES: Final = 64 * 1024
"""Of all names and values together: what a secret store takes as one secret."""
KEEP: Final = "****"
"""Stands for a value the caller has not seen and wants to keep."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def refused_keys(custom_env: Mapping[str, str]) -> list[str]:
    """The names in an agent's custom_env that it may not set, sorted. Only the names: the values are secrets."""
    return sorted(
        name
        for name, value in custom_env.items()
        if not _NAME.fullmatch(name) or "\0" in value or any(fnmatchcase(name.upper(), b) for b in BLOCKED)
    )
