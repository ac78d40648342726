"""Short commands: `--version` and what an adapter asks to run before a launch.

stdin is the null device, because some CLIs read it to the end before they do anything; time and output are bounded;
whatever the command started is ended with it.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import uuid4

from callboard_adapters.base import CommandDone, Version
from callboard_adapters.process.environment import child_env
from callboard_adapters.process.host import Child, reap_run

VERSION_TIMEOUT = 10.0
_PIPES_AFTER_EXIT = 2.0  # a grandchild may hold the pipe after the command itself has ended
_VERSION = re.compile(r"(?<![\d.])(\d+)\.(\d+)\.(\d+)")
_versions: dict[tuple[object, ...], str] = {}


class _Collector:
    def __init__(self, limit: int) -> None:
        self.stdout = bytearray()
        self.stderr = bytearray()
        self._limit = limit

    def stdout_data(self, data: bytes) -> None:
        self.stdout += data[: max(0, self._limit - len(self.stdout))]

    def stderr_data(self, data: bytes) -> None:
        self.stderr += data[: max(0, self._limit - len(self.stderr))]

    def stdout_ended(self) -> None: ...
    def exited(self) -> None: ...


async def run_command(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: str, timeout: float, max_bytes: int = 4 << 20
) -> CommandDone:
    """Run `argv` to its end. Never raises for what the command does; `code` is None on timeout or a failed start."""
    run_id = f"probe-{uuid4().hex}"
    collector = _Collector(max_bytes)
    try:
        child = await Child.start(
            argv, env=child_env(env, {}, (), cwd, run_id), cwd=cwd, stdin=False, listener=collector
        )
    except (OSError, ValueError) as error:
        return CommandDone(None, b"", str(error).encode())
    code: int | None = None
    try:
        await asyncio.wait_for(child.exited.wait(), timeout)
        code = child.returncode
        in_time = await child.pipes_closed(_PIPES_AFTER_EXIT)
    except TimeoutError:
        in_time = False
    finally:
        child.kill()
        await asyncio.wait([asyncio.ensure_future(child.exited.wait())], timeout=1.0)
        child.close()
    if not in_time:  # only then can anything be left: the search walks every process of the machine
        await asyncio.to_thread(reap_run, run_id, 2.0)
    return CommandDone(code, bytes(collector.stdout), bytes(collector.stderr))


async def probe_version(
    executable: str, prefix: Sequence[str], args: Sequence[str], *, env: Mapping[str, str], cwd: str
) -> tuple[Version | None, str]:
    """(version, what the CLI printed). Cached until the executable file changes; a failed probe is not cached."""
    key = (*_file_identity(executable), tuple(prefix), tuple(args), env.get("PATH"))
    text = _versions.get(key)
    if text is None:
        done = await run_command(
            [executable, *prefix, *args], env=env, cwd=cwd, timeout=VERSION_TIMEOUT, max_bytes=1 << 16
        )
        text = version_line(done.stdout.decode("utf-8", "replace")) or version_line(
            done.stderr.decode("utf-8", "replace")
        )
        if done.code == 0 and text:
            _versions[key] = text
    return parse_version(text), text


def version_line(output: str) -> str:
    """The first line that holds a version (shells and shims print noise before it), else ""."""
    return next((line.strip()[:200] for line in output.splitlines() if _VERSION.search(line)), "")


def parse_version(text: str) -> Version | None:
    """The first d.d.d in `text`."""
    found = _VERSION.search(text)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def _file_identity(executable: str) -> tuple[object, ...]:
    """Changes when the CLI is replaced in place, so the next run reports the new version without a restart."""
    real = os.path.realpath(executable)
    try:
        stat = Path(real).stat()
    except OSError:
        return (executable, real)
    return (executable, real, stat.st_ino, stat.st_size, stat.st_mtime_ns)
