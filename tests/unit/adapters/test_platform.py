"""What has been tried nowhere is refused: on Windows the daemon says so in a sentence and not with a stack trace."""

from __future__ import annotations

import sys

import pytest
from click.testing import CliRunner

from callboard_daemon.cli.daemon import daemon
from callboard_daemon.errors import CallboardError


def test_the_daemon_s_commands_refuse_windows(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    refused = CliRunner().invoke(daemon, ["status"]).exception
    assert isinstance(refused, CallboardError)
    assert "Windows" in refused.message
    assert "WSL 2" in (refused.hint or "")


@pytest.mark.skipif(sys.platform == "win32", reason="the point of the other")
def test_elsewhere_they_do_not():
    assert CliRunner().invoke(daemon, ["--help"]).exit_code == 0
