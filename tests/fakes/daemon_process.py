"""The real daemon as a real process, with everything it keeps in one temporary folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from callboard_daemon.cli import local
from callboard_daemon.paths import Paths, paths_for
from callboard_daemon.state import read_record

COMMAND = [sys.executable, "-P", "-m", "callboard_daemon"]


def eventually(condition: Callable[[], Any], timeout: float = 15.0, what: str = "") -> Any:
    """The first true value of `condition`; fails the test when there is none within `timeout`."""
    end = time.monotonic() + timeout
    while True:
        if value := condition():
            return value
        if time.monotonic() > end:
            raise AssertionError(f"did not become true within {timeout} s {what}")
        time.sleep(0.02)


class DaemonProcess:
    def __init__(self, home: Path, server: str, token: str, **settings: str) -> None:
        self.home = home
        self.paths: Paths = paths_for("", {"CALLBOARD_HOME": str(home)})
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home / "user"),
            "CALLBOARD_HOME": str(home),
            "CALLBOARD_SERVER_URL": server,
            "CALLBOARD_TOKEN": token,
            "CALLBOARD_PROVIDERS": "echo",
            "CALLBOARD_LOGIN_SHELL": "false",
            "CALLBOARD_DRAIN_TIMEOUT": "1s",
            **{f"CALLBOARD_{name.upper()}": value for name, value in settings.items()},
        }
        (home / "user").mkdir(parents=True, exist_ok=True)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *, ready: bool = True, **popen: Any) -> DaemonProcess:
        with (self.home / "output.txt").open("ab") as output:
            self.process = subprocess.Popen(
                [*COMMAND, "daemon", "start", "--foreground"],
                env=self.env,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                **popen,
            )
        if ready:
            eventually(lambda: self.status() == "running" or self.process.poll() is not None, what=self.output())
            assert self.process.poll() is None, self.output()
        return self

    def status(self) -> str:
        return str((local.health(self.paths) or {}).get("status", ""))

    def port(self) -> int:
        record = read_record(self.paths)
        assert record is not None, "the daemon does not run"
        return record.port

    def kill(self) -> None:
        """As a crash would: nothing of the daemon's own code runs any more."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self, timeout: float = 30.0) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def output(self) -> str:
        return (self.home / "output.txt").read_text(errors="replace")[-6000:]

    def log(self) -> str:
        return self.paths.log_file.read_text(errors="replace") if self.paths.log_file.exists() else ""

    @staticmethod
    def processes() -> list[str]:
        """Command lines and environments of every daemon on this machine."""
        found = []
        for process in psutil.process_iter():
            try:
                line = process.cmdline()
                if "callboard_daemon" in line:
                    found.append(" ".join([*line, *process.environ().values()]))
            except psutil.Error:
                continue
        return found

    def logged(self, text: str, task_id: str = "") -> bool:
        """Whether a log line (of this task) holds `text`."""
        return any(text in line and task_id in line for line in self.log().splitlines())


@contextmanager
def running_daemon(home: Path, server: str, token: str, **settings: str) -> Iterator[DaemonProcess]:
    """A daemon that is ready; ended, by force if need be, when the context ends."""
    daemon = DaemonProcess(home, server, token, **settings).start()
    try:
        yield daemon
    finally:
        if daemon.process is not None and daemon.process.poll() is None:
            daemon.process.send_signal(signal.SIGTERM)
            try:
                daemon.process.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                raise
