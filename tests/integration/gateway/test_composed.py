"""The real control plane behind the gateway: the routes it serves, a first login, and what survives a restart."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import chdir
from importlib import import_module
from pathlib import Path

import httpx
import pytest

from callboard_control.embedded.announce import announcement
from callboard_control.embedded.compose import compose
from callboard_control.embedded.folder import GatewayError
from callboard_control.embedded.server import Running, running_gateway
from callboard_control.entrypoints import HTTP
from callboard_wire.api import MeView, TokenResponse
from callboard_wire.bodies import ErrorBody
from infra.openapi import OPEN


def log_in(url: str, secret: str) -> httpx.Response:
    return httpx.post(f"{url}/api/bootstrap", json={"secret": secret, "name": "Ann", "workspace": "home"}, timeout=20)


def test_first_login_lasts_over_a_restart_and_its_secret_opens_nothing_more(tmp_path: Path) -> None:
    with running_gateway(tmp_path / "data") as gateway:
        assert gateway.first_start
        assert gateway.bootstrap_secret_file
        secret = gateway.bootstrap_secret_file.read_text().strip()
        assert log_in(gateway.url, "wrong").status_code == 403
        token = TokenResponse.model_validate(log_in(gateway.url, secret).raise_for_status().json()).token
        assert gateway.bootstrap_secret_file is None, "gone once it has let somebody in"
        assert log_in(gateway.url, secret).status_code == 409
    with running_gateway(tmp_path / "data") as gateway:
        assert not gateway.first_start
        assert gateway.bootstrap_secret_file is None
        assert log_in(gateway.url, secret).status_code == 409
        answer = httpx.get(f"{gateway.url}/api/me", headers={"authorization": f"Bearer {token}"}, timeout=20)
        assert MeView.model_validate(answer.json()).name == "Ann"


def test_while_nobody_has_logged_in_there_is_always_a_way_to(tmp_path: Path) -> None:
    data = tmp_path / "my data"
    data.mkdir(mode=0o700)
    (data / "callboard.db").touch(mode=0o600)  # a first start that was cut short
    for _ in range(2):
        with chdir(tmp_path), running_gateway(Path("my data")) as gateway:
            assert gateway.bootstrap_secret_file
            said = announcement(gateway)
            secret_file = gateway.bootstrap_secret_file.absolute()
            assert f"--bootstrap '{secret_file}'\n" in said, "a command that can be pasted in any folder"
            secret = secret_file.read_text().strip()
            secret_file.unlink()
    with running_gateway(data) as gateway:
        assert gateway.bootstrap_secret_file
        assert log_in(gateway.url, secret).status_code == 403
        log_in(gateway.url, gateway.bootstrap_secret_file.read_text().strip()).raise_for_status()
    with running_gateway(data) as gateway:
        assert gateway.bootstrap_secret_file is None


def test_every_declared_route_reaches_its_function(tmp_path: Path) -> None:
    """Without a token each refuses by itself; none is unknown to the gateway, and none fails."""
    declared = {route for path in HTTP.values() for route in import_module(path).app.declared()}
    assert len(declared) > 20
    with running_gateway(tmp_path / "data") as gateway, httpx.Client(base_url=gateway.url, timeout=20) as client:
        for method, path in sorted(declared):
            answer = client.request(method, path.replace("{", "x-").replace("}", ""), json={})
            if path in OPEN:
                assert answer.status_code < 500
                continue
            assert answer.status_code in (400, 401, 422), f"{method} {path}: {answer.status_code} {answer.text}"
            assert ErrorBody.model_validate(answer.json()).error not in ("not_found", "route_not_found")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b'{"agent": ', 400, "invalid_json"),
        (b'{"agent": "\xff"}', 400, "invalid_json"),
        (b"[1, 2]", 422, "validation_failed"),
        (b'{"agent": 5, "prompt": {}}', 422, "validation_failed"),
    ],
)
def test_a_broken_body_is_refused_in_our_shape(tmp_path: Path, body: bytes, status: int, code: str) -> None:
    with running_gateway(tmp_path / "data") as gateway:
        answer = httpx.post(
            f"{gateway.url}/api/tasks", content=body, headers={"content-type": "application/json"}, timeout=20
        )
    assert (answer.status_code, ErrorBody.model_validate(answer.json()).error) == (status, code)


def test_no_account_of_the_machine_is_looked_at(tmp_path: Path) -> None:
    """A developer's AWS profile that cannot even be read, and an endpoint of theirs, change nothing."""
    program = (
        "import sys, httpx\n"
        "from pathlib import Path\n"
        "from callboard_control.embedded.server import Running, running_gateway\n"
        "with running_gateway(Path(sys.argv[1])) as gateway:\n"
        "    print(httpx.get(gateway.url + '/readyz', timeout=20).status_code)\n"
    )
    environment = os.environ | {
        "AWS_PROFILE": "not-there",
        "AWS_CONFIG_FILE": str(tmp_path),
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_SESSION_TOKEN": "stale",
    }
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "data")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.stdout == "200\n", done.stderr


@pytest.mark.parametrize("content", [None, b"", b"not a key", b"\xff\xfe", b"00"])
def test_a_key_file_that_is_none_is_told_in_one_sentence(tmp_path: Path, content: bytes | None) -> None:
    key = tmp_path / "data" / "secrets.key"
    key.parent.mkdir(mode=0o700)
    key.mkdir() if content is None else key.write_bytes(content)
    with pytest.raises(GatewayError, match=r"secrets\.key cannot be used .* restore it"):
        compose(tmp_path / "data")


def whoami(url: str, token: str) -> dict[str, object]:
    return dict(httpx.get(f"{url}/api/me", headers={"authorization": f"Bearer {token}"}, timeout=20).json())


def test_a_new_secret_lets_the_first_person_back_in_once_and_as_an_owner(tmp_path: Path) -> None:
    with running_gateway(tmp_path / "data") as gateway:
        assert gateway.bootstrap_secret_file
        old = gateway.bootstrap_secret_file.read_text().strip()
        first = log_in(gateway.url, old).json()
    with Running(compose(tmp_path / "data", new_secret=True)) as gateway:
        assert gateway.bootstrap_secret_file
        secret = gateway.bootstrap_secret_file.read_text().strip()
        assert secret != old
        assert log_in(gateway.url, old).status_code == 403
        again = log_in(gateway.url, secret).raise_for_status().json()
        assert (again["user_id"], again["workspace_id"]) == (first["user_id"], first["workspace_id"])
        assert whoami(gateway.url, again["token"])["role"] == "owner"
        assert log_in(gateway.url, secret).status_code == 409
        assert gateway.bootstrap_secret_file is None
    with running_gateway(tmp_path / "data") as gateway:
        assert gateway.bootstrap_secret_file is None
        assert log_in(gateway.url, secret).status_code == 409
        assert whoami(gateway.url, first["token"])["name"] == "Ann", "what was not lost goes on"


def test_a_new_secret_that_nobody_has_used_outlasts_a_restart_and_a_newer_one_replaces_it(tmp_path: Path) -> None:
    with running_gateway(tmp_path / "data") as gateway:
        assert gateway.bootstrap_secret_file
        log_in(gateway.url, gateway.bootstrap_secret_file.read_text())
    secrets = []
    for new_secret in (True, False, True):
        with Running(compose(tmp_path / "data", new_secret=new_secret)) as gateway:
            assert gateway.bootstrap_secret_file
            secrets.append(gateway.bootstrap_secret_file.read_text().strip())
    assert secrets[0] == secrets[1] != secrets[2]


def test_a_secret_whose_file_outlived_its_use_is_forgotten_at_the_next_start(tmp_path: Path) -> None:
    with running_gateway(tmp_path / "data") as gateway:
        assert gateway.bootstrap_secret_file
        file, secret = gateway.bootstrap_secret_file, gateway.bootstrap_secret_file.read_text()
        log_in(gateway.url, secret)
    file.write_text(secret)
    with running_gateway(tmp_path / "data") as gateway:
        assert gateway.bootstrap_secret_file is None
        assert not file.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_a_new_secret_is_for_the_folders_owner(tmp_path: Path) -> None:
    with running_gateway(tmp_path / "data"):
        pass
    os.chown(tmp_path / "data", 12345, -1)
    with pytest.raises(GatewayError, match="belongs to user 12345"):
        compose(tmp_path / "data", new_secret=True)
    os.chown(tmp_path / "data", 0, -1)


def test_a_limit_that_is_no_number_is_told_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLBOARD_RATE_TOKEN", "many")
    with pytest.raises(GatewayError, match="CALLBOARD_RATE_TOKEN is a number of calls a minute"):
        compose(tmp_path / "data")
