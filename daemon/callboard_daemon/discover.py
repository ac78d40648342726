"""Which providers this machine can run, and where their command lines are.

A daemon that a service manager started has a PATH of two folders, while people install these CLIs with version
managers that put them in per-user, per-version folders. So the search goes on where PATH ends:

    explicit path (a miss stays a miss)  →  PATH  →  the login shell's PATH  →  the usual per-user folders

The whole search path is also the agent's: a script found under ~/.nvm needs the `node` beside it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from callboard_adapters import registry
from callboard_adapters.capabilities import Capabilities
from callboard_adapters.errors import AdapterError, ExecutionError
from callboard_adapters.process.executable import find_executable
from callboard_adapters.process.probe import parse_version, probe_version, run_command
from callboard_daemon.errors import SettingError
from callboard_daemon.execenv.environment import inherited
from callboard_daemon.settings import Settings

log = logging.getLogger(__name__)

PROBES_AT_ONCE: Final = 8
SHELL_TIMEOUT_S: Final = 5.0
_SHELLS: Final = frozenset({"bash", "zsh", "sh", "dash", "ksh", "fish"})
_MARK: Final = "callboard-path:"

# Globs take the newest version first. Order: what people install by hand, then version managers, then system places.
USUAL_FOLDERS: Final = (
    "~/.local/bin",
    "~/bin",
    "~/.claude/local",
    "~/.opencode/bin",
    "~/.npm-global/bin",
    "~/.bun/bin",
    "~/.deno/bin",
    "~/.cargo/bin",
    "~/.yarn/bin",
    "~/.local/share/pnpm",
    "~/Library/pnpm",
    "~/.nvm/versions/node/*/bin",
    "~/.local/share/fnm/node-versions/*/installation/bin",
    "~/.volta/bin",
    "~/.asdf/shims",
    "~/.local/share/mise/shims",
    "~/.local/share/uv/tools/*/bin",
    "/opt/homebrew/bin",
    "/home/linuxbrew/.linuxbrew/bin",
    "/usr/local/bin",
    "/usr/bin",
    "/bin",
    "/snap/bin",
)


@dataclass(frozen=True, slots=True)
class Found:
    """A provider that can be offered. `version` is the CLI's own words, "" when it said none; `identity` names the
    very file that said it; `launch_prefix` are a runtime profile's fixed arguments."""

    provider: str
    executable: str
    version: str
    capabilities: Capabilities
    identity: tuple[str, ...]
    launch_prefix: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Inventory:
    """`skipped` says for each provider that was looked for and is not offered why; `path` are the search folders."""

    found: Mapping[str, Found] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    path: tuple[str, ...] = ()


async def discover(settings: Settings, environ: Mapping[str, str]) -> Inventory:
    """Look for every provider that is wanted. Raises `SettingError` for a name in `providers` that nobody knows."""
    path = await search_path(environ, ask_shell=settings.login_shell)
    env = probe_env(settings, environ, path)
    at_once = asyncio.Semaphore(PROBES_AT_ONCE)

    async def look(name: str) -> Found | str:
        async with at_once:
            return await _look(name, settings, env)

    names = _wanted(settings)
    answers = dict(zip(names, await asyncio.gather(*map(look, names)), strict=True))
    found = {name: answer for name, answer in answers.items() if isinstance(answer, Found)}
    skipped = {name: answer for name, answer in answers.items() if isinstance(answer, str)}
    for name, why in skipped.items():
        log.debug("not offered: %s (%s)", name, why)
    return Inventory(found, skipped, path)


def probe_env(settings: Settings, environ: Mapping[str, str], path: tuple[str, ...]) -> dict[str, str]:
    """What a CLI is asked for its version in: the agent's environment, without anything of a task."""
    return {**inherited(environ, settings.pass_env), **settings.env, "PATH": ":".join(path)}


async def search_path(environ: Mapping[str, str], *, ask_shell: bool) -> tuple[str, ...]:
    """The folders to look in, in order, those that exist."""
    home = Path(environ.get("HOME") or Path.home())
    folders = _split(environ.get("PATH", os.defpath))
    if ask_shell:
        folders += await login_shell_path(environ)
    return await asyncio.to_thread(_existing, folders + usual_folders(home))


async def login_shell_path(environ: Mapping[str, str]) -> list[str]:
    """PATH as the user's terminal has it; [] when the shell is unknown, slow or broken. Start-up files may print and
    may start things in the background: the answer is marked, and what they start is ended."""
    shell = environ.get("SHELL") or _shell_of_user()
    if Path(shell).name not in _SHELLS:
        return []
    script = f'echo; printf "{_MARK}"; command printenv PATH'
    env = {**inherited(environ, ()), "PATH": environ.get("PATH", os.defpath)}
    done = await run_command(
        [shell, "-ilc", script], env=env, cwd=tempfile.gettempdir(), timeout=SHELL_TIMEOUT_S, max_bytes=1 << 16
    )
    _, mark, answer = done.stdout.decode("utf-8", "replace").rpartition(_MARK)
    if not mark:
        log.debug("the login shell %s did not tell its PATH (exit %s)", shell, done.code)
        return []
    return _split(answer.splitlines()[0] if answer else "")


def usual_folders(home: Path) -> list[str]:
    """`USUAL_FOLDERS` with `~` and globs replaced by what exists."""
    folders: list[str] = []
    for pattern in USUAL_FOLDERS:
        place = pattern.replace("~", str(home), 1)
        if "*" in place:
            before, _, after = place.partition("/*/")
            folders += sorted((str(p) for p in Path(before).glob(f"*/{after}")), key=_by_version, reverse=True)
        else:
            folders.append(place)
    return folders


def file_identity(executable: str) -> tuple[str, ...]:
    """Changes when the CLI is replaced in place or reached through another link; () when it is gone."""
    try:
        real = Path(executable).resolve(strict=True)
        found = real.stat()
    except OSError:
        return ()
    return str(real), str(found.st_ino), str(found.st_size), str(found.st_mtime_ns)


def logged_in(found: Found, environ: Mapping[str, str]) -> bool | None:
    """Whether the CLI has credentials, as far as its adapter knows how to tell; None when it does not."""
    can = found.capabilities
    if not can.login_env and not can.login_files:
        return None
    home = environ.get("HOME") or str(Path.home())
    files = (Path(name.replace("~", home, 1)) for name in can.login_files)
    return any(environ.get(name) for name in can.login_env) or any(file.exists() for file in files)


async def _look(name: str, settings: Settings, env: Mapping[str, str]) -> Found | str:
    return await examine(name, name, settings.of_provider(name).path, (), env)


async def examine(
    label: str, provider: str, wanted: str, prefix: tuple[str, ...], env: Mapping[str, str]
) -> Found | str:
    """The CLI at `wanted` (a path, or a name for PATH; "" is the provider's usual one) with fixed arguments `prefix`,
    as something to offer, or why it cannot be. `label` is what people call it."""
    try:
        can = registry.adapter_class(provider).capabilities
    except (AdapterError, ImportError, TypeError, AttributeError) as error:
        return f"its adapter cannot be loaded: {error}"
    try:
        executable = find_executable(label, wanted or can.executable, env["PATH"])
    except ExecutionError as error:
        return str(error)
    # Its own folder first, as in a run: a script from ~/.nvm/…/v22 must not meet the system's old `node`.
    own_first = {**env, "PATH": f"{Path(executable).parent}{os.pathsep}{env['PATH']}"}
    version, text = await probe_version(executable, prefix, can.version_args, env=own_first, cwd=tempfile.gettempdir())
    if can.minimum_version and version and version < (parse_version(can.minimum_version) or (0, 0, 0)):
        return f"version {'.'.join(map(str, version))} is below the minimum {can.minimum_version}; update {label}"
    return Found(provider, executable, text, can, await asyncio.to_thread(file_identity, executable), prefix)


def _existing(folders: list[str]) -> tuple[str, ...]:
    """A relative folder would make what is found depend on the task's own workdir."""
    return tuple(dict.fromkeys(f for f in folders if Path(f).is_absolute() and Path(f).is_dir()))


def _wanted(settings: Settings) -> list[str]:
    known = registry.providers()
    if unknown := [name for name in settings.providers if name not in known]:
        raise SettingError(f"unknown provider {unknown[0]!r}", hint=f"Known: {', '.join(known)}.")
    return list(dict.fromkeys(settings.providers or known))


def _by_version(folder: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", folder.rpartition("node/")[2])]


def _split(path: str) -> list[str]:
    return [folder for folder in path.strip().split(os.pathsep) if folder]


def _shell_of_user() -> str:
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_shell
    except (ImportError, KeyError):
        return shutil.which("sh") or ""
