"""Where agents cannot be ended they are not started: Windows is refused with a sentence and not with a stack trace."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from callboard_daemon.cli.daemon import daemon
from callboard_daemon.errors import CallboardError

ON_WINDOWS = """
import asyncio, importlib.metadata, psutil, subprocess, sys
sys.platform = "win32"
try:
    import callboard_adapters.process
except ImportError as error:
    print(error)
"""


def test_the_library_says_why_it_cannot_be_imported_on_windows():
    said = subprocess.run([sys.executable, "-c", ON_WINDOWS], capture_output=True, text=True, check=True).stdout
    assert "Linux and macOS only" in said
    assert "WSL 2" in said


def test_the_daemon_s_commands_refuse_windows(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    refused = CliRunner().invoke(daemon, ["status"]).exception
    assert isinstance(refused, CallboardError)
    assert "Windows" in refused.message
    assert "WSL 2" in (refused.hint or "")


@pytest.mark.skipif(sys.platform == "win32", reason="the point of the other two")
def test_elsewhere_they_do_not():
    assert CliRunner().invoke(daemon, ["--help"]).exit_code == 0
