"""Is this provider ready on this machine? Each finding is a code for programs, a sentence for people, and a repair."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from callboard_adapters.capabilities import Capabilities
from callboard_adapters.errors import ExecutableNotFound, ExecutionError
from callboard_adapters.process.executable import find_executable
from callboard_adapters.process.probe import parse_version, probe_version


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"  # runs may work all the same
    ERROR = "error"  # no run can work


class FindingCode(StrEnum):
    EXECUTABLE_FOUND = "executable_found"
    EXECUTABLE_MISSING = "executable_missing"
    EXECUTABLE_NOT_RUNNABLE = "executable_not_runnable"
    VERSION_OK = "version_ok"
    VERSION_TOO_OLD = "version_too_old"
    VERSION_UNREADABLE = "version_unreadable"
    LOGIN_PRESENT = "login_present"
    LOGIN_NOT_SEEN = "login_not_seen"
    CONFIG_READABLE = "config_readable"
    CONFIG_UNREADABLE = "config_unreadable"
    CONFIG_INVALID = "config_invalid"


@dataclass(frozen=True, slots=True)
class Finding:
    code: FindingCode
    level: Level
    sentence: str
    repair: str = ""


async def examine(
    capabilities: Capabilities, executable: str, env: Mapping[str, str], prefix: tuple[str, ...]
) -> list[Finding]:
    """Look at one provider: executable, version, login, configuration. Runs `--version` and nothing else."""
    name = capabilities.name
    try:
        path = find_executable(name, executable, env.get("PATH", os.defpath))
    except ExecutionError as error:
        missing = isinstance(error, ExecutableNotFound)
        code = FindingCode.EXECUTABLE_MISSING if missing else FindingCode.EXECUTABLE_NOT_RUNNABLE
        return [Finding(code, Level.ERROR, str(error), error.repair)]
    return [
        Finding(FindingCode.EXECUTABLE_FOUND, Level.OK, f"{name} is {path}"),
        await _version(capabilities, path, env, prefix),
        *_login(capabilities, env),
        *_config(capabilities, env),
    ]


async def _version(capabilities: Capabilities, path: str, env: Mapping[str, str], prefix: tuple[str, ...]) -> Finding:
    name, needed = capabilities.name, capabilities.minimum_version
    version, text = await probe_version(path, prefix, capabilities.version_args, env=env, cwd=str(Path(path).parent))
    if version is None:
        flags = " ".join(capabilities.version_args)
        return Finding(
            FindingCode.VERSION_UNREADABLE,
            Level.WARNING,
            f"{name} {flags} gave no version",
            f"run `{path} {flags}` by hand: a fresh install often lacks a step",
        )
    if needed and version < (parse_version(needed) or (0, 0, 0)):
        return Finding(
            FindingCode.VERSION_TOO_OLD,
            Level.ERROR,
            f"{name} {text} is below the minimum supported version {needed}",
            f"update {name} to {needed} or newer",
        )
    return Finding(FindingCode.VERSION_OK, Level.OK, f"{name} is version {text}")


def _login(capabilities: Capabilities, env: Mapping[str, str]) -> list[Finding]:
    if not (capabilities.login_env or capabilities.login_files):
        return []
    variable = next((v for v in capabilities.login_env if env.get(v)), None)
    file = next((f for f in capabilities.login_files if _expand(f, env).exists()), None)
    if variable or file:
        # Whether the provider accepts it only a run can tell.
        where = f"{variable} is set" if variable else f"{file} is there"
        return [Finding(FindingCode.LOGIN_PRESENT, Level.OK, f"credentials for {capabilities.name}: {where}")]
    sentence = f"no credentials for {capabilities.name} were seen (it may keep them in the system's keychain)"
    return [Finding(FindingCode.LOGIN_NOT_SEEN, Level.WARNING, sentence, capabilities.login_hint)]


def _config(capabilities: Capabilities, env: Mapping[str, str]) -> list[Finding]:
    findings = []
    for name in capabilities.config_files:
        place = _expand(name, env)
        if not place.exists():
            continue
        if not os.access(place, os.R_OK):
            repair = f"chmod u+r {place}"
            findings.append(Finding(FindingCode.CONFIG_UNREADABLE, Level.ERROR, f"{name} cannot be read", repair))
        elif (wrong := _mistake(place)) is not None:
            sentence = f"{name} is no valid TOML: {wrong}"
            findings.append(Finding(FindingCode.CONFIG_INVALID, Level.ERROR, sentence, f"edit {place}"))
        else:
            findings.append(Finding(FindingCode.CONFIG_READABLE, Level.OK, f"{name} can be read"))
    return findings


def _mistake(place: Path) -> str | None:
    """What is wrong in a TOML file. JSON files are left alone: their CLIs take comments and more, each its own."""
    if place.suffix != ".toml":
        return None
    try:
        tomllib.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return str(error)
    return None


def _expand(name: str, env: Mapping[str, str]) -> Path:
    home = env.get("HOME") or str(Path.home())
    return Path(home, name.removeprefix("~/")) if name.startswith("~/") else Path(name)
