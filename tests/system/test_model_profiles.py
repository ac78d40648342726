"""A model profile on its whole way: command line, server, claim, daemon, and the arguments of the coding CLI."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator

import pytest

from tests.fakes.cli import fake_cli
from tests.system.test_one_machine import Machine, start_gateway

SAYS_HOW_IT_WAS_STARTED = """
init()
prompt()
started = {"args": sys.argv[1:], "tokens": os.environ.get("CLAUDE_CODE_MAX_OUTPUT_TOKENS", "")}
text(json.dumps(started))
result(json.dumps(started))
"""


class WithClaude(Machine):
    @property
    def env(self) -> dict[str, str]:
        path = f"{self.home / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return super().env | {"CALLBOARD_PROVIDERS": "claude", "PATH": path, "IS_SANDBOX": "1"}

    def started(self, *options: str) -> dict[str, object]:
        """How the CLI was started for a new task."""
        done = self.run("run", "go", "--agent", "cleo", "--follow", "--output", "json", *options)
        assert done.returncode == 0, done.stderr
        found = json.loads(json.loads(done.stdout)["output"])
        assert isinstance(found, dict)
        return found


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WithClaude]:
    home = tmp_path_factory.mktemp("home")
    (home / "bin").mkdir()
    fake_cli(home / "bin", SAYS_HOW_IT_WAS_STARTED)
    gateway, url = start_gateway(home)
    machine = WithClaude(home, url, gateway)
    try:
        done = machine.run("login", "--server", url, "--bootstrap", str(home / "server" / "bootstrap.secret"))
        assert done.returncode == 0, done.stderr
        started = machine.run("daemon", "start")
        assert started.returncode == 0, started.stderr
        made = machine.run("agent", "create", "cleo")
        assert made.returncode == 0, made.stderr
        yield machine
    finally:
        machine.run("daemon", "stop", "--now")
        gateway.send_signal(signal.SIGTERM)
        gateway.communicate(timeout=30)


def option(started: dict[str, object], name: str) -> str:
    args = started["args"]
    assert isinstance(args, list)
    return args[args.index(name) + 1] if name in args else ""


def test_a_profile_reaches_the_command_line_of_the_coding_cli(machine: WithClaude) -> None:
    assert option(machine.started(), "--model") == ""
    assert option(machine.started("--profile", "fast"), "--model") == "haiku"
    words = ["--model", "opus", "--thinking-level", "max", "--max-tokens", "64000", "--max-turns", "9"]
    done = machine.run("model-profile", "set", "deep", "claude", *words)
    assert done.returncode == 0, done.stderr
    started = machine.started("--model-profile", "deep")
    asked = [option(started, name) for name in ("--model", "--effort", "--max-turns")]
    assert (asked, started["tokens"]) == (["opus", "max", "9"], "64000")


def test_setting_one_provider_leaves_what_the_profile_means_to_others(machine: WithClaude) -> None:
    for provider, model in (("claude", "opus"), ("codex", "gpt-5.5"), ("claude", "sonnet")):
        assert machine.run("model-profile", "set", "wide", provider, "--model", model).returncode == 0
    listed = machine.json("model-profile", "list")
    assert isinstance(listed, list)
    [wide] = [profile for profile in listed if profile["key"] == "wide"]
    models = {provider: choice["model"] for provider, choice in wide["providers"].items()}
    assert models == {"claude": "sonnet", "codex": "gpt-5.5"}
    assert "is gone" in machine.run("model-profile", "delete", "wide").stderr
    assert machine.run("model-profile", "delete", "wide").returncode == 4


def test_an_unknown_profile_is_refused_with_the_known_ones(machine: WithClaude) -> None:
    done = machine.run("run", "go", "--agent", "cleo", "--profile", "quick")
    assert done.returncode == 5
    assert "default, fast, smart" in done.stderr


def test_what_a_profile_cannot_mean_is_said_with_what_it_can(machine: WithClaude) -> None:
    done = machine.run("model-profile", "set", "deep", "claude", "--thinking-level", "ultra")
    assert done.returncode == 5
    assert "low, medium, high, xhigh, max" in done.stderr
