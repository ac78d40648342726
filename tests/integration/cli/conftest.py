"""The command line against a real control plane: what is only typed runs in this process (a start costs a second),
what goes on meanwhile is a process of its own."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from callboard_control.embedded.gateway import Gateway
from callboard_control.embedded.server import running_gateway
from callboard_daemon.cli.main import main


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Shell:
    """Somebody's machine: their folder, and what they type there."""

    home: Path

    def env(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "CALLBOARD_HOME": str(self.home),
            "COLUMNS": "200",
        }

    def start(self, *args: str, **popen: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-P", "-m", "callboard_daemon", *args]
        return subprocess.Popen(
            command, env=self.env(), cwd=self.home, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **popen
        )

    def run(self, *args: str, stdin: str = "") -> Done:
        out, err = _stream(), _stream()
        with ExitStack() as stack:
            stack.enter_context(patch.dict(os.environ, self.env(), clear=True))
            stack.enter_context(patch.object(sys, "argv", ["callboard", *args]))
            stack.enter_context(patch.object(sys, "stdin", _stream(stdin)))
            stack.enter_context(redirect_stdout(out))
            stack.enter_context(redirect_stderr(err))
            stack.enter_context(chdir(self.home))
            with pytest.raises(SystemExit) as ended:
                main(list(args))
        assert isinstance(ended.value.code, int)
        return Done(ended.value.code, _text(out), _text(err))

    def ok(self, *args: str, stdin: str = "") -> Done:
        done = self.run(*args, stdin=stdin)
        assert done.code == 0, (args, done)
        return done

    def json(self, *args: str, stdin: str = "") -> Any:
        return self.ok("--output", "json", *args, stdin=stdin).json


def _stream(text: str = "") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8", newline="")


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    written = stream.buffer
    assert isinstance(written, io.BytesIO)
    return written.getvalue().decode()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running_gateway(tmp_path_factory.mktemp("gateway") / "data") as gateway:
        yield gateway


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Shell]:
    """Another machine, on which nobody has logged in."""
    return lambda name: Shell(tmp_path_factory.mktemp(name))


@pytest.fixture(scope="module")
def ann(gateway: Gateway, shell: Callable[[str], Shell]) -> Shell:
    """The first person of the workspace, logged in."""
    ann = shell("ann")
    assert gateway.bootstrap_secret_file
    ann.ok("login", "--server", gateway.url, "--bootstrap", str(gateway.bootstrap_secret_file), "--name", "Ann")
    return ann
