"""Which runtime profiles this machine runs: the file that says so, and what is made of it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from callboard_daemon import profiles
from callboard_daemon.discover import Found
from callboard_daemon.errors import SettingError
from callboard_daemon.paths import Paths, paths_for
from callboard_daemon.providers import Providers
from callboard_daemon.settings import load_settings
from callboard_wire.runtimes import ProfileView
from tests.fakes.cli import fake_cli


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return paths_for("", {"CALLBOARD_HOME": str(tmp_path)})


def profile(**fields: Any) -> ProfileView:
    values = {
        "id": "p-1",
        "workspace_id": "ws-1",
        "display_name": "Team Claude",
        "protocol_family": "claude",
        "command_name": "team-claude",
        "created_at": datetime.now(UTC),
        "trusted": True,
    }
    return ProfileView(**(values | fields))


async def found(paths: Paths, tmp_path: Path, wanted: ProfileView) -> Found | str:
    environ = {"HOME": str(tmp_path), "PATH": f"{tmp_path}:/usr/bin:/bin", "CALLBOARD_LOGIN_SHELL": "false"}
    providers = Providers(load_settings(paths, environ | {"CALLBOARD_PROVIDERS": "echo"}), environ, paths)
    providers.profiles = [wanted]
    await providers.look()
    return providers.custom[wanted.id]


async def test_the_owners_profile_is_found_on_path_with_its_arguments(paths: Paths, tmp_path: Path) -> None:
    cli = fake_cli(tmp_path, "", "team-claude")
    here = await found(paths, tmp_path, profile(fixed_args=["start"]))
    assert isinstance(here, Found)
    assert (here.provider, here.executable, here.launch_prefix) == ("claude", str(cli), ("start",))
    assert here.version == "2.1.332 (fake)"


async def test_a_path_of_this_machine_comes_first_and_a_miss_there_stays_a_miss(paths: Paths, tmp_path: Path) -> None:
    fake_cli(tmp_path, "", "team-claude")
    (tmp_path / "own").mkdir()
    own = fake_cli(tmp_path / "own", "", "mine")
    profiles.accept(paths, profile(), str(own))
    here = await found(paths, tmp_path, profile())
    assert isinstance(here, Found)
    assert here.executable == str(own)
    own.unlink()
    why = str(await found(paths, tmp_path, profile()))
    assert why.startswith("executable not found: the path that was set on this machine")
    assert str(tmp_path) not in why, "it goes to the server"
    assert profiles.withdraw(paths, "p-1")
    assert isinstance(await found(paths, tmp_path, profile()), Found)
    assert not profiles.withdraw(paths, "p-1")


@pytest.mark.parametrize(
    "changed", [{"command_name": "other"}, {"fixed_args": ["-x"]}, {"protocol_family": "codex"}], ids=str
)
async def test_anothers_profile_runs_as_it_was_accepted_and_not_as_it_became(
    paths: Paths, tmp_path: Path, changed: dict[str, Any]
) -> None:
    fake_cli(tmp_path, "", "team-claude")
    theirs = profile(trusted=False)
    assert "another member wrote it" in str(await found(paths, tmp_path, theirs))
    profiles.accept(paths, theirs, "")
    assert isinstance(await found(paths, tmp_path, theirs), Found)
    renamed = theirs.model_copy(update={"display_name": "Other", "description": "d"})
    assert isinstance(await found(paths, tmp_path, renamed), Found), "what it is called is not what it runs"
    became = await found(paths, tmp_path, theirs.model_copy(update=changed))
    assert "changed what it runs" in str(became)


async def test_a_family_without_an_adapter_here_is_said_and_breaks_nothing(paths: Paths, tmp_path: Path) -> None:
    assert "its adapter cannot be loaded" in str(await found(paths, tmp_path, profile(protocol_family="newer")))


@pytest.mark.parametrize("text", ["[", "p-1 = 1\n", "\udcff"])
async def test_a_broken_file_runs_no_profile_and_says_which_file(paths: Paths, tmp_path: Path, text: str) -> None:
    fake_cli(tmp_path, "", "team-claude")
    paths.config_dir.mkdir(parents=True)
    paths.profiles_file.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert str(paths.profiles_file) in str(await found(paths, tmp_path, profile()))
    with pytest.raises(SettingError):
        profiles.accept(paths, profile(), "")
    assert paths.profiles_file.read_bytes() == text.encode("utf-8", "surrogateescape")


def test_the_file_is_its_users_own_and_keeps_the_other_entries(paths: Paths) -> None:
    profiles.accept(paths, profile(), "/opt/ü n/x")
    profiles.accept(paths, profile(id="p-2"), "")
    assert profiles.read_accepted(paths)["p-1"].path == "/opt/ü n/x"
    assert profiles.read_accepted(paths)["p-2"].path == ""
    assert paths.profiles_file.stat().st_mode & 0o777 == 0o600
