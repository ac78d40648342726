"""Install the real CLIs into a cache folder, once: `python -m tests.system.real_cli.install claude pi …`.

The cache is `$CALLBOARD_CLI_CACHE`, else the platform's cache folder (`~/.cache/callboard/clis` on Linux). One folder a
provider and version; a marker written last says that the folder is whole, so an install that was cut off is done anew.
A lock a folder lets several test processes ask at once.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from filelock import FileLock

from tests.system.real_cli.recipes import NODE_VERSION, RECIPES, SERVERS, NpmRecipe, Recipe

MARKER = "callboard-installed.json"
INSTALL_TIMEOUT = 900.0  # seconds; openclaw is 650 MB
VERSION_TIMEOUT = 30.0


class InstallError(RuntimeError):
    """A CLI could not be installed: the message carries the command and the end of what it printed."""


@dataclass(frozen=True)
class InstalledCli:
    """Where a CLI is, and which folders must lead its PATH (its `#!/usr/bin/env node` finds Node.js there)."""

    provider: str
    version: str
    executable: Path
    path_dirs: tuple[Path, ...]

    def path(self) -> str:
        """A PATH with this CLI's Node.js first and the system's folders after it."""
        return os.pathsep.join([*(str(one) for one in self.path_dirs), "/usr/local/bin", "/usr/bin", "/bin"])


def cache_dir() -> Path:
    """The folder the CLIs are kept in."""
    configured = os.environ.get("CALLBOARD_CLI_CACHE")
    return Path(configured) if configured else Path(platformdirs.user_cache_dir("callboard", appauthor=False)) / "clis"


def ensure(provider: str) -> InstalledCli:
    """Install the provider's CLI unless it is there already, and say where it is.

    Raises InstallError when npm, uv or the package's own script fails, KeyError for a provider without a recipe.
    """
    recipe = {**RECIPES, **SERVERS}[provider]
    folder = cache_dir() / provider / recipe.version
    with _locked(folder):
        if not (folder / MARKER).is_file():
            _install(recipe, folder)
    path_dirs = _node_dirs(recipe.node) if isinstance(recipe, NpmRecipe) else ()
    return InstalledCli(provider, recipe.version, _executable(recipe, folder), path_dirs)


def _install(recipe: Recipe, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)  # what an earlier, cut off install left
    folder.mkdir(parents=True)
    if isinstance(recipe, NpmRecipe):
        _install_from_npm(recipe, folder)
    else:
        _uv("venv", "--python", sys.executable, str(folder / "venv"))
        _uv("pip", "install", "--python", str(folder / "venv/bin/python"), recipe.requirement)
    if not os.access(_executable(recipe, folder), os.X_OK):
        raise InstallError(f"{recipe.requirement} was installed but {_executable(recipe, folder)} is not executable")
    (folder / MARKER).write_text(json.dumps({"requirement": recipe.requirement}))


def _install_from_npm(recipe: NpmRecipe, folder: Path) -> None:
    _npm_install(recipe.requirement, folder)
    modules = folder / "node_modules"
    for pattern in recipe.make_executable:
        for found in modules.glob(pattern):
            found.chmod(found.stat().st_mode | 0o111)
    env = {**os.environ, "PATH": os.pathsep.join([*map(str, _node_dirs(recipe.node)), os.environ["PATH"]])}
    for script in recipe.scripts:
        _run(["node", str(modules / script)], cwd=(modules / script).parent, env=env)


def _npm_install(requirement: str, folder: Path) -> None:
    flags = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-save", "--loglevel=error"]
    _run(["npm", "install", "--prefix", str(folder), *flags, requirement], cwd=folder)


def _uv(*arguments: str) -> None:
    _run([sys.executable, "-m", "uv", "--quiet", *arguments])


def _executable(recipe: Recipe, folder: Path) -> Path:
    if isinstance(recipe, NpmRecipe):
        return folder / "node_modules" / recipe.executable
    # The environment was made by whichever Python installed it: its folder is found, not computed from this one.
    site = next((folder / "venv").glob("lib/python*/site-packages"), folder / "venv")
    return folder / "venv" / recipe.executable.format(site=site)


def _node_dirs(minimum: tuple[int, int]) -> tuple[Path, ...]:
    """The folder of a Node.js that is new enough: the machine's own, else the pinned one from npm.

    npm's `node` package only fetches `node-<platform>-<arch>` in an install script: that one is asked for directly.
    """
    machine = shutil.which("node")
    if machine is not None and _node_version(machine) >= minimum:
        return (Path(machine).parent,)
    system = "win" if sys.platform == "win32" else sys.platform
    package = f"node-{system}-{'arm64' if os.uname().machine in ('aarch64', 'arm64') else 'x64'}"
    folder = cache_dir() / "node" / NODE_VERSION
    with _locked(folder):
        if not (folder / MARKER).is_file():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            _npm_install(f"{package}@{NODE_VERSION}", folder)
            (folder / MARKER).write_text(json.dumps({"requirement": package}))
    return (folder / "node_modules" / package / "bin",)


def _node_version(node: str) -> tuple[int, int]:
    said = _run([node, "--version"], timeout=VERSION_TIMEOUT)
    found = re.match(r"v(\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _locked(folder: Path) -> FileLock:
    folder.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(f"{folder}.lock", timeout=2 * INSTALL_TIMEOUT)


def _run(
    argv: list[str],
    *,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    timeout: float = INSTALL_TIMEOUT,
) -> str:
    try:
        done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, timeout=timeout, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InstallError(f"{' '.join(argv)}: {error}") from error
    if done.returncode != 0:
        tail = (done.stdout + done.stderr)[-2000:]
        raise InstallError(f"{' '.join(argv)} ended with {done.returncode}:\n{tail}")
    return done.stdout


def main(argv: list[str]) -> int:
    """Install the named providers (all without a name) and print where each executable is."""
    unknown = sorted(set(argv) - set(RECIPES))
    if unknown:
        print(f"unknown: {', '.join(unknown)}; known: {', '.join(RECIPES)}", file=sys.stderr)
        return 2
    for provider in argv or RECIPES:
        installed = ensure(provider)
        print(f"{provider} {installed.version} {installed.executable}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
