"""Runtime profiles on their whole way: made by a person, found by a daemon, run with the adapter of their family."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from callboard_daemon.cli.local import ask_to_look
from callboard_daemon.paths import paths_for
from tests.fakes.cli import fake_cli
from tests.fakes.daemon_process import eventually
from tests.system.test_one_machine import Machine, start_gateway

SAYS_HOW_IT_WAS_STARTED = """
init()
prompt()
started = [os.path.basename(sys.argv[0]), *sys.argv[1:]]
text("working")
result(json.dumps(started))
"""


class Workshop(Machine):
    @property
    def env(self) -> dict[str, str]:
        path = f"{self.home / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return super().env | {"PATH": path, "IS_SANDBOX": "1"}

    def profile(self, name: str, command: str, *more: str) -> Any:
        return self.json("runtime", "profile", "create", name, "--family", "claude", "--command", command, *more)

    def runtime_of(self, profile: Any, status: str) -> Any:
        """Its runtime here, as soon as it has that status."""

        def found() -> Any:
            runtimes = self.json("runtime", "list")
            assert isinstance(runtimes, list)
            return next((r for r in runtimes if r["profile_id"] == profile["id"] and r["status"] == status), None)

        return eventually(found, 40, f"({profile['display_name']} {status}; {self.json('runtime', 'list')})")

    def started(self, agent: str) -> list[str]:
        """How the agent's CLI was started for a new task."""
        done = self.run("run", "go", "--agent", agent, "--follow", "--output", "json")
        assert done.returncode == 0, done.stderr
        return list(json.loads(json.loads(done.stdout)["output"]))

    def api(self, method: str, path: str, body: Any, token: str = "") -> Any:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        answer = httpx.request(method, f"{self.url}{path}", json=body, headers=headers)
        assert answer.is_success, answer.text
        return answer.json()


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    home = tmp_path_factory.mktemp("home")
    (home / "bin").mkdir()
    fake_cli(home / "bin", SAYS_HOW_IT_WAS_STARTED, "team-claude")
    gateway, url = start_gateway(home)
    machine = Workshop(home, url, gateway)
    try:
        done = machine.run("login", "--server", url, "--bootstrap", str(home / "server" / "bootstrap.secret"))
        assert done.returncode == 0, done.stderr
        started = machine.run("daemon", "start")
        assert started.returncode == 0, started.stderr
        yield machine
    finally:
        machine.run("daemon", "stop", "--now")
        gateway.send_signal(signal.SIGTERM)
        gateway.communicate(timeout=30)


@pytest.fixture(scope="module")
def team(machine: Workshop) -> Any:
    """A profile with its runtime online and an agent on it."""
    profile = machine.profile("Team Claude", "team-claude", "--arg", "start", "--arg", "q 36;$(id)")
    runtime = machine.runtime_of(profile, "online")
    made = machine.run("agent", "create", "cleo", "--runtime", runtime["id"])
    assert made.returncode == 0, made.stderr
    return profile


def test_a_profiles_runtime_has_its_name_its_family_and_the_commands_version(machine: Workshop, team: Any) -> None:
    runtime = machine.runtime_of(team, "online")
    assert runtime["name"].startswith("Team Claude (")
    assert (runtime["provider"], runtime["version"]) == ("claude", "2.1.332 (fake)")
    providers = {r["provider"] for r in machine.json("runtime", "list") if not r["profile_id"]}  # type: ignore[attr-defined]  # a list
    assert providers == {"echo"}, "there is no claude of its own on this machine"


def test_a_task_runs_the_command_with_its_fixed_arguments_before_the_adapters_and_no_shell_between(
    machine: Workshop, team: Any
) -> None:
    command, *args = machine.started("cleo")
    assert (command, args[:2]) == ("team-claude", ["start", "q 36;$(id)"])
    assert "--output-format" in args[2:]


def test_the_command_may_lie_elsewhere_on_this_machine_and_the_server_never_learns_where(
    machine: Workshop, team: Any, tmp_path: Path
) -> None:
    other = fake_cli(tmp_path, SAYS_HOW_IT_WAS_STARTED, "elsewhere")
    done = machine.run("runtime", "profile", "path", "team claude", str(other))
    assert done.returncode == 0, done.stderr
    assert "elsewhere" in done.stderr
    eventually(lambda: machine.started("cleo")[0] == "elsewhere", 40)
    assert str(tmp_path) not in json.dumps(
        [machine.json("runtime", "list"), machine.json("runtime", "profile", "list")]
    )
    assert (machine.home / "config" / "runtime-profiles.toml").stat().st_mode & 0o077 == 0
    assert machine.run("runtime", "profile", "path", "team claude", "--unset").returncode == 0
    eventually(lambda: machine.started("cleo")[0] == "team-claude", 40)


def test_a_changed_profile_is_what_the_next_task_runs(machine: Workshop, team: Any) -> None:
    machine.json("runtime", "profile", "update", team["id"], "--arg", "resume")
    eventually(lambda: machine.started("cleo")[1] == "resume", 40)


@pytest.mark.slow
def test_a_disabled_profile_is_offline_and_an_enabled_one_comes_back(machine: Workshop, team: Any) -> None:
    machine.json("runtime", "profile", "update", team["id"], "--disable")
    assert machine.runtime_of(team, "offline")["offline_reason"] == {"code": "profile_disabled"}
    machine.json("runtime", "profile", "update", team["id"], "--enable")
    machine.runtime_of(team, "online")


@pytest.mark.slow
def test_a_command_that_is_not_there_is_an_offline_runtime_that_says_so(machine: Workshop) -> None:
    profile = machine.profile("Nowhere", "no-such-command")
    reason = machine.runtime_of(profile, "offline")["offline_reason"]
    assert reason["code"] == "profile_failed"
    assert "no-such-command is not on PATH" in reason["detail"]
    assert "no-such-command" in machine.run("runtime", "get", "Nowhere (" + os.uname().nodename + ")").stdout
    assert machine.run("runtime", "profile", "delete", "nowhere", "--yes").returncode == 0
    assert all(r["profile_id"] != profile["id"] for r in machine.json("runtime", "list"))  # type: ignore[attr-defined]  # a list


@pytest.mark.slow
def test_what_another_member_says_is_run_only_once_it_was_accepted_here(machine: Workshop) -> None:
    """Nothing of it before: not even its version is asked for."""
    trace = machine.home / "trace"
    script = machine.home / "bin" / "traced"
    script.write_text(f'#!/bin/sh\necho "$@" >> {trace}\necho 2.1.332\n')
    script.chmod(0o755)
    token = machine.json("token", "create", "for-the-test")["token"]  # type: ignore[index]  # an object
    code = machine.api("POST", "/api/invitations", {"role": "admin"}, token)["code"]
    bob = machine.api("POST", "/api/invitations/accept", {"code": code, "name": "Bob"})["token"]
    me = machine.api("GET", "/api/me", None, bob)
    path = f"/api/workspaces/{me['workspace_id']}/runtime-profiles"
    body = {"display_name": "Bobs", "protocol_family": "claude", "command_name": "traced", "fixed_args": ["--one"]}
    profile = machine.api("POST", path, body, bob)
    assert ask_to_look(paths_for("", machine.env))
    reason = machine.runtime_of(profile, "offline")["offline_reason"]["detail"]
    assert f"callboard runtime profile path {profile['id']}" in reason
    assert not trace.exists()
    assert machine.run("runtime", "profile", "path", profile["id"]).returncode == 0
    machine.runtime_of(profile, "online")
    assert "--one --version" in trace.read_text()
    trace.unlink()
    # Nobody tells this machine now: it hears of the change with its next heartbeat.
    machine.api("PATCH", f"{path}/{profile['id']}", {"fixed_args": ["--two"]}, bob)
    assert "changed what it runs" in machine.runtime_of(profile, "offline")["offline_reason"]["detail"]
    assert not trace.exists()


@pytest.mark.slow
def test_a_runtime_is_renamed_limited_opened_and_its_bill_is_read(machine: Workshop, team: Any) -> None:
    runtime = machine.runtime_of(team, "online")["id"]
    assert machine.json("runtime", "rename", runtime, "the fast one")["custom_name"] == "the fast one"  # type: ignore[index]  # an object
    changed = machine.json("runtime", "set", "The Fast One", "--visibility", "public", "--max-concurrent-tasks", "2")
    assert isinstance(changed, dict)
    assert (changed["visibility"], changed["max_concurrent_tasks"]) == ("public", 2)
    assert machine.json("runtime", "set", runtime, "--no-limit")["max_concurrent_tasks"] is None  # type: ignore[index]  # an object
    shown = machine.run("runtime", "get", "the fast one").stdout
    assert "every member" in shown
    assert machine.json("runtime", "rename", runtime)["custom_name"] == ""  # type: ignore[index]  # an object
    scout = machine.run("agent", "create", "scout", "--provider", "echo")
    assert scout.returncode == 0, scout.stderr
    assert machine.run("run", "hello", "--agent", "scout", "--follow").returncode == 0
    echo = next(r["id"] for r in machine.json("runtime", "list") if r["provider"] == "echo")  # type: ignore[attr-defined]  # a list
    [row] = machine.json("runtime", "usage", echo)  # type: ignore[misc]  # a list
    assert (row["provider"], row["runs"]) == ("echo", 1)
    [hour] = machine.json("runtime", "usage", echo, "--by", "hour")  # type: ignore[misc]  # a list
    assert hour["runs"] == 1
    assert "not stated" in machine.run("runtime", "usage", echo).stdout


@pytest.mark.slow
def test_a_runtime_in_use_is_not_deleted_and_the_agents_are_named(machine: Workshop, team: Any) -> None:
    refused = machine.run("runtime", "profile", "delete", "Team Claude", "--yes")
    assert refused.returncode == 1
    assert "'cleo'" in refused.stderr
    runtime = machine.runtime_of(team, "online")["id"]
    assert "online" in machine.run("runtime", "delete", runtime, "--yes").stderr


@pytest.mark.slow
def test_a_machine_that_is_gone_for_good_is_taken_from_its_agents_and_deleted(machine: Workshop) -> None:
    token = machine.json("token", "create", "attic")["token"]  # type: ignore[index]  # an object
    body = {"daemon_id": "attic", "device_name": "attic", "runtimes": [{"name": "echo (attic)", "type": "echo"}]}
    registered = machine.api("POST", "/api/daemon/register", body, token)
    runtime = registered["runtimes"][0]["id"]
    assert machine.run("agent", "create", "old", "--runtime", runtime).returncode == 0
    machine.api("POST", "/api/daemon/deregister", {"runtime_ids": [runtime]}, registered["daemon_token"])
    assert "'old'" in machine.run("runtime", "delete", "echo (attic)", "--yes").stderr
    asked = machine.run("runtime", "delete", "echo (attic)", "--unbind", stdin="n\n")
    assert "take it from old" in asked.stderr
    assert machine.json("runtime", "delete", "echo (attic)", "--unbind", "--yes") == {"id": runtime, "deleted": True}
    assert machine.run("runtime", "get", runtime).returncode == 4
    assert machine.json("agent", "get", "old")["runtime_id"] == ""  # type: ignore[index]  # an object


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("get", "nobody"), 4, "There is no runtime 'nobody' here."),
        (("set", "x"), 5, "say what to change"),
        (("set", "x", "--no-limit", "--max-concurrent-tasks", "2"), 5, "exclude each other"),
        (("profile", "create", "a", "--family", "claude", "--command", "a b"), 5, "command_name"),
        (("profile", "create", "a", "--family", "basic", "--command", "a"), 5, "known are"),
        (("profile", "update", "team claude"), 5, "say what to change"),
        (("profile", "delete", "nobody", "--yes"), 4, "There is no runtime profile 'nobody' here."),
        (("profile", "path", "team claude", "bin/x"), 5, "not an absolute path"),
        (("profile", "path", "team claude", "/no/such/file"), 5, "there is no program"),
    ],
)
def test_every_error_is_a_sentence_with_its_exit_code(
    machine: Workshop, team: Any, args: tuple[str, ...], code: int, words: str
) -> None:
    done = machine.run("runtime", *args)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert done.stdout == ""


def test_an_agent_does_not_say_what_runs_on_the_machine(machine: Workshop, team: Any) -> None:
    refused = machine.run("runtime", "profile", "path", "team claude", MULTICA_TASK_ID="t-1")
    assert refused.returncode == 3
    assert "is for people" in refused.stderr
