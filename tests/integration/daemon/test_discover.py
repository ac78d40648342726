"""Finding CLIs where service managers do not look, with real files and real processes."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from callboard_daemon.discover import discover, login_shell_path, search_path, usual_folders
from callboard_daemon.errors import SettingError
from callboard_daemon.paths import paths_for
from callboard_daemon.providers import Providers
from callboard_daemon.settings import Settings, load_settings

BARE = "/usr/bin:/bin"


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def settings(home: Path, **values: str) -> Settings:
    environ = {f"CALLBOARD_{name.upper()}": value for name, value in values.items()}
    return load_settings(paths_for("", {"CALLBOARD_HOME": str(home)}), {"CALLBOARD_LOGIN_SHELL": "false", **environ})


async def test_a_cli_under_a_version_manager_is_found_and_runs_with_a_service_managers_path(tmp_path: Path) -> None:
    folder = tmp_path / ".nvm" / "versions" / "node" / "v22.4.0" / "bin"
    program(folder / "node", '#!/bin/sh\necho "2.1.7 (Claude Code)"\n')
    program(folder / "claude", "#!/usr/bin/env node\n")
    inventory = await discover(settings(tmp_path, providers="claude"), {"HOME": str(tmp_path), "PATH": BARE})
    assert inventory.found["claude"].executable == str(folder / "claude")
    assert inventory.found["claude"].version == "2.1.7 (Claude Code)"
    assert str(folder) in inventory.path


async def test_the_newest_of_several_node_versions_comes_first(tmp_path: Path) -> None:
    for version in ("v9.11.0", "v22.4.0", "v22.10.1"):
        (tmp_path / ".nvm/versions/node" / version / "bin").mkdir(parents=True)
    found = [Path(f).parent.name for f in usual_folders(tmp_path) if "/.nvm/" in f]
    assert found == ["v22.10.1", "v22.4.0", "v9.11.0"]


async def test_path_comes_before_everything_else(tmp_path: Path) -> None:
    mine = program(tmp_path / "mine" / "claude", "#!/bin/sh\necho 2.5.0\n")
    program(tmp_path / ".local" / "bin" / "claude", "#!/bin/sh\necho 2.1.0\n")
    environ = {"HOME": str(tmp_path), "PATH": f"{mine.parent}:{BARE}"}
    inventory = await discover(settings(tmp_path, providers="claude"), environ)
    assert inventory.found["claude"].executable == str(mine)


async def test_a_given_path_that_is_missing_is_never_replaced_by_another_binary(tmp_path: Path) -> None:
    program(tmp_path / ".local" / "bin" / "claude", "#!/bin/sh\necho 2.1.0\n")
    wanted = settings(tmp_path, providers="claude", claude_path=str(tmp_path / "gone"))
    inventory = await discover(wanted, {"HOME": str(tmp_path), "PATH": BARE})
    assert not inventory.found
    assert str(tmp_path / "gone") in inventory.skipped["claude"]


async def test_a_cli_that_is_too_old_or_not_executable_is_named_with_the_reason(tmp_path: Path) -> None:
    old = program(tmp_path / "old", "#!/bin/sh\necho 1.0.3\n")
    inventory = await discover(settings(tmp_path, providers="claude", claude_path=str(old)), {"PATH": BARE})
    assert "below the minimum" in inventory.skipped["claude"]
    old.chmod(stat.S_IRUSR)
    if os.geteuid() != 0 or not os.access(old, os.X_OK):
        inventory = await discover(settings(tmp_path, providers="claude", claude_path=str(old)), {"PATH": BARE})
        assert "not executable" in inventory.skipped["claude"]


async def test_an_unknown_provider_lists_the_known(tmp_path: Path) -> None:
    with pytest.raises(SettingError) as caught:
        await discover(settings(tmp_path, providers="clade"), {"PATH": BARE})
    assert "claude" in caught.value.hint


async def test_the_login_shells_path_is_read_through_the_noise_of_its_start_up_files(tmp_path: Path) -> None:
    extra = tmp_path / "extra"
    extra.mkdir()
    profile = f"echo welcome\nsleep 300 &\nalias printenv=false\nexport PATH={extra}:$PATH\necho callboard-path:fake\n"
    for name in (".bash_profile", ".profile"):
        (tmp_path / name).write_text(profile)
    environ = {"HOME": str(tmp_path), "PATH": BARE, "SHELL": "/bin/bash"}
    assert (await login_shell_path(environ))[0] == str(extra)
    assert str(extra) in await search_path(environ, ask_shell=True)


@pytest.mark.parametrize("shell", ["/bin/false", "/nonexistent/bash", "/usr/bin/python3"])
async def test_a_shell_that_does_not_answer_costs_nothing(tmp_path: Path, shell: str) -> None:
    assert await login_shell_path({"HOME": str(tmp_path), "PATH": BARE, "SHELL": shell}) == []


async def test_relative_folders_of_path_are_not_searched(tmp_path: Path) -> None:
    found = await search_path({"HOME": str(tmp_path), "PATH": f"bin:.:{BARE}"}, ask_shell=False)
    assert all(Path(folder).is_absolute() for folder in found)


async def test_echo_is_offered_when_asked_for_or_when_there_is_nothing_else(tmp_path: Path) -> None:
    claude = program(tmp_path / "claude", "#!/bin/sh\necho 2.1.0\n")
    environ = {"HOME": str(tmp_path), "PATH": BARE}
    paths = paths_for("", {"CALLBOARD_HOME": str(tmp_path)})
    alone = Providers(settings(tmp_path, providers="echo"), environ, paths)
    assert await alone.look()
    assert set(alone.inventory.found) == {"echo"}
    assert not await alone.look()
    both = Providers(settings(tmp_path, providers="echo,claude", claude_path=str(claude)), environ, paths)
    await both.look()
    assert set(both.inventory.found) == {"echo", "claude"}
    all_of_them = Providers(settings(tmp_path, claude_path=str(claude)), environ, paths)
    await all_of_them.look()
    assert "claude" in all_of_them.inventory.found
    assert "CALLBOARD_PROVIDERS" in all_of_them.inventory.skipped["echo"]
