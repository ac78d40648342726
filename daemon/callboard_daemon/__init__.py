"""The daemon that runs tasks on somebody's own machine, and the `callboard` command line."""

from __future__ import annotations


def version() -> str:
    """The installed version of the distribution, `0+unknown` when run from a bare checkout."""
    from importlib import metadata  # 20 ms that only two commands need

    try:
        return metadata.version("callboard")
    except metadata.PackageNotFoundError:
        return "0+unknown"
