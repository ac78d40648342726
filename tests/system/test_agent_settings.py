"""An agent's settings on their whole way: command line, server, claim, daemon, and the arguments of the coding CLI."""

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


@pytest.mark.slow
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


def test_a_changed_agent_is_what_the_next_run_is_started_with(machine: WithClaude) -> None:
    first = ["--model", "opus", "--thinking-level", "high", "--custom-arg=--verbose-ish"]
    made = machine.run("agent", "create", "eve", *first)
    assert made.returncode == 0, made.stderr
    words = ["--clear", "model", "--clear", "custom-args", "--thinking-level", "low", "--max-turns", "3"]
    words += ["--name", "Eva"]
    changed = machine.run("agent", "update", "eve", *words)
    assert changed.returncode == 0, changed.stderr
    done = machine.run("run", "go", "--agent", "eva", "--follow", "--output", "json")
    started = json.loads(json.loads(done.stdout)["output"])
    assert [option(started, name) for name in ("--model", "--effort", "--max-turns")] == ["", "low", "3"]
    assert "--verbose-ish" not in started["args"]


@pytest.mark.slow
def test_an_agent_is_opened_and_closed_again(machine: WithClaude) -> None:
    assert machine.run("agent", "create", "ora", "--public").returncode == 0
    shown = machine.run("agent", "get", "ora").stdout
    assert "open to" in shown
    assert "the workspace" in shown
    assert machine.run("agent", "update", "ora", "--private").returncode == 0
    assert "its owner" in machine.run("agent", "get", "ora").stdout
    done = machine.run("agent", "update", "ora", "--invite", "nobody")
    assert done.returncode == 5
    assert "no members" in done.stderr


@pytest.mark.slow
def test_an_archived_agent_says_so_and_comes_back(machine: WithClaude) -> None:
    assert machine.run("agent", "create", "old").returncode == 0
    assert machine.run("agent", "archive", "old").returncode == 0
    shown = machine.run("agent", "get", "old").stdout
    assert "It is archived and takes no work. → callboard agent restore" in shown
    assert "old" not in machine.run("agent", "list").stdout
    assert "archived" in machine.run("agent", "list", "--archived").stdout
    refused = machine.run("run", "go", "--agent", "old")
    assert "archived" in refused.stderr
    assert machine.run("agent", "restore", "old").returncode == 0


@pytest.mark.slow
def test_what_an_agent_cannot_be_is_said_before_it_is_asked_for(machine: WithClaude) -> None:
    config = machine.home / "mcp.json"
    config.write_text('["a s3cret"')
    for words, said in [
        (["agent", "update", "cleo"], "nothing to change"),
        (["agent", "update", "cleo", "--model", "m", "--clear", "model"], "at once"),
        (["agent", "update", "cleo", "--public", "--invite", "u"], "--invite"),
        (["agent", "update", "cleo", "--mcp-config-file", str(config)], "is not JSON"),
        (["agent", "create", "x", "--instructions", "a", "--instructions-file", str(config)], "exclude each other"),
        (["agent", "update", "cleo", "--thinking-level", "ultra"], "claude knows low, medium, high, xhigh, max"),
    ]:
        done = machine.run(*words)
        assert (done.returncode, said in done.stderr) == (5, True), (words, done.stderr)
        assert "s3cret" not in done.stderr + done.stdout
