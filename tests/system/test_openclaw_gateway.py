"""A gateway's token on its whole way: a file, the server, the claim, the daemon, and the one file its CLI reads.

The CLI is a fake with OpenClaw's output: it says what it was given, the token as a digest too, for what is printed is
masked.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.system.test_one_machine import Machine, start_gateway

TOKEN = "c4n4ry-gateway-token"
OPENCLAW = """#!{python} -IS
import hashlib, json, os, sys
if "--version" in sys.argv:
    sys.exit(print("OpenClaw 2026.9.6 (fake)"))
path = os.environ["OPENCLAW_CONFIG_PATH"]
gateway = json.load(open(path)).get("gateway", {{}})
token = gateway.get("remote", {{}}).pop("token", "")
told = {{"args": sys.argv[1:], "env": sorted(os.environ.values()), "gateway": gateway, "path": path}}
told |= {{"mode": oct(os.stat(path).st_mode & 0o777), "token": hashlib.sha256(token.encode()).hexdigest()}}
told["said"] = token
told["prompt"] = open(sys.argv[sys.argv.index("--message-file") + 1]).read()
result = {{"payloads": [{{"text": json.dumps(told)}}], "meta": {{"durationMs": 5, "agentMeta": {{"sessionId": "s"}}}}}}
print(json.dumps({{"runId": "r", "status": "ok", "summary": "completed", "result": result}}, indent=2))
"""


class WithOpenclaw(Machine):
    @property
    def env(self) -> dict[str, str]:
        path = f"{self.home / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return super().env | {"CALLBOARD_PROVIDERS": "openclaw", "PATH": path}

    def made(self, *args: str, stdin: str = "") -> str:
        done = self.run(*args, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def told(self, agent: str) -> dict[str, Any]:
        """What the CLI was given for a new task."""
        done = self.made("run", "go", "--agent", agent, "--follow", "--output", "json")
        told: dict[str, Any] = json.loads(json.loads(done)["output"])
        return told


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WithOpenclaw]:
    home = tmp_path_factory.mktemp("home")
    (home / "bin").mkdir()
    cli = home / "bin" / "openclaw"
    cli.write_text(OPENCLAW.format(python=sys.executable))
    cli.chmod(0o755)
    gateway, url = start_gateway(home)
    machine = WithOpenclaw(home, url, gateway)
    try:
        machine.made("login", "--server", url, "--bootstrap", str(home / "server" / "bootstrap.secret"))
        machine.made("daemon", "start")
        yield machine
    finally:
        machine.run("daemon", "stop", "--now")
        gateway.send_signal(signal.SIGTERM)
        gateway.communicate(timeout=30)


def config(**gateway: Any) -> str:
    return json.dumps({"mode": "gateway", "gateway": gateway})


def files_with(home: Path, value: str) -> list[str]:
    paths = [path for path in home.rglob("*") if path.is_file() and not path.is_symlink()]
    return [path.name for path in paths if value.encode() in path.read_bytes()]


def test_a_gateways_token_comes_from_stdin_and_ends_in_a_private_file_that_goes_with_the_run(
    machine: WithOpenclaw,
) -> None:
    given = config(host="claw.internal", tls=True, token=TOKEN)
    shown = machine.made("agent", "create", "cleo", "--runtime-config-file", "-", stdin=given)
    assert "gateway claw.internal (tls) with a token" in shown
    told = machine.told("cleo")
    assert told["gateway"] == {"mode": "remote", "remote": {"url": "wss://claw.internal:18789"}}
    assert (told["token"], told["mode"]) == (hashlib.sha256(TOKEN.encode()).hexdigest(), "0o600")
    assert "--local" not in told["args"]
    assert told["said"] == "[REDACTED]", "what the CLI prints of it is masked"
    assert TOKEN not in f"{told['args']} {told['env']}"
    assert not Path(told["path"]).exists()
    assert files_with(machine.home, TOKEN) == []


@pytest.mark.slow
def test_what_a_command_shows_can_be_sent_back_and_keeps_the_token(machine: WithOpenclaw) -> None:
    machine.made("agent", "create", "eve", "--runtime-config-file", "-", stdin=config(host="old", token=TOKEN))
    shown = json.loads(machine.made("agent", "get", "eve", "--output", "json"))["runtime_config"]
    assert shown == {"mode": "gateway", "gateway": {"host": "old", "token": "***"}}
    edited = machine.home / "edited.json"
    edited.write_text(json.dumps({**shown, "gateway": {**shown["gateway"], "host": "new"}}))
    machine.made("agent", "update", "eve", "--runtime-config-file", str(edited))
    told = machine.told("eve")
    assert told["gateway"]["remote"]["url"] == "ws://new:18789"
    assert told["token"] == hashlib.sha256(TOKEN.encode()).hexdigest()
    machine.made("agent", "update", "eve", "--clear", "runtime-config")
    told = machine.told("eve")
    assert (told["gateway"], "--local" in told["args"]) == ({}, True)


def test_a_gateway_is_told_what_the_agents_folder_would_say_and_nothing_of_the_folder(machine: WithOpenclaw) -> None:
    """It does not see the task's folder, so the file there with the agent's instructions says nothing to it."""
    made = ["agent", "create", "ivy", "--instructions", "Be brief.", "--runtime-config-file", "-"]
    machine.made(*made, stdin=config(host="h", token=TOKEN))
    prompt = machine.told("ivy")["prompt"]
    assert prompt.endswith("\n\ngo")
    assert "Be brief." in prompt
    assert "working folder" not in prompt
    assert "on PATH" not in prompt
    machine.made("agent", "update", "ivy", "--clear", "runtime-config")
    assert machine.told("ivy")["prompt"] == "go", "here its CLI reads the file"


def test_a_configuration_that_cannot_be_is_refused_before_it_is_sent_and_not_repeated(machine: WithOpenclaw) -> None:
    for given, said in [
        ('{"gatway": {"token": "s3cret"}}', "runtime_config: There is no `gatway` here; known are `mode`, `gateway`"),
        ('{"gateway": {"port": "s3cret"}}', "runtime_config.gateway.port"),
        ('{"gateway": "s3cret"', "is not JSON"),
    ]:
        done = machine.run("agent", "create", "odd", "--runtime-config-file", "-", stdin=given)
        assert (done.returncode, said in done.stderr) == (5, True), done.stderr
        assert "s3cret" not in done.stderr + done.stdout


def test_an_agent_is_made_with_its_skills_by_name(machine: WithOpenclaw) -> None:
    folder = machine.home / "review"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: review\ndescription: How to review.\n---\nWell.\n")
    machine.made("skill", "import", str(folder))
    assert "review" in machine.made("agent", "create", "ora", "--skill", "Review")
    assert "review" in machine.made("agent", "skills", "list", "ora")
    assert machine.run("agent", "create", "ada", "--skill", "none").returncode == 4
