from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.control_plane import PERSON_TOKEN, ControlPlane, control_plane
from tests.fakes.daemon_process import DaemonProcess, running_daemon

MakeDaemon = Callable[..., DaemonProcess]


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    with control_plane() as running:
        yield running


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ControlPlane, DaemonProcess]]:
    """A control plane and a daemon for all tests of a file that do not disturb each other: a start takes a second."""
    home = tmp_path_factory.mktemp("shared")
    with control_plane() as plane, running_daemon(home, plane.url, PERSON_TOKEN) as daemon:
        yield plane, daemon


@pytest.fixture
def make_daemon(plane: ControlPlane, tmp_path: Path) -> Iterator[MakeDaemon]:
    """Daemons on `tmp_path`, not started yet; whatever still runs when the test ends is killed."""
    made: list[DaemonProcess] = []

    def make(**settings: str) -> DaemonProcess:
        made.append(DaemonProcess(tmp_path, plane.url, PERSON_TOKEN, **settings))
        return made[-1]

    yield make
    for daemon in made:
        if daemon.process is not None and daemon.process.poll() is None:
            daemon.kill()
