"""Secrets through a whole run of real processes: gateway, daemon, a CLI that prints what it was given."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest

from callboard_adapters.redact import MASK
from tests.fakes.daemon_process import eventually
from tests.system.test_one_machine import Machine, start_gateway

ENV = {"API_KEY": "canary-custom-env-1f9c", "OTHER": "canary-custom-env-77aa"}
MCP_ENV, MCP_HEADER = "canary-mcp-env-3b0d", "canary-mcp-header-c2e4"
MCP = {
    "mcpServers": {
        "local": {"command": "no-such-tool", "env": {"KEY": MCP_ENV}},
        "remote": {"url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": MCP_HEADER}},
    }
}
GATEWAY_TOKEN = "canary-gateway-token-5d2f"
REACHED = {"mode": "gateway", "gateway": {"host": "claw.invalid", "token": GATEWAY_TOKEN}}
DONE = "!env API_KEY\n!env MULTICA_TOKEN\n!write leak.txt nothing\n!sleep 3\n!answer done"
FAILS = "!env OTHER\n!log OTHER is set\n!status 500\n!fail no luck"


@dataclass
class Played:
    """What is left after the two runs. `argv` are the command lines seen while one was under way."""

    home: Path
    secrets: dict[str, str]
    argv: str
    printed: str
    answers: str


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    home = tmp_path_factory.mktemp("home")
    gateway, url = start_gateway(home)
    machine = Machine(home, url, gateway)
    bootstrap = home / "server" / "bootstrap.secret"
    secret = bootstrap.read_text().strip()
    try:
        for command in (
            ["login", "--server", url, "--bootstrap", str(bootstrap), "--name", "ada"],
            ["daemon", "start"],
            ["agent", "create", "scout"],
        ):
            said = machine.run(*command)
            assert said.returncode == 0, said.stderr
        person = found_token(home, "mul")
        with httpx.Client(base_url=url, headers={"authorization": f"Bearer {person}"}, timeout=30) as api:
            agent = api.get("/api/agents/scout").json()["id"]
            api.put(f"/api/agents/{agent}/env", json={"custom_env": ENV}).raise_for_status()
            api.patch(f"/api/agents/{agent}", json={"mcp_config": MCP, "runtime_config": REACHED}).raise_for_status()
            printed, argv = "", ""
            for prompt, end in ((DONE, "completed"), (FAILS, "failed")):
                body = {"agent": "scout", "prompt": prompt, "max_attempts": 1}
                task = api.post("/api/tasks", json=body).json()["id"]
                if end == "completed":
                    eventually(lambda task=task: api.get(f"/api/tasks/{task}").json()["message_count"], timeout=30)
                    argv = command_lines()
                eventually(lambda task=task, end=end: api.get(f"/api/tasks/{task}").json()["status"] == end, timeout=40)
                for command in (
                    ["task", "get", task],
                    ["task", "messages", task],
                    ["task", "list"],
                    ["agent", "get", "scout"],
                ):
                    done = machine.run(*command, "--output", "json")
                    printed += done.stdout + done.stderr
            answers = "".join(
                api.get(f"/api/{name}").text for name in ("tasks", "audit", "runtimes", "members", "tokens")
            )
            answers += api.get("/metrics").text
        secrets = {**ENV, "bootstrap": secret, "person": person, "daemon": found_token(home, "mdt")}
    finally:
        machine.run("daemon", "stop", "--now")
        gateway.send_signal(signal.SIGTERM)
        printed += gateway.communicate(timeout=30)[0]
    return Played(home, secrets, argv, printed, answers)


def found_token(home: Path, kind: str) -> str:
    texts = (path.read_text(errors="replace") for path in files(home))
    return next(match[0] for text in texts if (match := re.search(kind + r"_[0-9a-f-]+_[0-9a-f]{40}", text)))


def files(home: Path) -> list[Path]:
    return [path for path in sorted(home.rglob("*")) if path.is_file() and not path.is_symlink()]


def command_lines() -> str:
    lines = []
    for process in psutil.process_iter():
        try:
            lines.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return "\n".join(lines)


def holders(played: Played, value: str) -> list[str]:
    return [str(path.relative_to(played.home)) for path in files(played.home) if value.encode() in path.read_bytes()]


def test_the_cli_was_given_the_secrets_and_what_it_printed_of_them_is_masked(played: Played) -> None:
    assert played.printed.count(MASK) >= 3, "two variables and its own token, as it said them"
    for name, value in played.secrets.items():
        assert value not in played.printed, name


def test_no_list_log_or_metric_shows_one(played: Played) -> None:
    assert "agent_env_updated" in played.answers
    assert "callboard_" in played.answers
    for value in (*played.secrets.values(), MCP_ENV, MCP_HEADER, GATEWAY_TOKEN):
        assert value not in played.answers


def test_a_gateways_token_is_shown_to_nobody_and_kept_by_no_file(played: Played) -> None:
    """Neither to who set it. The database holds it encrypted, and what its run reads is gone with the run."""
    assert '"token": "***"' in played.printed, "what is said of the agent was looked at"
    assert GATEWAY_TOKEN not in played.printed
    assert holders(played, GATEWAY_TOKEN) == []


def test_no_command_line_holds_a_secret(played: Played) -> None:
    assert "echo_cli.py" in played.argv
    for name, value in {**played.secrets, "mcp": MCP_ENV, "header": MCP_HEADER, "gateway": GATEWAY_TOKEN}.items():
        assert value not in played.argv, name


def test_each_secret_is_in_its_own_file_and_in_no_other(played: Played) -> None:
    """Logs, spools, run folders, workdirs, databases: everything the three processes ever wrote."""
    assert any(path.name == "leak.txt" for path in files(played.home)), "the runs' folders are searched too"
    assert {name: holders(played, value) for name, value in played.secrets.items()} == {
        "API_KEY": [],
        "OTHER": [],
        "bootstrap": [],  # used, and gone
        "person": ["config/credentials.json"],
        "daemon": ["state/daemon-token.json"],
    }
    for value in (MCP_ENV, MCP_HEADER):
        assert {Path(name).name.partition("-")[0] for name in holders(played, value)} == {"callboard.db"}
    tasks = [path for path in files(played.home) if re.search(rb"mat_[0-9a-f-]+_[0-9a-f]{40}", path.read_bytes())]
    assert tasks == []


def test_what_is_kept_of_secrets_is_for_its_owner_alone(played: Played) -> None:
    for name in ("server/callboard.db", "server/secrets.key", "config/credentials.json", "state/daemon-token.json"):
        assert (played.home / name).stat().st_mode & 0o077 == 0, name
