"""`callboard up` as a process: starting, being refused, draining, being killed, and what it leaves on disk."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).parents[3]


def start(data: Path, port: int = 0, *hosts: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.integration.gateway.serve_toys", str(data), str(port), *hosts],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextlib.contextmanager
def up(data: Path) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """A running process, its URL, and what it printed until then."""
    process = start(data)
    try:
        assert process.stdout
        first = process.stdout.readline()
        found = re.search(r"http://[^ ]+", first)
        assert found, process.communicate(timeout=10)
        yield process, found.group(), first
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=20)


def end(process: subprocess.Popen[str]) -> str:
    """Ask it to stop; what it printed since the first line. `communicate` would lose what `readline` has read ahead."""
    assert process.stdout
    assert process.stderr
    process.send_signal(signal.SIGTERM)
    printed = process.stdout.read()
    assert process.wait(20) == 0, process.stderr.read()
    return printed


def refused(process: subprocess.Popen[str]) -> str:
    """The one sentence of a process that ended with exit code 1."""
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (1, ""), err
    assert len(err.strip().splitlines()) == 1, err
    return err.strip()


def test_first_start_prints_how_to_log_in_and_a_later_one_does_so_only_while_nobody_has(tmp_path: Path) -> None:
    data = tmp_path / "data"
    secrets = []
    for _ in range(2):
        with up(data) as (process, url, first):
            assert str(data) in first
            out = end(process)
            assert f"callboard login --server {url} --bootstrap {data / 'bootstrap.secret'}" in out
            secrets.append((data / "bootstrap.secret").read_text())
            assert secrets[0].strip() not in out, "the secret itself is never printed"
    assert secrets[0] == secrets[1]
    (data / "bootstrap.secret").unlink()
    with up(data) as (process, _, _):
        assert "login" not in end(process)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not let a process choose its cores")
def test_a_gateway_keeps_to_one_of_the_cores_it_was_given(tmp_path: Path) -> None:
    with up(tmp_path / "data") as (process, _, _):
        [core] = os.sched_getaffinity(process.pid)
        assert core in os.sched_getaffinity(0)


def test_nothing_on_disk_is_readable_by_others(tmp_path: Path) -> None:
    data = tmp_path / "made" / "by it"
    os.umask(0o022)
    with up(data):
        modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [data, *data.rglob("*")]}
    assert modes[data] == 0o700
    assert {mode for path, mode in modes.items() if path != data} == {0o600}
    assert {path.name for path in modes if path != data} >= {"bootstrap.secret", "gateway.lock", "callboard.db"}


def test_sigterm_drains_held_polls_are_answered_empty_and_running_requests_finish(tmp_path: Path) -> None:
    with up(tmp_path / "data") as (process, url, _):
        answers: dict[str, httpx.Response] = {}

        def call(path: str, body: dict[str, float]) -> None:
            answers[path] = httpx.post(url + path, json=body, timeout=40)

        threads = [
            threading.Thread(target=call, args=("/api/claim", {"wait": 20})),
            threading.Thread(target=call, args=("/api/nap", {"seconds": 1.5})),
        ]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 20
        while 'lane="held"} 1' not in (text := httpx.get(url + "/metrics").text) or 'lane="calls"} 1' not in text:
            assert time.monotonic() < deadline, text
            time.sleep(0.02)
        out = end(process)
        for thread in threads:
            thread.join(20)
        assert answers["/api/claim"].json() == {"task": None}
        assert answers["/api/nap"].json() == {"slept": 1.5}
        assert out.endswith("drained\n")
        with pytest.raises(httpx.ConnectError):
            httpx.get(url + "/health")


def test_a_handler_that_never_ends_cannot_keep_a_stopped_gateway_alive(tmp_path: Path) -> None:
    with up(tmp_path / "data") as (process, url, _):

        def call() -> None:
            with contextlib.suppress(httpx.HTTPError):
                httpx.post(url + "/api/nap", json={"seconds": 3600}, timeout=40)

        thread = threading.Thread(target=call)
        thread.start()
        while 'lane="calls"} 1' not in httpx.get(url + "/metrics").text:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        thread.join(20)


def test_a_second_gateway_on_one_data_folder_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    with up(tmp_path / "data") as (_, url, _):
        sentence = refused(start(tmp_path / "data"))
        assert "Another gateway is running on" in sentence
        assert "--data" in sentence
        assert httpx.get(url + "/health").status_code == 200


def test_a_killed_gateway_leaves_its_folder_free_for_the_next(tmp_path: Path) -> None:
    with up(tmp_path / "data") as (process, _, _):
        process.kill()
        process.wait(10)
    with up(tmp_path / "data") as (_, url, _):
        assert httpx.get(url + "/health").status_code == 200


def test_a_taken_port_is_refused_in_one_sentence_and_frees_the_folder(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        sentence = refused(start(tmp_path / "data", port))
    assert f"Port {port} on 127.0.0.1 is taken" in sentence
    assert "--port" in sentence
    with up(tmp_path / "data") as (_, url, _):
        assert httpx.get(url + "/health").status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "box.example"])
def test_an_address_others_can_reach_is_refused(tmp_path: Path, host: str) -> None:
    assert "--any-host" in refused(start(tmp_path / "data", 0, host))


def test_a_data_folder_that_cannot_be_made_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    sentence = refused(start(tmp_path / "file" / "data"))
    assert "cannot be written (Not a directory)" in sentence
    assert "--data" in sentence


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_data_folder_without_write_permission_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o500)
    assert "cannot be written (Permission denied)" in refused(start(tmp_path / "data"))


def test_a_data_folder_others_may_write_in_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data").chmod(0o777)
    assert "chmod 700" in refused(start(tmp_path / "data"))
