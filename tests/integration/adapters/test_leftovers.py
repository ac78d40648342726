"""What is left of a run whose own program was killed, and who must never be killed for it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from callboard_adapters.process import reap_run, tree
from tests.fakes.cli import fake_cli
from tests.integration.adapters.running import alive, pids_in

HOST = """
import asyncio, sys
from callboard_adapters import BackendConfig, ExecOptions, create_backend

async def main():
    folder = sys.argv[1]
    env = {"PATH": "/usr/bin:/bin", "HOME": folder, "IS_SANDBOX": "1"}
    backend = create_backend("claude", BackendConfig(executable=folder + "/claude", env=env))
    for number in range(3):
        session = await backend.execute("hi", ExecOptions(cwd=folder, run_id=f"run-{number}"))
    await session.result()

asyncio.run(main())
"""

STUBBORN_TREE = """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    tool = subprocess.Popen([sys.executable, "-IS", "-c", "import time; time.sleep(300)"], start_new_session=True)
    open("pids", "a").write(f"{os.getpid()} {tool.pid} ")
    time.sleep(300)
"""


def wait_for(condition, seconds: float = 15.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "never happened"
        time.sleep(0.02)


def test_after_the_host_was_killed_each_run_is_found_by_its_id_and_ended(tmp_path):
    fake_cli(tmp_path, STUBBORN_TREE)
    host = subprocess.Popen([sys.executable, "-c", HOST, str(tmp_path)])
    pids = tmp_path / "pids"
    wait_for(lambda: pids.exists() and len(pids_in(pids)) == 6)
    host.kill()
    host.wait()
    started = time.monotonic()
    ended = [reap_run(f"run-{number}") for number in range(3)]
    assert time.monotonic() - started < 15
    assert ended == [2, 2, 2]
    assert not [p for p in pids_in(pids) if alive(p)]
    assert reap_run("run-0") == 0


async def test_a_start_that_is_cancelled_half_way_leaves_nothing(tmp_path):
    """At whatever await the caller gives up."""
    from callboard_adapters import BackendConfig, ExecOptions, create_backend

    fake_cli(tmp_path, "open('pids', 'a').write(f'{os.getpid()} '); time.sleep(300)")
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "IS_SANDBOX": "1"}
    backend = create_backend("claude", BackendConfig(executable=tmp_path / "claude", env=env))
    for steps in range(40):
        options = ExecOptions(cwd=tmp_path, mcp_config={}, run_id="half")
        start = asyncio.create_task(backend.execute("hi", options))
        for _ in range(steps):
            await asyncio.sleep(0.001)
        start.cancel()
        try:
            session = await start
        except asyncio.CancelledError:
            continue
        await session.cancel()  # it had started by then: every await before that has been tried
        await session.result()
        break
    await asyncio.sleep(0.2)
    left = [p for p in pids_in(tmp_path / "pids") if alive(p)] if (tmp_path / "pids").exists() else []
    assert not left
    assert list(Path(tempfile.gettempdir()).glob("callboard-half-*")) == []


async def test_a_start_that_is_cancelled_between_two_pipes_leaves_none_open(tmp_path):
    """An open one is a ResourceWarning, which is an error here."""
    import gc

    from callboard_adapters.process.child import Child

    class Deaf:
        def stdout_data(self, data): ...
        def stdout_ended(self): ...
        def stderr_data(self, data): ...
        def exited(self): ...

    for steps in range(12):
        start = asyncio.create_task(
            Child.start(["/bin/sleep", "60"], env={}, cwd=str(tmp_path), stdin=True, listener=Deaf())
        )
        for _ in range(steps):
            await asyncio.sleep(0)
        start.cancel()
        try:
            child = await start
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            gc.collect()
            continue
        child.signal_group(signal.SIGKILL)
        await child.exited.wait()
        child.close()
        assert steps > 2, "no start was cancelled half-way"
        break
    else:
        raise AssertionError("no start ever came to its end")


def test_a_run_that_never_was_costs_nothing_and_hits_nobody():
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    try:
        assert reap_run("no-such-run") == 0
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_program_inside_a_run_does_not_end_itself_when_it_cleans_up(tmp_path):
    """An agent may run our own daemon or demo: it carries the marker of the run around it."""
    code = "from callboard_adapters.process import reap_run; print(reap_run('outer'))"
    env = {**os.environ, "CALLBOARD_RUN_ID": "outer"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "0"


def test_a_recycled_pid_is_never_signalled():
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        now = tree.identify(bystander.pid)
        assert now is not None
        stale = tree.Proc(now.pid, now.started - 1000, now.ppid, now.pgid, now.sid, zombie=False)
        tree.signal_all([stale], signal.SIGKILL)
        time.sleep(0.1)
        assert bystander.poll() is None
        tree.signal_all([now], signal.SIGKILL)
        assert bystander.wait(5) == -signal.SIGKILL
    finally:
        bystander.kill()
        bystander.wait()


def test_the_portable_view_of_a_process_agrees_with_the_kernels():
    """Off Linux the same questions go through psutil."""
    mine, theirs = tree.identify(os.getpid()), tree.portable(os.getpid())
    assert mine is not None
    assert theirs is not None
    assert (mine.pid, mine.ppid, mine.pgid, mine.sid, mine.zombie) == (
        theirs.pid,
        theirs.ppid,
        theirs.pgid,
        theirs.sid,
        theirs.zombie,
    )
    assert tree.portable(2**22 + 1) is None


@pytest.mark.parametrize("kind", ["cancelled task", "closed loop"])
def test_a_host_that_drops_everything_leaves_no_process_and_no_secret(tmp_path, kind):
    from callboard_adapters import BackendConfig, ExecOptions, create_backend

    fake_cli(tmp_path, STUBBORN_TREE)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "IS_SANDBOX": "1"}
    backend = create_backend("claude", BackendConfig(executable=tmp_path / "claude", env=env))

    async def main() -> None:
        options = ExecOptions(cwd=tmp_path, mcp_config={"mcpServers": {}}, run_id="dropped")
        session = await backend.execute("hi", options)
        while not (tmp_path / "pids").exists():
            await asyncio.sleep(0.02)
        if kind == "cancelled task":
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await asyncio.sleep(0)
            assert (await session.result()).status == "cancelled"

    asyncio.run(main())
    wait_for(lambda: not [p for p in pids_in(tmp_path / "pids") if alive(p)], 5)
    assert list(Path(tempfile.gettempdir()).glob("callboard-dropped-*")) == []
    psutil.wait_procs(psutil.Process().children(), timeout=1)
