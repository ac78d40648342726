"""An executable that is a command line: what a fake CLI is found by."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path


def write_launcher(path: Path, argv: Sequence[str]) -> Path:
    """Make `path` an executable that runs `argv` with its own arguments behind it; its real path (`.cmd` on Windows).

    On Windows it is what npm installs there, so that a fake CLI is started as a real one is.
    """
    if os.name == "nt":
        shim = path.with_name(f"{path.name}.cmd")
        words = " ".join(f'"{word}"' for word in argv)
        shim.write_text(f"@{words} %*\r\n", encoding="utf-8", newline="")
        return shim
    path.write_text(f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n')
    path.chmod(0o755)
    return path
