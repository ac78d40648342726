"""What happens to tasks when the daemon, its machine or its server misbehave."""

from __future__ import annotations

import json
import os
import resource
import signal
import stat
import subprocess
from pathlib import Path

import psutil
import pytest

from callboard_wire.states import TaskStatus
from tests.fakes.control_plane import PERSON_TOKEN, ControlPlane, Fault
from tests.fakes.daemon_process import COMMAND, eventually, running_daemon
from tests.integration.daemon.conftest import MakeDaemon


def processes_of(task_id: str) -> list[int]:
    """Every living process that carries the run's mark, however it detached itself."""
    found = []
    for process in psutil.process_iter():
        try:
            marked = process.environ().get("CALLBOARD_RUN_ID", "").startswith(task_id)
            if marked and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def test_a_killed_daemon_leaves_no_process_and_its_successor_hands_the_task_back(
    plane: ControlPlane, tmp_path: Path, make_daemon: MakeDaemon
) -> None:
    daemon = make_daemon().start()
    task_id = plane.enqueue("!say before the crash\n!spawn 300\n!sleep 300")
    plane.wait_for(lambda: bool(plane.tasks[task_id].messages))
    eventually(lambda: len(processes_of(task_id)) >= 2)
    daemon.kill()
    with running_daemon(tmp_path, plane.url, PERSON_TOKEN):
        task = plane.wait_ended(task_id)
        assert processes_of(task_id) == []
        assert task.status is TaskStatus.FAILED
        assert task.ending["failure_reason"] == "runtime_recovery"
        assert task.ending["session_id"]
        assert task.text == "before the crash"
        assert all(task_id in keep for _, keep in plane.recovered[1:])
        eventually(lambda: not list((tmp_path / "state" / "runs").iterdir()))


def test_messages_that_a_killed_daemon_could_not_send_are_sent_by_its_successor(
    plane: ControlPlane, tmp_path: Path, make_daemon: MakeDaemon
) -> None:
    daemon = make_daemon().start()
    task_id = plane.enqueue("!say sent\n!sleep 1\n!tool a not\n!tool b sent\n!sleep 300")
    plane.wait_for(lambda: bool(plane.tasks[task_id].messages))
    plane.down = True
    spool = next((tmp_path / "state" / "runs").glob("*/spool.jsonl"))
    eventually(lambda: spool.read_text().count("\n") >= 5)
    daemon.kill()
    with spool.open("ab") as file:
        file.write(b'{"seq": 6, "type": "te')  # a line the crash tore
    plane.down = False
    with running_daemon(tmp_path, plane.url, PERSON_TOKEN):
        task = plane.wait_ended(task_id)
    assert [m.type for m in task.messages[:5]] == ["text", "tool_use", "tool_result", "tool_use", "tool_result"]
    assert task.messages[5].level == "warn"


def test_an_ending_survives_an_outage_and_a_restart_and_arrives_once(
    plane: ControlPlane, tmp_path: Path, make_daemon: MakeDaemon
) -> None:
    daemon = make_daemon().start()
    task_id = plane.enqueue("!sleep 1\n!usage 8 9\n!answer the result")
    plane.wait_for(lambda: plane.tasks[task_id].status is TaskStatus.RUNNING)
    plane.down = True
    eventually(lambda: list((tmp_path / "state" / "runs").glob("*/ending.json")))
    daemon.kill()
    plane.down = False
    with running_daemon(tmp_path, plane.url, PERSON_TOKEN):
        task = plane.wait_ended(task_id)
        eventually(lambda: not list((tmp_path / "state" / "runs").iterdir()))
    assert (task.status, task.ending["output"]) == (TaskStatus.COMPLETED, "the result")
    assert task.usage[0].output_tokens == 9
    assert plane.count("complete") == 1
    assert task_id in plane.recovered[-1][1]


def test_a_task_claimed_but_not_begun_when_the_daemon_died_goes_back_to_the_queue(
    plane: ControlPlane, tmp_path: Path, make_daemon: MakeDaemon
) -> None:
    plane.fail_next("start", *[Fault.NO_ANSWER] * 50)
    daemon = make_daemon().start()
    task_id = plane.enqueue("!answer at last")
    plane.wait_for(lambda: plane.tasks[task_id].status is TaskStatus.DISPATCHED)
    record = eventually(lambda: next((tmp_path / "state" / "runs").glob("*/run.json"), None))
    eventually(lambda: json.loads(record.read_text())["work_dir"])
    daemon.kill()
    stored = json.loads(record.read_text()) | {"started": False}
    record.write_text(json.dumps(stored))
    with plane.changed:
        plane.faults["start"].clear()
    with running_daemon(tmp_path, plane.url, PERSON_TOKEN):
        task = plane.wait_ended(task_id)
    assert task.history[:4] == ["claim", "recovered", "claim", "start"]
    assert task.ending["output"] == "at last"


def test_sigterm_lets_a_short_task_finish_and_says_goodbye(
    plane: ControlPlane, tmp_path: Path, make_daemon: MakeDaemon
) -> None:
    daemon = make_daemon(drain_timeout="20s").start()
    task_id = plane.enqueue("!say on it\n!sleep 1\n!answer finished")
    plane.wait_for(lambda: plane.tasks[task_id].status is TaskStatus.RUNNING)
    assert daemon.stop() == 0
    assert plane.tasks[task_id].ending["output"] == "finished"
    assert plane.calls[-1] == "deregister"
    assert not plane.online
    assert not daemon.paths.record_file.exists()


def test_sigterm_hands_back_what_does_not_finish_in_time(
    plane: ControlPlane, tmp_path: Path, make_daemon: MakeDaemon
) -> None:
    daemon = make_daemon(drain_timeout="500ms").start()
    task_id = plane.enqueue("!say on it\n!usage 4 5\n!spawn 300\n!sleep 300")
    plane.wait_for(lambda: bool(plane.tasks[task_id].session_id))
    later = plane.enqueue("!answer not for this daemon")
    plane.wait_for(lambda: plane.tasks[later].status is not TaskStatus.QUEUED)
    assert daemon.stop() == 0
    task = plane.tasks[task_id]
    assert (task.status, task.ending["failure_reason"]) == (TaskStatus.FAILED, "runtime_recovery")
    assert task.ending["session_id"]
    assert processes_of(task_id) == []


def test_a_second_daemon_of_the_profile_is_refused_and_named(plane: ControlPlane, tmp_path: Path) -> None:
    with running_daemon(tmp_path, plane.url, PERSON_TOKEN) as daemon:
        second = subprocess.run(
            [*COMMAND, "daemon", "start", "--foreground"], env=daemon.env, capture_output=True, text=True, timeout=30
        )
        assert second.returncode == 1
        assert f"pid {daemon.process.pid}" in second.stderr
        assert "Traceback" not in second.stderr
        assert daemon.status() == "running"
        assert plane.wait_ended(plane.enqueue("!answer still here")).status is TaskStatus.COMPLETED


def test_a_stale_record_with_the_pid_of_somebody_else_harms_nobody(
    plane: ControlPlane, tmp_path: Path, make_daemon: MakeDaemon
) -> None:
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        daemon = make_daemon()
        daemon.paths.state_dir.mkdir(parents=True)
        daemon.paths.lock_file.touch()
        daemon.paths.record_file.write_text(
            json.dumps(
                {"pid": bystander.pid, "created": 1.0, "port": 1, "secret": "x", "version": "0", "server_url": ""}
            )
        )
        stopped = subprocess.run(
            [*COMMAND, "daemon", "stop"], env=daemon.env, capture_output=True, text=True, timeout=30
        )
        assert stopped.returncode == 0
        assert "not running" in stopped.stderr
        daemon.start()
        daemon.stop()
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_cli_that_vanished_fails_its_task_with_a_clear_reason(plane: ControlPlane, tmp_path: Path) -> None:
    tool = tmp_path / "my-echo"
    python = Path(COMMAND[0])
    tool.write_text(f'#!/bin/sh\nexec {python} "$@"\n')
    tool.chmod(0o755)
    with running_daemon(tmp_path, plane.url, PERSON_TOKEN, echo_path=str(tool)):
        assert plane.wait_ended(plane.enqueue("!answer ok")).status is TaskStatus.COMPLETED
        tool.unlink()
        task = plane.wait_ended(plane.enqueue("!answer ok"))
        assert task.ending["failure_reason"] == "agent_error.runtime_missing_executable"
        assert str(tool) in task.ending["error"]
        tool.write_text("not a program")
        tool.chmod(0o644)
        task = plane.wait_ended(plane.enqueue("!answer ok"))
        assert "not executable" in task.ending["error"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a tiny file system")
def test_a_full_disk_fails_the_task_clearly_and_the_next_one_runs_when_there_is_room(
    plane: ControlPlane, tmp_path: Path
) -> None:
    root = tmp_path / "small"
    root.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(root)], check=False).returncode:
        pytest.skip("mounting is not allowed here")
    filler = root / "filler"
    try:
        with running_daemon(tmp_path, plane.url, PERSON_TOKEN, workspaces_root=str(root)):
            filler.write_bytes(b"x" * 60 * 1024)
            with filler.open("ab", buffering=0) as file:
                try:
                    while file.write(b"x" * 512):
                        pass
                except OSError:
                    pass
            task = plane.wait_ended(plane.enqueue("!answer ok", agent={"instructions": "long " * 2000}))
            assert task.status is TaskStatus.FAILED
            assert "no space is left on the device" in task.ending["error"]
            assert "CALLBOARD_WORKSPACES_ROOT" in task.ending["error"]
            filler.unlink()
            assert plane.wait_ended(plane.enqueue("!answer ok")).status is TaskStatus.COMPLETED
    finally:
        subprocess.run(["umount", "-l", str(root)], check=True)


def test_a_disk_that_takes_no_more_of_the_transcript_costs_nothing_of_it(
    plane: ControlPlane, tmp_path: Path, make_daemon: MakeDaemon
) -> None:
    def small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))

    daemon = make_daemon(log_level="error")
    daemon.env["PYTHONDONTWRITEBYTECODE"] = "1"  # a module compiled under this limit is cut off for everybody else
    daemon.start(preexec_fn=small_files)
    try:
        steps = "\n".join(f"!tool t{n} {'x' * 400}" for n in range(40))
        task = plane.wait_ended(plane.enqueue(f"{steps}\n!answer all of it"))
        assert task.ending["output"] == "all of it"
        assert [m.seq for m in task.messages] == list(range(1, 81))
    finally:
        daemon.stop()


def test_a_state_folder_of_somebody_else_stops_the_start_with_a_sentence(
    plane: ControlPlane, tmp_path: Path, make_daemon: MakeDaemon
) -> None:
    daemon = make_daemon()
    daemon.paths.state_dir.parent.mkdir(parents=True, exist_ok=True)
    daemon.paths.state_dir.write_text("a file where a folder should be")
    ended = subprocess.run(
        [*COMMAND, "daemon", "start", "--foreground"], env=daemon.env, capture_output=True, text=True, timeout=30
    )
    assert ended.returncode == 1
    assert str(daemon.paths.state_dir) in ended.stderr
    assert "Traceback" not in ended.stderr


def test_what_the_daemon_keeps_is_for_its_user_alone(plane: ControlPlane, tmp_path: Path) -> None:
    with running_daemon(tmp_path, plane.url, PERSON_TOKEN) as daemon:
        task_id = plane.enqueue("!say hi\n!sleep 30", agent={"custom_env": {"CANARY": "zq-canary-value"}})
        plane.wait_for(lambda: bool(plane.tasks[task_id].session_id))
        for path in daemon.paths.state_dir.rglob("*"):
            if daemon.paths.bin_dir not in (path, *path.parents):
                assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
            if path.is_file():
                assert b"mat_" not in path.read_bytes(), path
                assert b"zq-canary" not in path.read_bytes(), path
        plane.cancel(task_id)
    assert "mat_" not in daemon.log()
    assert PERSON_TOKEN not in daemon.log() + daemon.output()


def test_secrets_of_an_agent_do_not_reach_the_transcript(plane: ControlPlane, tmp_path: Path) -> None:
    agent = {"custom_env": {"DEPLOY": "zq-canary-value", "HOME": "/nowhere", "MULTICA_TOKEN": "mat_forged"}}
    with running_daemon(tmp_path, plane.url, PERSON_TOKEN):
        steps = ["env DEPLOY", "env MULTICA_TOKEN", "tool show zq-canary-value", "write f zq-canary-value", "env HOME"]
        prompt = "\n".join(f"!{step}" for step in [*steps, "fail zq-canary-value"])
        task = plane.wait_ended(plane.enqueue(prompt, agent=agent))
    everything = "".join(m.model_dump_json() for m in task.messages) + json.dumps(task.ending)
    assert "zq-canary" not in everything
    assert "mat_" not in everything
    assert "were left out: HOME, MULTICA_TOKEN" in everything
    assert "/nowhere" not in everything
    assert (Path(task.work_dir) / "f").read_text() == "zq-canary-value", "the agent's own files hold real bytes"


def test_an_agent_sees_its_own_surroundings_and_nothing_of_the_daemon(
    plane: ControlPlane, tmp_path: Path, make_daemon: MakeDaemon
) -> None:
    hidden = ("CALLBOARD_TOKEN", "CALLBOARD_HOME", "CLAUDECODE", "AWS_SECRET_ACCESS_KEY")
    ours = ("SERVER_URL", "WORKSPACE_ID", "AGENT_NAME", "AGENT_ID", "TASK_ID", "DAEMON_PORT", "TASK_SLOT")
    daemon = make_daemon()
    daemon.env |= {"CLAUDECODE": "1", "MULTICA_TOKEN": "somebody-elses", "AWS_SECRET_ACCESS_KEY": "of-the-daemon"}
    daemon.start()
    names = [*(f"MULTICA_{name}" for name in ours), "TMPDIR", "PATH", *hidden]
    task = plane.wait_ended(plane.enqueue("\n".join(f"!say {name}=\n!env {name}\n!say ;" for name in names)))
    seen = dict(part.split("=", 1) for part in task.text.split(";") if part)
    values = [seen[f"MULTICA_{name}"] for name in ours]
    assert values == [plane.url, "ws-1", "scout", "agent-1", task.id, str(daemon.port()), "0"]
    assert seen["PATH"].split(":")[0] == str(tmp_path / "state" / "bin")
    assert seen["TMPDIR"].startswith(str(tmp_path / "workspaces"))
    assert [seen[name] for name in hidden] == [""] * 4
    daemon.stop()
