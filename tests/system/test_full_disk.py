"""The disk of the server's data folder is full for a while: nothing is lost, and the run goes on when there is room."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.daemon_process import COMMAND, eventually, running_daemon
from tests.fakes.world import World
from tests.system.test_one_machine import start_gateway

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a tiny file system"),
]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "server"
    disk.mkdir(mode=0o700)
    options = "size=4m,mode=700"
    if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)], check=False).returncode:
        pytest.skip("mounting is not allowed here")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def fill(file: Path) -> None:
    with file.open("wb", buffering=0) as full:
        for size in (65536, 512, 1):
            try:
                while full.write(b"x" * size):
                    pass
            except OSError:
                continue


def test_a_full_disk_of_the_server_refuses_writes_and_loses_nothing(tmp_path: Path, small_disk: Path) -> None:
    gateway, url = start_gateway(tmp_path)
    (tmp_path / "machine").mkdir()
    try:
        with (
            World(url, (small_disk / "bootstrap.secret").read_text()) as world,
            running_daemon(tmp_path / "machine", url, world.person) as daemon,
        ):
            runtimes = world.call("GET", "/api/runtimes", world.person)["items"]
            [runtime] = [r["id"] for r in runtimes if r["daemon_id"] != world.daemon_id]
            world.call("POST", "/api/agents", world.person, {"name": "real", "runtime_id": runtime})
            steps = "\n".join(f"!say step {n}\n!tool t {n}\n!sleep 0.1" for n in range(30))
            body = {"agent": "real", "prompt": f"{steps}\n!answer through"}
            task = f"/api/tasks/{world.call('POST', '/api/tasks', world.person, body)['id']}"
            eventually(lambda: world.call("GET", task, world.person)["message_count"], timeout=30)
            fill(small_disk / "filler")
            sent = {"authorization": f"Bearer {world.person}"}
            refused = world.http.post("/api/tasks", json={"agent": "real", "prompt": "p" * 100_000}, headers=sent)
            assert (refused.status_code, refused.json()["error"]) == (503, "unavailable")
            assert refused.headers["retry-after"]
            assert world.http.get(task, headers=sent).status_code == 200
            eventually(lambda: daemon.logged("not delivered yet"), timeout=30)
            (small_disk / "filler").unlink()
            eventually(lambda: world.call("GET", task, world.person)["status"] == "completed", timeout=50)
            ended = world.call("GET", task, world.person)
            assert (ended["output"], ended["attempt"]) == ("through", 1)
            said = world.call("GET", f"{task}/messages", world.person)["items"]
            assert [m["content"] for m in said if m["type"] == "text"] == [f"step {n}" for n in range(30)]
    finally:
        gateway.send_signal(signal.SIGTERM)
        gateway.communicate(timeout=30)
    assert gateway.returncode == 0


def test_a_gateway_on_a_full_disk_says_so_and_starts_when_there_is_room(tmp_path: Path, small_disk: Path) -> None:
    fill(small_disk / "filler")
    command = [*COMMAND, "up", "--data", str(small_disk), "--port", "0"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert refused.returncode == 1
    assert "No space left on device" in refused.stderr
    assert "--data" in refused.stderr
    assert "Traceback" not in refused.stderr
    (small_disk / "filler").unlink()
    gateway, _ = start_gateway(tmp_path)
    gateway.send_signal(signal.SIGTERM)
    gateway.communicate(timeout=30)
    assert gateway.returncode == 0
