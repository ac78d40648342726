from __future__ import annotations

import json
from pathlib import Path

import pytest

from callboard_daemon.durations import format_duration, parse_duration
from callboard_daemon.errors import SettingError
from callboard_daemon.paths import Paths, paths_for
from callboard_daemon.settings import SETTINGS, load_settings, server_url


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = paths_for("", {"CALLBOARD_HOME": str(tmp_path)})
    paths.config_dir.mkdir(parents=True)
    return paths


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("1.5h", 5400), ("2d", 172800), ("1d12h", 129600), ("500ms", 0.5), (" 5M ", 300), ("0", 0)],
)
def test_durations_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5x", "-5s", "5 m", "h", "1h-2m", "five"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


@pytest.mark.parametrize("seconds", [0, 0.5, 1, 90, 3600, 7200, 86400, 129600])
def test_a_formatted_duration_reads_back(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


def test_flag_beats_environment_beats_file_beats_default(paths: Paths) -> None:
    paths.config_files[0].write_text(
        'max_concurrent_tasks = 3\ndrain_timeout = "2m"\ncancel_poll = 4\nlogin_shell = false\n'
    )
    environ = {"CALLBOARD_MAX_CONCURRENT_TASKS": "5", "CALLBOARD_DRAIN_TIMEOUT": "1h"}
    settings = load_settings(paths, environ, {"max_concurrent_tasks": "7"})
    assert settings.max_concurrent_tasks == 7
    assert settings.drain_timeout == 3600
    assert settings.cancel_poll == 4
    assert settings.login_shell is False
    assert settings.http_timeout == 30


def test_every_default_can_be_read(paths: Paths) -> None:
    settings = load_settings(paths, {})
    assert all(hasattr(settings, each.name) for each in SETTINGS)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("CALLBOARD_DRAIN_TIMEOUT", "soon"),
        ("CALLBOARD_MAX_CONCURRENT_TASKS", "0"),
        ("CALLBOARD_MAX_CONCURRENT_TASKS", "many"),
        ("CALLBOARD_SERVER_URL", "ftp://x"),
        ("CALLBOARD_SERVER_URL", "https://user:secret@x"),
        ("CALLBOARD_SPOOL_LIMIT", "64XB"),
        ("CALLBOARD_LOGIN_SHELL", "maybe"),
        ("CALLBOARD_WORKSPACES_ROOT", "relative/path"),
        ("CALLBOARD_CLAUDE_ARGS", '--say "unclosed'),
    ],
)
def test_a_value_that_cannot_be_read_names_its_variable(paths: Paths, variable: str, value: str) -> None:
    with pytest.raises(SettingError, match=variable) as caught:
        load_settings(paths, {variable: value})
    assert "secret" not in str(caught.value)


def test_an_unknown_key_in_the_file_is_refused_and_the_known_are_listed(paths: Paths) -> None:
    paths.config_files[0].write_text("max_concurent_tasks = 3\n")
    with pytest.raises(SettingError, match="max_concurent_tasks") as caught:
        load_settings(paths, {})
    assert "max_concurrent_tasks" in caught.value.hint


def test_a_broken_file_is_an_error_and_never_a_default(paths: Paths) -> None:
    paths.config_files[1].write_text("{broken")
    with pytest.raises(SettingError, match=r"config\.json"):
        load_settings(paths, {})


def test_providers_come_from_tables_and_variables(paths: Paths) -> None:
    table = {"claude": {"path": "/a", "args": ["--x", "y z"]}, "codex": {"model": "m"}}
    paths.config_files[1].write_text(json.dumps({"provider": table, "env": {"HTTPS_PROXY": "http://p"}}))
    settings = load_settings(
        paths, {"CALLBOARD_CLAUDE_PATH": "/b", "CALLBOARD_QWEN_MODEL": "q", "CALLBOARD_TOKEN": "t"}
    )
    assert settings.of_provider("claude").path == "/b"
    assert settings.of_provider("claude").args == ("--x", "y z")
    assert settings.of_provider("codex").model == "m"
    assert settings.of_provider("qwen").model == "q"
    assert settings.of_provider("other").path == ""
    assert settings.env == {"HTTPS_PROXY": "http://p"}
    assert "mul_" not in repr(load_settings(paths, {"CALLBOARD_TOKEN": "mul_secret"}))


@pytest.mark.parametrize(
    ("given", "normal"),
    [
        ("wss://host/ws", "https://host"),
        ("ws://localhost:8080/ws/", "http://localhost:8080"),
        ("https://host/base/?q=1#f", "https://host/base"),
        ("", ""),
    ],
)
def test_server_addresses_are_normalised(given: str, normal: str) -> None:
    assert server_url(given) == normal


def test_profiles_do_not_share_anything(tmp_path: Path) -> None:
    one, two = (paths_for(name, {"CALLBOARD_HOME": str(tmp_path)}) for name in ("", "work"))
    for name in ("config_dir", "state_dir", "log_dir", "workspaces_root"):
        assert getattr(one, name) != getattr(two, name)
    with pytest.raises(SettingError):
        paths_for("../escape", {})


def test_a_token_in_the_environment_loses_what_was_pasted_with_it(paths: Paths) -> None:
    settings = load_settings(paths, {"CALLBOARD_TOKEN": "\ufeff mul_a\n_b\r\n"}, {})
    assert settings.token == "mul_a_b"
