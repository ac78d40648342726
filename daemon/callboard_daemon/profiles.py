"""Runtime profiles on this machine: which of the workspace's it runs, and where their commands are.

A profile is somebody's word for what is run here, on this machine and with this user's logins. This machine's owner's
own word counts at once; anybody else's, and every change of it, when it was accepted here:

    [0192…]                             # the profile's id, in runtime-profiles.toml
    accepted = "5f0c…"                  # of the family, command and arguments that were looked at
    path = "/opt/team/bin/team-claude"  # where the command is; without it, PATH is searched

The file never leaves the machine: where a program lies is nobody else's business.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tomli_w

from callboard_daemon.discover import Found, examine
from callboard_daemon.errors import SettingError
from callboard_daemon.files import private_dir, write_atomic
from callboard_daemon.paths import Paths
from callboard_wire.runtimes import ProfileView


@dataclass(frozen=True, slots=True)
class Accepted:
    """One profile's entry. `path` is absolute, or "" for what PATH has."""

    fingerprint: str
    path: str = ""


def fingerprint(profile: ProfileView) -> str:
    """Of what is run: another command, argument or protocol is another one."""
    run = [profile.protocol_family, profile.command_name, profile.fixed_args]
    return hashlib.sha256(json.dumps(run).encode()).hexdigest()[:32]


def read_accepted(paths: Paths) -> dict[str, Accepted]:
    """Entries by profile id. Raises `SettingError` for a file that cannot be read."""
    return {
        profile_id: Accepted(str(entry.get("accepted", "")), str(entry.get("path", "")))
        for profile_id, entry in _read(paths).items()
    }


def accept(paths: Paths, profile: ProfileView, path: str) -> None:
    """Run the profile, as it is now, on this machine; the command is at `path` ("": on PATH). Raises `SettingError`."""
    entry = {"accepted": fingerprint(profile)} | ({"path": path} if path else {})
    _write(paths, {**_read(paths), profile.id: entry})


def withdraw(paths: Paths, profile_id: str) -> bool:
    """Take the entry away; whether there was one. Raises `SettingError`."""
    entries = _read(paths)
    if entries.pop(profile_id, None) is None:
        return False
    _write(paths, entries)
    return True


async def find(profile: ProfileView, entry: Accepted | None, env: Mapping[str, str]) -> Found | str:
    """The profile's command as something to offer, or why this machine does not. Nothing of a profile that was not
    accepted is run, its version neither."""
    if not profile.trusted:
        how = f"look at it, then `callboard runtime profile path {profile.id}` on this machine accepts it"
        if entry is None:
            return f"another member wrote it; {how}"
        if entry.fingerprint != fingerprint(profile):
            return f"another member changed what it runs since it was accepted here; {how}"
    own_path = entry.path if entry is not None else ""
    wanted = own_path or profile.command_name
    here = await examine(profile.display_name, profile.protocol_family, wanted, tuple(profile.fixed_args), env)
    if own_path and isinstance(here, str):
        return here.replace(own_path, "the path that was set on this machine")  # the reason goes to the server
    return here


def _read(paths: Paths) -> dict[str, dict[str, Any]]:
    try:
        entries = tomllib.loads(paths.profiles_file.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise SettingError(f"cannot read {paths.profiles_file}: {error}") from error
    if bad := [name for name, entry in entries.items() if not isinstance(entry, dict)]:
        raise SettingError(f"`{bad[0]}` in {paths.profiles_file} must be a table")
    return entries


def _write(paths: Paths, entries: Mapping[str, Any]) -> None:
    try:
        private_dir(paths.config_dir)
        write_atomic(paths.profiles_file, tomli_w.dumps(entries).encode(), durable=True)
    except OSError as error:
        raise SettingError(f"cannot write {paths.profiles_file}: {error.strerror or error}") from error
