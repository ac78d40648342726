"""A daemon process, a control plane over real HTTP, and `echo` as the agent's CLI."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx

from callboard_wire.states import TaskStatus
from tests.fakes.control_plane import PERSON_TOKEN, ControlPlane, Fault
from tests.fakes.daemon_process import DaemonProcess, eventually, running_daemon
from tests.integration.daemon.conftest import MakeDaemon

Shared = tuple[ControlPlane, DaemonProcess]


def test_a_task_is_claimed_run_and_completed_in_order(shared: Shared) -> None:
    plane, _ = shared
    task = plane.wait_ended(plane.enqueue("!say hello\n!write a.txt content\n!usage 5 7 3 2\n!answer done"))
    assert task.status is TaskStatus.COMPLETED
    assert task.ending["output"] == "done"
    assert [m.type for m in task.messages] == ["text", "tool_use", "tool_result"]
    assert [m.seq for m in task.messages] == [1, 2, 3]
    assert (Path(task.work_dir) / "a.txt").read_text() == "content"
    row = task.usage[0]
    assert (row.input_tokens, row.output_tokens, row.cache_read_tokens, row.cache_write_tokens) == (5, 7, 3, 2)
    assert task.ending["session_id"]
    assert task.ending["work_dir"] == task.work_dir
    order = [step for step in task.history if step != "session"]
    assert order == ["claim", "start", "usage", "completed"]


def test_the_start_is_reported_only_when_the_workdir_and_its_brief_exist(shared: Shared) -> None:
    plane, _ = shared
    task_id = plane.enqueue("!sleep 30", agent={"instructions": "Answer in verse."})
    plane.wait_for(lambda: plane.tasks[task_id].status is TaskStatus.RUNNING)
    workdir = Path(plane.tasks[task_id].work_dir)
    assert "Answer in verse." in (workdir / "AGENTS.md").read_text()
    plane.cancel(task_id)


def test_a_profile_that_is_gone_is_told_in_the_runs_own_transcript(shared: Shared) -> None:
    plane, _ = shared
    task = plane.wait_ended(plane.enqueue("!answer done", model_profile="deep", model_profile_missing=True))
    assert task.status is TaskStatus.COMPLETED
    said = "The model profile 'deep' is gone; the run uses what is set without it."
    assert [m.content for m in task.messages] == [said]


def test_the_session_is_pinned_while_the_run_goes_on(shared: Shared) -> None:
    plane, _ = shared
    task_id = plane.enqueue("!say one\n!sleep 30")
    plane.wait_for(lambda: bool(plane.tasks[task_id].session_id))
    assert plane.tasks[task_id].status is TaskStatus.RUNNING
    plane.cancel(task_id)


def test_a_cancel_stops_a_silent_agent_within_two_seconds_and_is_acknowledged(shared: Shared) -> None:
    plane, daemon = shared
    task_id = plane.enqueue("!usage 3 4\n!sleep 60")
    plane.wait_for(lambda: plane.tasks[task_id].status is TaskStatus.RUNNING)
    eventually(lambda: daemon.logged("agent starts", task_id))
    task = plane.tasks[task_id]
    told = len(task.calls)
    plane.cancel(task_id)
    plane.wait_for(lambda: len(task.calls) > told, timeout=2.0)
    plane.wait_for(lambda: task.acknowledged is not None, timeout=10)
    assert task.acknowledged["session_id"]
    assert not {"complete", "fail"} & set(task.calls)


def test_an_agent_that_fails_is_reported_with_its_reason(shared: Shared) -> None:
    plane, _ = shared
    task = plane.wait_ended(plane.enqueue("!usage 1 2\n!status 429\n!fail slow down"))
    assert task.status is TaskStatus.FAILED
    assert task.ending["failure_reason"] == "agent_error.provider_capacity_or_rate_limit"
    assert task.usage[0].output_tokens == 2


def test_answers_lost_on_the_way_lose_nothing_and_double_nothing(shared: Shared) -> None:
    lost = {"claim": 2, "start": 2, "messages": 2, "usage": 1, "session": 1, "complete": 2}
    plane, daemon = shared
    for route, times in lost.items():
        plane.fail_next(route, *[Fault.ANSWER_LOST] * times)
    task = plane.wait_ended(plane.enqueue("!say one\n!tool look two\n!say three\n!answer end"), timeout=30)
    plane.wait_for(lambda: task.calls.count("complete") == 3, timeout=10)
    eventually(lambda: not list(daemon.paths.runs_dir.glob(f"{task.id}*")))
    assert task.status is TaskStatus.COMPLETED
    assert [m.seq for m in task.messages] == [1, 2, 3, 4]
    assert task.history.count("claim") == 1
    assert task.history.count("start") == 1


def test_an_outage_in_the_middle_of_a_run_delays_its_report_and_loses_nothing(
    plane: ControlPlane, tmp_path: Path
) -> None:
    steps = "\n".join(f"!say line {n}\n!tool count {n}\n!sleep 0.05" for n in range(40))
    with running_daemon(tmp_path, plane.url, PERSON_TOKEN) as daemon:
        task_id = plane.enqueue(f"{steps}\n!answer through")
        plane.wait_for(lambda: bool(plane.tasks[task_id].messages))
        plane.down = True
        eventually(lambda: "task ends as complete" in daemon.log())
        assert plane.tasks[task_id].status is TaskStatus.RUNNING
        plane.down = False
        task = plane.wait_ended(task_id, timeout=40)
    assert task.ending["output"] == "through"
    assert [m.content for m in task.messages if m.type == "text"] == [f"line {n}" for n in range(40)]
    assert [m.seq for m in task.messages] == list(range(1, len(task.messages) + 1))


def test_a_stale_claim_stops_the_run_and_says_nothing_more(shared: Shared) -> None:
    plane, daemon = shared
    task_id = plane.enqueue("!say one\n!sleep 1\n!say two\n!sleep 60")
    plane.wait_for(lambda: bool(plane.tasks[task_id].messages))
    plane.give_to_another(task_id)
    eventually(lambda: daemon.logged("not ours any more", task_id))
    eventually(lambda: not list(daemon.paths.runs_dir.glob(f"{task_id}*")))
    assert plane.tasks[task_id].status is TaskStatus.RUNNING
    assert not {"complete", "fail", "cancel-ack"} & set(plane.tasks[task_id].calls)


def test_a_task_the_server_does_not_know_any_more_is_stopped(shared: Shared) -> None:
    plane, daemon = shared
    task_id = plane.enqueue("!sleep 60")
    plane.wait_for(lambda: plane.tasks[task_id].status is TaskStatus.RUNNING)
    eventually(lambda: daemon.logged("agent starts", task_id))
    with plane.changed:
        del plane.tasks[task_id]
    eventually(lambda: daemon.logged("it is not ours any more", task_id))
    # The place is free again.
    assert plane.wait_ended(plane.enqueue("!answer next")).status is TaskStatus.COMPLETED


def test_a_task_the_server_gave_up_is_stopped_and_its_transcript_still_goes_up(shared: Shared) -> None:
    plane, daemon = shared
    task_id = plane.enqueue("!say one\n!usage 7 8\n!sleep 60")
    task = plane.tasks[task_id]
    plane.wait_for(lambda: bool(task.messages))
    plane.give_up(task_id)
    eventually(lambda: not list(daemon.paths.runs_dir.glob(f"{task_id}*")), timeout=20)
    assert task.ending == {"failure_reason": "runtime_offline"}
    assert task.text == "one"


def test_no_more_tasks_are_claimed_than_there_are_places(plane: ControlPlane, tmp_path: Path) -> None:
    with running_daemon(tmp_path, plane.url, PERSON_TOKEN, max_concurrent_tasks="2"):
        tasks = [plane.enqueue("!sleep 0.7\n!env MULTICA_TASK_SLOT") for _ in range(4)]
        plane.wait_for(lambda: sum(plane.tasks[t].status is TaskStatus.RUNNING for t in tasks) == 2)
        assert sum(plane.tasks[t].status is TaskStatus.QUEUED for t in tasks) == 2
        ended = [plane.wait_ended(t) for t in tasks]
    assert {t.status for t in ended} == {TaskStatus.COMPLETED}
    assert {t.text for t in ended} == {"0", "1"}


def test_a_forgotten_runtime_is_registered_again(plane: ControlPlane, tmp_path: Path) -> None:
    with running_daemon(tmp_path, plane.url, PERSON_TOKEN, claim_wait="1s"):
        with plane.changed:
            plane.runtimes.clear()
        plane.wait_for(lambda: plane.count("register") == 2)
        assert plane.wait_ended(plane.enqueue("!answer back")).status is TaskStatus.COMPLETED


def test_a_revoked_daemon_token_is_replaced_by_a_new_one(plane: ControlPlane, tmp_path: Path) -> None:
    with running_daemon(tmp_path, plane.url, PERSON_TOKEN, claim_wait="1s"):
        with plane.changed:
            for token in [t for t, owner in plane.tokens.items() if owner != "person"]:
                del plane.tokens[token]
        assert plane.wait_ended(plane.enqueue("!answer back"), timeout=30).status is TaskStatus.COMPLETED


def test_a_token_that_is_taken_again_and_again_is_told_as_another_daemon_of_the_same_id(
    plane: ControlPlane, tmp_path: Path
) -> None:
    told = "another daemon registers under this one's id"
    with running_daemon(tmp_path, plane.url, PERSON_TOKEN, claim_wait="1s") as daemon:
        for times in range(1, 4):
            with plane.changed:
                for token in [t for t, owner in plane.tokens.items() if owner != "person"]:
                    del plane.tokens[token]
            assert plane.wait_ended(plane.enqueue("!answer back"), timeout=30).status is TaskStatus.COMPLETED
            log = daemon.log()
            assert (told in log) == (times > 1)
        assert str(daemon.paths.daemon_id_file) in log


def test_the_agents_own_command_is_there_under_both_names_and_imports_nothing_of_the_workdir(shared: Shared) -> None:
    plane, daemon = shared
    task = plane.wait_ended(plane.enqueue("!write click.py raise_SystemExit_7"))
    for name in ("callboard", "multica"):
        command = [str(daemon.paths.bin_dir / name), "version"]
        done = subprocess.run(command, cwd=task.work_dir, capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("callboard ")


def test_the_local_address_tells_health_and_metrics_and_ends_only_for_those_who_know_the_secret(shared: Shared) -> None:
    plane, daemon = shared
    plane.wait_ended(plane.enqueue("!answer counted"))
    url = f"http://127.0.0.1:{daemon.port()}"
    health = httpx.get(f"{url}/health").json()
    assert (health["status"], health["pid"]) == ("running", daemon.process.pid)
    metrics = httpx.get(f"{url}/metrics").text
    assert 'callboard_daemon_tasks_total{end="complete"}' in metrics
    assert "callboard_daemon_resident_bytes" in metrics
    assert httpx.post(f"{url}/shutdown").status_code == 401
    assert httpx.post(f"{url}/shutdown", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert httpx.get(f"{url}/shutdown").status_code == 405
    assert httpx.get(f"{url}/nothing").status_code == 404
    assert daemon.status() == "running"


def test_the_lease_is_renewed_for_as_long_as_the_start_is_not_confirmed(shared: Shared) -> None:
    plane, _ = shared
    plane.fail_next("start", *[Fault.UNAVAILABLE] * 4)
    task = plane.wait_ended(plane.enqueue("!answer ok", lease_s=0.6))
    assert task.status is TaskStatus.COMPLETED
    assert "prepare-lease" in task.calls


def test_a_conversation_that_is_gone_is_begun_anew_within_the_task(shared: Shared) -> None:
    plane, _ = shared
    first = plane.wait_ended(plane.enqueue("!say hello"))
    prior = {"prior_session_id": "no-such-session", "prior_work_dir": first.work_dir}
    second = plane.wait_ended(plane.enqueue("do go on", **prior))
    assert second.status is TaskStatus.COMPLETED
    assert second.work_dir == first.work_dir
    assert second.ending["retired_session_id"] == "no-such-session"
    assert second.ending["session_id"] not in ("", "no-such-session")
    assert "could not be resumed" in second.text
    assert [m.seq for m in second.messages] == list(range(1, len(second.messages) + 1))


def test_a_conversation_whose_folder_is_gone_is_not_resumed_elsewhere(shared: Shared) -> None:
    plane, _ = shared
    first = plane.wait_ended(plane.enqueue("!say hello"))
    prior = {"prior_session_id": first.ending["session_id"], "prior_work_dir": "/somewhere/else/workdir"}
    second = plane.wait_ended(plane.enqueue("go on", **prior))
    assert second.work_dir != first.work_dir
    assert second.ending["session_id"] != first.ending["session_id"]
    assert "could not be resumed" in second.text


def test_a_cli_replaced_in_place_is_used_and_told_without_a_restart(plane: ControlPlane, tmp_path: Path) -> None:
    tool = tmp_path / "tool"

    def install(version: str) -> None:
        fresh = tmp_path / "fresh"
        script = f'case "$*" in *--version*) echo {version};; *) exec {sys.executable} "$@";; esac'
        fresh.write_text(f"#!/bin/sh\n{script}\n")
        fresh.chmod(0o755)
        fresh.replace(tool)

    install("1.2.3")
    with running_daemon(tmp_path, plane.url, PERSON_TOKEN, echo_path=str(tool)):
        assert plane.versions == {"echo": "1.2.3"}
        install("1.3.0")
        assert plane.wait_ended(plane.enqueue("!answer ok")).status is TaskStatus.COMPLETED
        plane.wait_for(lambda: plane.versions == {"echo": "1.3.0"})


def test_proxies_of_the_config_file_reach_the_agent_in_both_spellings(plane: ControlPlane, tmp_path: Path) -> None:
    config = tmp_path / "config" / "config.toml"
    config.parent.mkdir()
    config.write_text('[env]\nHTTPS_PROXY = "http://127.0.0.1:9"\nhttp_proxy = "http://127.0.0.1:9"\n')
    with running_daemon(tmp_path, plane.url, PERSON_TOKEN):
        task = plane.wait_ended(plane.enqueue("!env https_proxy\n!say ;\n!env HTTP_PROXY"))
    assert task.text == "http://127.0.0.1:9;http://127.0.0.1:9"


def test_a_daemon_that_slept_claims_again_when_it_wakes(plane: ControlPlane, tmp_path: Path) -> None:
    with running_daemon(tmp_path, plane.url, PERSON_TOKEN, claim_wait="1s") as daemon:
        task_id = plane.enqueue("!sleep 1\n!answer awake")
        plane.wait_for(lambda: plane.tasks[task_id].status is TaskStatus.RUNNING)
        daemon.process.send_signal(signal.SIGSTOP)
        later = plane.enqueue("!answer later")
        time.sleep(2)
        daemon.process.send_signal(signal.SIGCONT)
        assert plane.wait_ended(task_id).ending["output"] == "awake"
        assert plane.wait_ended(later).ending["output"] == "later"


def test_a_clock_that_jumps_by_days_disturbs_nothing(
    plane: ControlPlane, tmp_path: Path, make_daemon: MakeDaemon
) -> None:
    """`time.time` of the daemon's process reads its offset from a file; everything that waits must not care."""
    offset = tmp_path / "offset"
    offset.write_text("0")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(
        f"import time\nreal = time.time\ntime.time = lambda: real() + float(open({str(offset)!r}).read() or 0)\n"
    )
    daemon = make_daemon(claim_wait="1s", agent_timeout="60s", idle_watchdog="40s")
    daemon.env["PYTHONPATH"] = str(tmp_path / "site")
    daemon.start()
    task_id = plane.enqueue("!say before\n!sleep 2\n!say after")
    plane.wait_for(lambda: bool(plane.tasks[task_id].messages))
    offset.write_text("200000")
    beats = plane.count("heartbeat")
    plane.wait_for(lambda: plane.count("heartbeat") > beats + 1)
    offset.write_text("-400000")
    assert plane.wait_ended(task_id).text == "beforeafter"
    assert plane.wait_ended(plane.enqueue("!answer on")).status is TaskStatus.COMPLETED
    daemon.stop()
