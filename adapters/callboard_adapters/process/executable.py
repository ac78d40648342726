"""Finding a CLI, and saying clearly why it cannot be run."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

from callboard_adapters.errors import (
    ArgumentsTooLarge,
    ExecutableNotFound,
    ExecutableNotRunnable,
    ExecutionError,
    LaunchRefused,
    SpawnFailed,
)
from callboard_adapters.process.windows import programs

_MOST_ARGUMENTS = "the command line may hold 32 KiB" if os.name == "nt" else "one argument may hold 128 KiB"


def find_executable(provider: str, executable: str, path: str) -> str:
    """The absolute path of `executable`, a path or a name to look for in `path` (a PATH value).

    Raises `ExecutableNotFound` or `ExecutableNotRunnable`.
    """
    if os.sep in executable or (os.altsep and os.altsep in executable):
        place = Path(executable).expanduser()
        if os.name == "nt":
            place = Path(programs.search(place.name, str(place.parent)) or place)
        if not place.is_file():
            raise ExecutableNotFound(
                f"executable not found: {place}", provider=provider, repair=f"install {provider} or correct its path"
            )
        if not os.access(place, os.X_OK):
            raise ExecutableNotRunnable(
                f"{place} is not executable", provider=provider, repair=f"chmod +x {place}, or install {provider} again"
            )
        return str(place.absolute())
    found = programs.search(executable, path) if os.name == "nt" else shutil.which(executable, path=path)
    if found is None:
        raise ExecutableNotFound(
            f"executable not found: {executable} is not on PATH",
            provider=provider,
            repair=f"install {provider} or set its path",
        )
    return found


def spawn_error(provider: str, executable: str, error: OSError | ValueError) -> ExecutionError:
    """What the system said about starting `executable`, as one of our errors."""
    if isinstance(error, ValueError):  # a NUL byte in an argument or in the environment
        return LaunchRefused(f"an argument or variable for {provider} holds a NUL byte", provider=provider)
    if error.errno == errno.E2BIG:
        return ArgumentsTooLarge(
            "arguments and environment together are larger than the system allows",
            provider=provider,
            repair=f"{_MOST_ARGUMENTS}; move large text into a file",
        )
    if error.errno == errno.ENOEXEC:
        return ExecutableNotRunnable(
            f"exec format error: {executable} is not a program for this machine",
            provider=provider,
            repair=_npm_repair(executable),
        )
    if error.errno == errno.ENOENT:
        return ExecutableNotRunnable(
            f"{executable} is there, but the interpreter its first line names is not",
            provider=provider,
            repair="install that interpreter (often node) or put it on PATH",
        )
    if error.errno == errno.EACCES:
        return ExecutableNotRunnable(
            f"permission denied: {executable}", provider=provider, repair=f"chmod +x {executable}"
        )
    return SpawnFailed(f"could not start {executable}: {error.strerror or error}", provider=provider)


def _npm_repair(executable: str) -> str:
    """npm leaves a text stub when install scripts were blocked; name the package and its script."""
    for folder in Path(executable).resolve().parents[:3]:
        try:
            package = json.loads((folder / "package.json").read_bytes())
            script = package["scripts"]["postinstall"]
            return f"the install script of {package['name']} did not run: cd {folder} && {script}"
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return "install it again for this machine"
