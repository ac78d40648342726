from __future__ import annotations

import inspect
import json
import stat
import uuid
from pathlib import Path

import httpx
import pytest

from callboard_daemon import answers, errors
from callboard_daemon.credentials import Credentials, read_credentials, write_credentials
from callboard_daemon.errors import AlreadyRunning, BadAnswer, StateError
from callboard_daemon.paths import Paths, paths_for
from callboard_daemon.runs import leftover_runs
from callboard_daemon.state import (
    DaemonToken,
    daemon_id,
    hold_profile,
    is_running,
    read_daemon_token,
    write_daemon_token,
)
from callboard_wire.bodies import TaskState


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return paths_for("", {"CALLBOARD_HOME": str(tmp_path)})


def test_the_daemons_id_survives_and_a_damaged_one_is_replaced(paths: Paths) -> None:
    first = daemon_id(paths)
    assert str(uuid.UUID(first)) == first
    assert daemon_id(paths) == first
    paths.daemon_id_file.write_text("torn")
    assert daemon_id(paths) != first
    assert stat.S_IMODE(paths.daemon_id_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(paths.state_dir.stat().st_mode) == 0o700


def test_a_profile_is_held_by_one_and_looking_does_not_take_it(paths: Paths) -> None:
    assert not is_running(paths)
    with hold_profile(paths):
        assert is_running(paths)
        with pytest.raises(AlreadyRunning):
            hold_profile(paths, patience=0).__enter__()
    assert not is_running(paths)
    with hold_profile(paths):
        pass


def test_a_daemon_token_is_only_for_its_server_and_its_daemon(paths: Paths) -> None:
    paths.state_dir.mkdir(parents=True)
    write_daemon_token(paths, DaemonToken("http://a", "d", "mdt_x"))
    assert read_daemon_token(paths, "http://a", "d") == "mdt_x"
    assert read_daemon_token(paths, "http://b", "d") is None
    assert read_daemon_token(paths, "http://a", "e") is None
    assert "mdt_x" not in repr(DaemonToken("http://a", "d", "mdt_x"))


def test_credentials_are_private_and_damage_is_an_error_not_a_logout(paths: Paths) -> None:
    assert read_credentials(paths) is None
    write_credentials(paths, Credentials(server_url="http://a", token="mul_x"))
    assert stat.S_IMODE(paths.credentials_file.stat().st_mode) == 0o600
    assert read_credentials(paths) == Credentials(server_url="http://a", token="mul_x")
    assert "mul_x" not in repr(read_credentials(paths))
    paths.credentials_file.write_text("{")
    with pytest.raises(StateError, match="credentials"):
        read_credentials(paths)


def test_a_run_folder_without_a_record_owes_nothing_and_goes(paths: Paths) -> None:
    (paths.runs_dir / "x.1").mkdir(parents=True)
    assert list(leftover_runs(paths.runs_dir)) == []
    assert list(paths.runs_dir.iterdir()) == []


# ── errors ───────────────────────────────────────────────────────────────────


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    classes = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, errors.CallboardError)]
    drawn = [line.strip("│├└─ ").split()[0] for line in (errors.__doc__ or "").splitlines() if line.startswith("    ")]
    assert sorted(c.__name__ for c in classes) == sorted(drawn)


def response(status: int, body: object = None, **headers: str) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
    request = httpx.Request("POST", "http://server/api/x")
    return httpx.Response(status, content=content, headers=headers, request=request)


@pytest.mark.parametrize(
    ("status", "code", "kind", "exit_code"),
    [
        (400, "invalid_json", errors.Invalid, 5),
        (401, "unauthenticated", errors.NotAuthorised, 3),
        (403, "forbidden", errors.NotAuthorised, 3),
        (404, "task_not_found", errors.NotFound, 4),
        (409, "stale_claim", errors.StaleClaim, 1),
        (409, "wrong_state", errors.Conflict, 1),
        (413, "too_large", errors.Invalid, 5),
        (422, "validation_failed", errors.Invalid, 5),
        (429, "slow_down", errors.ServerTrouble, 2),
        (500, "internal", errors.ServerTrouble, 2),
        (503, "unavailable", errors.ServerTrouble, 2),
    ],
)
def test_every_status_becomes_one_error_with_the_servers_words(
    status: int, code: str, kind: type[Exception], exit_code: int
) -> None:
    error = answers.error_from_response(response(status, {"error": code, "message": "what happened"}))
    assert type(error) is kind
    assert error.message == "what happened"
    assert error.exit_code == exit_code
    assert getattr(error, "code", code) == code


def test_a_proxys_page_a_redirect_and_a_body_of_another_kind_are_errors_too() -> None:
    assert answers.error_from_response(response(502, b"<html>")).transient
    assert type(answers.error_from_response(response(404, b"<html>"))) is errors.NotFound
    assert "elsewhere" in answers.error_from_response(response(302, b"", location="https://elsewhere")).message
    with pytest.raises(BadAnswer, match="status"):
        answers.body_of(response(200, {"state": 1}), TaskState)


@pytest.mark.parametrize(("header", "seconds"), [("7", 7), ("999999", 3600), ("soon", None), ("", None)])
def test_retry_after_is_read_and_bounded(header: str, seconds: float | None) -> None:
    error = answers.error_from_response(response(503, {}, **{"retry-after": header}))
    assert isinstance(error, errors.ServerTrouble)
    assert error.retry_after_s == seconds


def test_everything_httpx_raises_is_mapped() -> None:
    request = httpx.Request("GET", "http://server/")
    kinds = [c for _, c in inspect.getmembers(httpx, inspect.isclass) if issubclass(c, httpx.TransportError)]
    assert len(kinds) > 10
    for kind in kinds:
        error = answers.error_from_exception(kind("broken", request=request), "http://server")
        assert isinstance(error, errors.Unreachable)
        assert "http://server" in error.message


def test_a_loopback_server_is_never_asked_through_a_proxy() -> None:
    assert answers.client_options("http://127.0.0.1:1", 5)["trust_env"] is False
    assert answers.client_options("https://callboard.example.com", 5)["trust_env"] is True
