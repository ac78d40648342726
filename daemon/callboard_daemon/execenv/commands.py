"""The folder that comes first on an agent's PATH: the command line under both of its names."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Final

from callboard_daemon.files import private_dir, write_atomic

NAMES: Final = ("callboard", "multica")


def write_commands(folder: Path) -> Path:
    """Write the commands into `folder` (made when missing) and give it back. Raises `OSError`.

    `-P` keeps the agent's cwd out of the import path: a `click.py` lying in a repository must not become our code.
    """
    private_dir(folder)
    script = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m callboard_daemon "$@"\n'
    for name in NAMES:
        write_atomic(folder / name, script.encode(), mode=0o755)
    return folder
