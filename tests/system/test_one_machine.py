"""Gateway, daemon and command line as real processes on one machine: what a user types, and what they then see."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fakes.daemon_process import COMMAND, DaemonProcess, eventually

ENDED = ("completed", "failed", "cancelled")


@dataclass
class Machine:
    """A user's machine: a home, a running gateway, a login; `run` types a command."""

    home: Path
    url: str
    gateway: subprocess.Popen[str]

    @property
    def env(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "CALLBOARD_HOME": str(self.home),
            "CALLBOARD_LOGIN_SHELL": "false",
            "CALLBOARD_PROVIDERS": "echo",
            "CALLBOARD_DRAIN_TIMEOUT": "1s",
        }

    def run(self, *args: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *args],
            env=self.env | env,
            cwd=self.home,
            input=stdin,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=60,
        )

    def json(self, *args: str) -> object:
        done = self.run(*args, "--output", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def task(self, task_id: str) -> dict[str, object]:
        found = self.json("task", "get", task_id)
        assert isinstance(found, dict)
        return found


def start_gateway(home: Path, port: int = 0) -> tuple[subprocess.Popen[str], str]:
    with (home / "gateway.log").open("a") as log:
        process = subprocess.Popen(
            [*COMMAND, "up", "--data", str(home / "server"), "--port", str(port)],
            env={"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdout is not None
    first = process.stdout.readline()
    found = re.search(r"http://[\d.]+:\d+", first)
    assert found, first + (home / "gateway.log").read_text()
    return process, found[0]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    home = tmp_path_factory.mktemp("home")
    gateway, url = start_gateway(home)
    machine = Machine(home, url, gateway)
    try:
        secret = home / "server" / "bootstrap.secret"
        done = machine.run("login", "--server", url, "--bootstrap", str(secret), "--name", "ada")
        assert done.returncode == 0, done.stderr
        started = machine.run("daemon", "start")
        assert started.returncode == 0, started.stderr
        made = machine.run("agent", "create", "scout", "--description", "an echo")
        assert made.returncode == 0, made.stderr
        yield machine
    finally:
        machine.run("daemon", "stop", "--now")
        machine.gateway.send_signal(signal.SIGTERM)
        machine.gateway.communicate(timeout=30)
    assert machine.gateway.returncode == 0


def test_a_task_is_streamed_and_ends_with_result_usage_and_files(machine: Machine) -> None:
    prompt = "!think hm\n!say working\n!write out.txt hi\n!usage 1200 34\n!answer all done"
    done = machine.run("run", prompt, "--agent", "scout", "--follow")
    assert done.returncode == 0, done.stderr
    for shown in ("hm", "working", "▸ Write file_path=out.txt", "completed", "echo-1: 1,200 in, 34 out", "files: "):
        assert shown in done.stdout
    folder = done.stdout.partition("files: ")[2].strip()
    assert (Path(folder) / "out.txt").read_text() == "hi"
    assert "\x1b" not in done.stdout


def test_a_failed_task_ends_the_command_with_1_and_says_why(machine: Machine) -> None:
    done = machine.run("run", "!status 401\n!fail please log in", "--agent", "scout", "--follow")
    assert done.returncode == 1
    assert "please log in" in done.stdout
    assert "provider_auth_or_access" in done.stdout


def test_json_is_alone_on_stdout_and_everything_else_on_stderr(machine: Machine) -> None:
    done = machine.run("run", "!say chatter\n!answer ok", "--agent", "scout", "--follow", "--output", "json")
    task = json.loads(done.stdout)
    assert (task["status"], task["output"]) == ("completed", "ok")
    assert "chatter" in done.stderr
    messages = machine.json("task", "messages", str(task["id"]))
    assert [m["content"] for m in messages if m["type"] == "text"] == ["chatter"]
    for command in (["agent", "list"], ["agent", "get", "scout"], ["runtime", "list"], ["task", "list"], ["whoami"]):
        assert machine.json(*command)
    assert machine.json("daemon", "status")["status"] == "running"
    assert machine.json("version")["version"]


def test_the_prompt_may_come_from_stdin_and_without_follow_the_id_is_all(machine: Machine) -> None:
    done = machine.run("run", "-", "--agent", "scout", stdin="!answer from stdin")
    task_id = done.stdout.strip()
    eventually(lambda: machine.task(task_id)["status"] == "completed", timeout=30)
    assert machine.task(task_id)["output"] == "from stdin"
    shown = machine.run("task", "get", task_id)
    assert "from stdin" in shown.stdout
    assert "complete" in shown.stdout
    assert task_id in machine.run("task", "list").stdout


def test_a_conversation_goes_on_in_its_own_folder(machine: Machine) -> None:
    first = json.loads(
        machine.run("run", "!write note.txt remember", "--agent", "scout", "--follow", "--output", "json").stdout
    )
    again = machine.run(
        "run", "!read note.txt", "--agent", "scout", "--resume", first["id"], "--follow", "--output", "json"
    )
    second = json.loads(again.stdout)
    assert second["status"] == "completed", second
    assert second["work_dir"] == first["work_dir"]
    assert second["session_id"] == first["session_id"]
    assert "remember" in again.stderr


def test_a_cancelled_task_ends_on_its_machine_and_its_follower_ends_with_1(machine: Machine) -> None:
    task_id = machine.run("run", "!say started\n!sleep 120", "--agent", "scout").stdout.strip()
    eventually(lambda: machine.task(task_id)["status"] == "running", timeout=30)
    with subprocess.Popen(
        [*COMMAND, "task", "messages", task_id, "--follow"],
        env=machine.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as follower:
        cancelled = machine.run("task", "cancel", task_id)
        assert cancelled.returncode == 0, cancelled.stderr
        out, _ = follower.communicate(timeout=30)
    assert follower.returncode == 1
    assert "cancelled" in out
    eventually(lambda: machine.json("daemon", "status")["running_tasks"] == 0, timeout=30)


def test_ctrl_c_leaves_the_task_running_and_says_how_to_go_on(machine: Machine) -> None:
    with subprocess.Popen(
        [*COMMAND, "run", "!say here\n!sleep 8\n!answer survived", "--agent", "scout", "--follow"],
        env=machine.env | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as runner:
        assert runner.stdout is not None
        assert runner.stdout.readline() == "here\n"
        runner.send_signal(signal.SIGINT)
        _, err = runner.communicate(timeout=30)
    assert runner.returncode == 130
    assert "callboard task cancel " in err
    task_id = err.rpartition("task cancel ")[2].split()[0]
    eventually(lambda: machine.task(task_id)["output"] == "survived", timeout=30)


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["task", "get", "no-such-task"], 4, "no-such-task"),
        (["agent", "get", "nobody"], 4, "nobody"),
        (["run", "hi", "--agent", "nobody"], 4, "nobody"),
        (["run", "   ", "--agent", "scout"], 5, "empty"),
        (["run", "hi"], 5, "--agent"),
        (["run", "hi", "--agent", "scout", "--timeout", "soon"], 5, "soon"),
        (["run", "hi", "--agent", ""], 5, "agent"),
        (["run", "hi", "--agent", "scout", "--idempotency-key", "k" * 5000], 5, "idempotency_key"),
        (["run", "hi \udcff", "--agent", "scout"], 5, "prompt"),
        (["run", "-", "--agent", "scout"], 5, "UTF-8"),
        (["agent", "create", "n" * 500], 5, "name"),
        (["agent", "create", "x", "--instructions-file", "binary"], 5, "UTF-8"),
        (["agent", "create", "x", "--provider", "claude"], 5, "No runtime of 'claude' is online"),
        (["task", "get", ""], 4, "no task ''"),
        (["task", "get", ".."], 4, "no task '..'"),
        (["task", "cancel", "../agents/scout/archive?"], 4, "no task"),
        (["task", "get", "\udcff"], 4, "no task"),
        (["task", "list", "--agent", "\udcff"], 4, "no agent"),
        (["queue", "--agent", "no/body"], 4, "no agent 'no/body'"),
        (["frobnicate"], 5, "frobnicate"),
        (["--server", "http://127.0.0.1:1", "login", "--token-stdin"], 5, "mul_"),
        (["agent", "create", "scout"], 1, "scout"),
        (["daemon", "start"], 1, "already runs"),
    ],
)
def test_every_error_is_a_sentence_with_its_exit_code(machine: Machine, args: list[str], code: int, words: str) -> None:
    (machine.home / "binary").write_bytes(b"\x7fELF\xff\xfe")
    done = machine.run(*args, stdin="not-a-token-but-a-secret \udcff\n")
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert "secret" not in done.stderr


@pytest.mark.parametrize("name", ["Q/A", "why?", "50%", "..", "#1 & co", "käthe"])
def test_an_agent_is_found_by_whatever_name_it_was_given(machine: Machine, name: str) -> None:
    made = machine.json("agent", "create", name)
    assert machine.json("agent", "get", name) == made
    assert machine.json("queue", "--agent", name) == []
    done = machine.run("run", "!answer done", "--agent", name, "--follow")
    assert done.returncode == 0, done.stderr


def test_an_unreachable_server_is_exit_code_2_and_a_bad_token_3(machine: Machine) -> None:
    away = machine.run("whoami", CALLBOARD_SERVER_URL="http://127.0.0.1:1", CALLBOARD_TOKEN="mul_x_y")
    assert away.returncode == 2, away.stderr
    assert "http://127.0.0.1:1" in away.stderr
    wrong = machine.run("whoami", CALLBOARD_SERVER_URL=machine.url, CALLBOARD_TOKEN="mul_x_y")
    assert wrong.returncode == 3, wrong.stderr
    assert "mul_x_y" not in wrong.stderr


def test_a_token_is_never_sent_to_another_server_than_its_own(machine: Machine) -> None:
    done = machine.run("--server", "http://127.0.0.1:1", "whoami")
    assert done.returncode == 3
    assert "not logged in" in done.stderr


def test_inside_a_task_the_command_line_is_the_agent_and_nobody_else(machine: Machine) -> None:
    task_id = machine.run("run", "!say go\n!sleep 60", "--agent", "scout").stdout.strip()
    workdir = eventually(lambda: machine.task(task_id)["work_dir"], timeout=30)
    lost = subprocess.run(
        [*COMMAND, "whoami"], env=machine.env, cwd=str(workdir), capture_output=True, text=True, timeout=30
    )
    assert lost.returncode == 3
    assert "MULTICA_" in lost.stderr
    refused = machine.run("daemon", "stop", MULTICA_TASK_ID=task_id)
    assert refused.returncode == 3
    assert "for people" in refused.stderr
    persons = machine.run(
        "whoami", MULTICA_TASK_ID=task_id, MULTICA_TOKEN="mul_persons", MULTICA_SERVER_URL=machine.url
    )
    assert persons.returncode == 3
    machine.run("task", "cancel", task_id)


def test_logout_forgets_and_login_with_a_token_from_stdin_works_again(machine: Machine) -> None:
    token = json.loads((machine.home / "config" / "credentials.json").read_text())["token"]
    assert machine.run("logout").returncode == 0
    assert machine.run("whoami").returncode == 3
    done = machine.run("login", "--server", machine.url, "--token-stdin", stdin=token + "\n")
    assert done.returncode == 0, done.stderr
    assert token not in done.stdout + done.stderr
    assert machine.json("whoami")["name"] == "ada"


def test_another_machine_logs_in_with_a_token_until_it_is_revoked(machine: Machine) -> None:
    made = machine.run("token", "create", "laptop", "--days", "7")
    token = made.stdout.strip()
    token_id = made.stderr.split()[-1]
    other = ("--profile", "other")
    done = machine.run(*other, "login", "--server", machine.url, "--token-stdin", stdin=token)
    assert done.returncode == 0, done.stderr
    listed = machine.run("token", "list")
    assert "laptop" in listed.stdout
    assert token not in listed.stdout
    assert machine.run(*other, "whoami").returncode == 0
    assert machine.run("token", "revoke", token_id).returncode == 0
    assert machine.run(*other, "whoami").returncode == 3
    assert machine.run("token", "revoke", "nobodys").returncode == 4
    assert machine.run("token", "create", "x", MULTICA_TASK_ID="t").returncode == 3


def test_a_restart_keeps_the_options_and_refuses_when_it_could_not_come_back(machine: Machine) -> None:
    assert machine.run("daemon", "stop").returncode == 0
    assert machine.run("daemon", "status").returncode == 4
    started = machine.run("daemon", "start", "--max-concurrent-tasks", "3")
    assert started.returncode == 0, started.stderr
    before = machine.json("daemon", "status")
    refused = machine.run("daemon", "restart", CALLBOARD_SERVER_URL=machine.url, CALLBOARD_TOKEN="mul_gone_x")
    assert refused.returncode == 3
    assert machine.json("daemon", "status")["pid"] == before["pid"]
    again = machine.run("daemon", "restart")
    assert again.returncode == 0, again.stderr
    after = machine.json("daemon", "status")
    assert after["pid"] != before["pid"]
    assert after["slots"] == 3
    logs = machine.run("daemon", "logs", "-n", "5")
    assert all(json.loads(line) for line in logs.stdout.splitlines())
    assert str(machine.home) in logs.stderr


def test_a_gateway_killed_in_the_middle_of_a_run_costs_nothing(machine: Machine) -> None:
    steps = "\n".join(f"!say step {n}\n!tool t {n}\n!sleep 0.1" for n in range(30))
    task_id = machine.run("run", f"{steps}\n!answer through", "--agent", "scout").stdout.strip()
    eventually(lambda: machine.task(task_id)["message_count"], timeout=30)
    machine.gateway.kill()
    machine.gateway.communicate()
    machine.gateway, url = start_gateway(machine.home, int(machine.url.rpartition(":")[2]))
    assert url == machine.url
    eventually(lambda: machine.task(task_id)["status"] in ENDED, timeout=50)
    task = machine.task(task_id)
    assert (task["status"], task["output"]) == ("completed", "through")
    said = machine.json("task", "messages", task_id)
    assert [m["content"] for m in said if m["type"] == "text"] == [f"step {n}" for n in range(30)]


def test_a_daemon_killed_in_the_middle_of_a_run_is_recovered_and_the_task_tried_again(machine: Machine) -> None:
    task_id = machine.run("run", "!say first\n!spawn 300\n!sleep 6\n!answer done", "--agent", "scout").stdout.strip()
    eventually(lambda: machine.task(task_id)["message_count"], timeout=30)
    os.kill(int(machine.json("daemon", "status")["pid"]), signal.SIGKILL)
    eventually(lambda: machine.run("daemon", "status").returncode == 4)
    started = machine.run("daemon", "start")
    assert started.returncode == 0, started.stderr
    eventually(lambda: machine.task(task_id)["status"] == "failed", timeout=30)
    task = machine.task(task_id)
    assert task["failure_reason"] == "runtime_recovery"
    retry = str(task["retried_by_task_id"])
    eventually(lambda: machine.task(retry)["status"] == "completed", timeout=50)
    assert machine.task(retry)["work_dir"] == task["work_dir"]


def test_colours_are_for_terminals_and_no_color_is_honoured(machine: Machine) -> None:
    def seen(**env: str) -> bytes:
        ours, theirs = pty.openpty()
        command = [*COMMAND, "run", "!say x\n!tool t y\n!answer z", "--agent", "scout", "--follow"]
        process = subprocess.Popen(
            command, env=machine.env | {"TERM": "xterm-256color"} | env, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        out = b""
        while True:
            try:
                chunk = os.read(ours, 65536)
            except OSError:
                break
            if not chunk:
                break
            out += chunk
        process.wait(30)
        os.close(ours)
        return out

    assert b"\x1b[36m" in seen()
    assert b"\x1b[36m" not in seen(NO_COLOR="1")


def test_the_demo_runs_by_itself_and_leaves_nothing_running(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "CALLBOARD_LOGIN_SHELL": "false"}
    done = subprocess.run(
        [*COMMAND, "demo", "--provider", "echo"], env=env, capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "result: I wrote hello.txt." in done.stdout
    assert "hello.txt holds: Hello from Callboard." in done.stderr
    home = next(tmp_path.glob("callboard-demo-*"))
    assert [entry.name for entry in home.iterdir()] == ["workspaces"]
    living = [p for p in DaemonProcess.processes() if str(tmp_path) in p]
    assert living == []


def test_shell_completion_is_printed_for_every_shell() -> None:
    for shell in ("bash", "zsh", "fish"):
        done = subprocess.run([*COMMAND, "completion", shell], capture_output=True, text=True, timeout=30)
        assert "_CALLBOARD_COMPLETE" in done.stdout
    words = {"COMP_WORDS": "callboard ta", "COMP_CWORD": "1", "_CALLBOARD_COMPLETE": "bash_complete"}
    done = subprocess.run(
        [str(Path(sys.executable).with_name("callboard"))],
        env=os.environ | words,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert "task" in done.stdout


def test_why_history_queue_and_rerun_answer_what_a_user_asks_of_a_task(machine: Machine) -> None:
    done = machine.json("run", "say hello", "--agent", "scout", "--follow")
    assert isinstance(done, dict)
    moves = machine.json("task", "history", str(done["id"]))
    assert isinstance(moves, list)
    assert [m["move"] for m in moves] == ["enqueue", "claim", "start", "complete"]
    assert "The task is completed." in machine.run("task", "why", str(done["id"])).stdout
    again = machine.json("task", "rerun", str(done["id"]))
    assert isinstance(again, dict)
    assert again["rerun_of_task_id"] == done["id"]
    eventually(lambda: machine.task(str(again["id"]))["status"] == "completed")
    assert machine.json("queue") == []


def test_doctor_finds_nothing_wrong_with_the_server_and_looks_at_a_provider(machine: Machine) -> None:
    report = machine.json("doctor", "--server")
    assert isinstance(report, dict)
    assert report["checked"] > 0
    assert report["offences"] == []
    missing = machine.run("doctor", "codex", "--output", "json", CALLBOARD_CODEX_PATH="/nowhere/codex")
    assert missing.returncode == 1
    assert json.loads(missing.stdout)[0]["code"] == "executable_missing"
