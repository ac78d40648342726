"""What `callboard daemon start` says when it cannot do what was asked."""

from __future__ import annotations

import subprocess

import pytest

from tests.fakes.control_plane import ControlPlane
from tests.fakes.daemon_process import COMMAND, DaemonProcess
from tests.integration.daemon.conftest import MakeDaemon


def start(daemon: DaemonProcess, *args: str, **changes: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in (daemon.env | changes).items() if value}
    command = [*COMMAND, "daemon", "start", *args]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)


def test_without_a_login_nothing_is_started_and_the_way_in_is_shown(make_daemon: MakeDaemon) -> None:
    done = start(make_daemon(), CALLBOARD_SERVER_URL="", CALLBOARD_TOKEN="")
    assert done.returncode == 3
    assert "callboard login" in done.stderr


def test_a_refused_login_is_told_in_the_daemons_own_words(make_daemon: MakeDaemon) -> None:
    done = start(make_daemon(), CALLBOARD_TOKEN="mul_wrong_token")
    assert done.returncode == 3, done.stderr
    assert "unauthenticated" in done.stderr
    assert "callboard login" in done.stderr
    assert "mul_wrong" not in done.stderr
    assert "Traceback" not in done.stderr


def test_a_setting_that_cannot_be_read_is_named(make_daemon: MakeDaemon) -> None:
    done = start(make_daemon(), CALLBOARD_DRAIN_TIMEOUT="a while")
    assert done.returncode == 5
    assert "CALLBOARD_DRAIN_TIMEOUT" in done.stderr
    flag = start(make_daemon(), "--max-concurrent-tasks", "none")
    assert flag.returncode == 5
    assert "--max-concurrent-tasks" in flag.stderr


def test_an_unknown_provider_lists_the_known(make_daemon: MakeDaemon) -> None:
    done = start(make_daemon(), "--providers", "clod")
    assert done.returncode == 5, done.stderr
    assert "claude" in done.stderr


def test_of_several_starts_at_once_one_daemon_is_told_of_and_runs(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon()
    command = [*COMMAND, "daemon", "start"]
    starts = [
        subprocess.Popen(command, env=daemon.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    told = [(*each.communicate(timeout=50), each.returncode) for each in starts]
    stopped = subprocess.run([*COMMAND, "daemon", "stop"], env=daemon.env, capture_output=True, text=True, timeout=50)
    assert stopped.returncode == 0, stopped.stderr
    assert sorted(code for _, _, code in told) == [0, 1, 1], told
    for _, err, code in told:
        assert ("The daemon runs" if code == 0 else "already runs on this machine") in err


@pytest.mark.slow
def test_a_server_that_is_away_is_told_and_waited_for(plane: ControlPlane, make_daemon: MakeDaemon) -> None:
    plane.down = True
    daemon = make_daemon()
    done = start(daemon)
    assert done.returncode == 2, done.stderr
    assert "keeps trying" in done.stderr
    plane.down = False
    plane.wait_for(lambda: plane.count("claim") > 0, timeout=40)
    stopped = subprocess.run([*COMMAND, "daemon", "stop"], env=daemon.env, capture_output=True, text=True, timeout=60)
    assert stopped.returncode == 0, stopped.stderr
