"""Where a profile keeps its things on this machine.

A profile is one login and one daemon. `CALLBOARD_HOME` puts everything under one folder (containers, services, tests);
without it each kind of file lives where the platform wants it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from callboard_daemon.errors import SettingError

_PROFILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class Paths:
    """Every file of one profile; nothing is made by asking for it."""

    profile: str
    config_dir: Path
    state_dir: Path
    log_dir: Path
    workspaces_root: Path

    @property
    def config_files(self) -> tuple[Path, Path]:
        return self.config_dir / "config.toml", self.config_dir / "config.json"

    @property
    def profiles_file(self) -> Path:
        """Which runtime profiles this machine runs, and where their commands are: written by the command line."""
        return self.config_dir / "runtime-profiles.toml"

    @property
    def credentials_file(self) -> Path:
        return self.config_dir / "credentials.json"

    @property
    def daemon_id_file(self) -> Path:
        return self.state_dir / "daemon.id"

    @property
    def lock_file(self) -> Path:
        return self.state_dir / "daemon.lock"

    @property
    def record_file(self) -> Path:
        """What the running daemon says about itself: pid, port, secret."""
        return self.state_dir / "daemon.json"

    @property
    def daemon_token_file(self) -> Path:
        return self.state_dir / "daemon-token.json"

    @property
    def runs_dir(self) -> Path:
        """One folder a run whose end the server has not confirmed yet."""
        return self.state_dir / "runs"

    @property
    def skills_dir(self) -> Path:
        """What agents' skills hold, by hash: a cache, and safe to delete."""
        return self.state_dir / "skills"

    @property
    def bin_dir(self) -> Path:
        return self.state_dir / "bin"

    @property
    def log_file(self) -> Path:
        return self.log_dir / "daemon.log"

    @property
    def stderr_file(self) -> Path:
        return self.log_dir / "daemon.err.log"


def paths_for(profile: str, environ: Mapping[str, str]) -> Paths:
    """The paths of `profile` ("" is the default one). Raises `SettingError` for a name that is no file name."""
    if profile and not _PROFILE.fullmatch(profile):
        raise SettingError(
            f"{profile!r} is not a profile name", hint="Use letters, digits, dot, dash and underscore, at most 64."
        )
    home = environ.get("CALLBOARD_HOME", "")
    sub = Path("profiles", profile) if profile else Path()
    if home:
        root = Path(home).expanduser()
        if not root.is_absolute():
            raise SettingError(f"CALLBOARD_HOME must be an absolute path, not {home!r}")
        root = root / sub
        return Paths(profile, root / "config", root / "state", root / "log", root / "workspaces")
    import platformdirs  # only here: half of the commands run inside tasks and never ask

    dirs = platformdirs.PlatformDirs("callboard", appauthor=False)
    suffix = f"_{profile}" if profile else ""
    return Paths(
        profile,
        dirs.user_config_path / sub,
        dirs.user_state_path / sub,
        dirs.user_log_path / sub,
        Path.home() / f"callboard_workspaces{suffix}",
    )
