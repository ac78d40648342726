"""What is particular to Windows: job objects, npm's batch files, its command line, its environment.

Run there, or under Wine with `make windows`.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from callboard_adapters import Backend, BackendConfig, ExecOptions, RunStatus
from callboard_adapters.base import Launch, RunCommand
from callboard_adapters.process.host import reap_run, run_processes
from tests.fakes.cli import fake_cli
from tests.integration.adapters.running import alive, finish, pids_in, run, start
from tests.integration.adapters.test_driver import Simple

pytestmark = pytest.mark.skipif(sys.platform != "win32", reason="job objects, batch files")

PROMPT = 'first\nsecond "quoted" %PATH% & del ^ | <x>\\'

TREE = """
    sleep = [sys.executable, "-IS", "-c", "import time; time.sleep(300)"]
    def leave():
        "In this console, in none, in one of its own; each in a group of its own but for the first."
        for flags in (0, 0x208, 0x210):
            tool = subprocess.Popen(sleep, creationflags=flags, env={"SYSTEMROOT": os.environ["SYSTEMROOT"]})
            open("pids", "a").write(f"{tool.pid} ")
"""


def wait_for(condition, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "never happened"
        time.sleep(0.02)


async def simple(adapter: type[Simple], folder: Path, cli: Path, **env: str):
    backend = Backend(adapter, BackendConfig(executable=cli, env={"PATH": os.environ["PATH"], **env}))
    session = await backend.execute("hello", ExecOptions(cwd=folder, timeout=30))
    return await session.result()


async def test_every_argument_reaches_a_cli_that_npm_installed_whole_and_in_order(tmp_path):
    """Faults of other products: the agent answered as if it had not been asked, and later flags had vanished."""

    class Says(Simple):
        def launch(self, prompt: str, options: ExecOptions) -> Launch:
            return Launch(["-p", PROMPT, "", "--after", "a b"], stdin=f"{PROMPT}\n".encode())

    cli = fake_cli(tmp_path, "print('done', json.dumps([sys.argv[1:], sys.stdin.read()]))", "simple")
    assert cli.suffix == ".cmd"
    result = await simple(Says, tmp_path, cli)
    args, stdin = json.loads(result.output)
    assert args == ["-p", PROMPT, "", "--after", "a b"]
    assert stdin == f"{PROMPT}\n"


async def test_another_batch_file_is_run_with_plain_arguments_and_refused_with_others(tmp_path):
    heard: list[Any] = []

    class Looks(Simple):
        def before_launch(self, options: ExecOptions) -> list[RunCommand]:
            return [RunCommand("plain", ["a b", "--x"]), RunCommand("not", ["a\nb"])]

        def command(self, purpose: str, done: Any) -> tuple[()]:
            heard.append((purpose, done.code, done.stdout.decode().strip(), done.stderr.decode()))
            return ()

    cli = tmp_path / "simple.bat"
    cli.write_text("@echo done %~1 %~2\n", newline="\r\n")
    result = await simple(Looks, tmp_path, cli)
    assert result.output.strip() == "1"
    assert heard[0] == ("plain", 0, "done a b --x", "")
    assert heard[1][:3] == ("not", None, "")
    assert "is a batch file" in heard[1][3]


async def test_what_a_cli_leaves_behind_without_the_mark_in_other_groups_and_consoles_dies_with_its_run(tmp_path):
    """Only the job knows them: they have no mark, no group and, the CLI being gone, no parent."""
    ended = await run(tmp_path, TREE + "\n    init(); leave(); result('done'); until_eof()")
    assert (ended.result.status, ended.result.output) == (RunStatus.COMPLETED, "done")
    assert len(pids_in(tmp_path / "pids")) == 3
    assert not [p for p in pids_in(tmp_path / "pids") if alive(p)]


async def test_a_deaf_cli_and_its_tools_are_ended_by_a_cancel(tmp_path):
    session = await start(tmp_path, TREE + "\n    leave(); init(); time.sleep(300)")
    async for message in session.messages:
        if message.session_id:
            await session.cancel()
            break
    ended = await finish(session)
    assert ended.result.status is RunStatus.CANCELLED
    assert session.pid is not None
    assert not [p for p in (session.pid, *pids_in(tmp_path / "pids")) if alive(p)]


async def test_a_cli_that_hears_the_end_of_its_stdin_is_not_killed(tmp_path):
    session = await start(tmp_path, "init(); until_eof(); until_eof(); open('own end', 'w'); sys.exit(5)")
    async for message in session.messages:
        if message.session_id:
            await session.cancel()
            break
    ended = await finish(session)
    assert (ended.result.status, ended.result.exit_code) == (RunStatus.CANCELLED, 5)
    assert (tmp_path / "own end").exists()


async def test_no_process_leaves_the_job_by_asking_to(tmp_path):
    body = f"""
        try:
            subprocess.Popen([sys.executable, "-c", ""], creationflags={subprocess.CREATE_BREAKAWAY_FROM_JOB})
        except PermissionError:
            print("done refused")
    """
    result = await simple(Simple, tmp_path, fake_cli(tmp_path, body, "simple"))
    assert result.output == "refused"


HOST = """
import asyncio, os, sys
from callboard_adapters import BackendConfig, ExecOptions, create_backend

async def main():
    folder = sys.argv[1]
    env = {"PATH": os.environ["PATH"], "HOME": folder}
    backend = create_backend("claude", BackendConfig(executable=os.path.join(folder, "claude"), env=env))
    session = await backend.execute("hi", ExecOptions(cwd=folder, run_id="run-of-the-dead"))
    await session.result()

asyncio.run(main())
"""


def test_a_host_that_is_killed_takes_its_runs_along(tmp_path):
    fake_cli(tmp_path, TREE + "\n    leave(); time.sleep(300)")
    pids = tmp_path / "pids"
    host = subprocess.Popen([sys.executable, "-c", HOST, str(tmp_path)])
    try:
        wait_for(lambda: pids.exists() and len(pids_in(pids)) == 3)
    finally:
        host.kill()
        host.wait()
    wait_for(lambda: not [p for p in pids_in(pids) if alive(p)])
    wait_for(lambda: not run_processes("run-of-the-dead"))
    assert reap_run("run-of-the-dead") == 0


def test_a_process_that_was_not_yet_in_its_job_is_found_by_its_mark(tmp_path):
    sleep = [sys.executable, "-c", "import time; time.sleep(300)"]
    marked = subprocess.Popen(sleep, env={**os.environ, "CALLBOARD_RUN_ID": "half-started"})
    other = subprocess.Popen(sleep, env={**os.environ, "CALLBOARD_RUN_ID": "another"})
    try:
        wait_for(lambda: run_processes("half-started"))
        assert reap_run("half-started") == 1
        assert marked.wait(5) is not None
        assert other.poll() is None
    finally:
        for process in (marked, other):
            process.kill()
            process.wait()


async def test_a_start_that_is_given_up_at_any_moment_leaves_neither_process_nor_handle(tmp_path):
    """An open one is a ResourceWarning, which is an error here."""
    from callboard_adapters.process.host import Child, Family

    class Deaf:
        def stdout_data(self, data): ...
        def stdout_ended(self): ...
        def stderr_data(self, data): ...
        def exited(self): ...

    argv = [sys.executable, "-IS", "-c", "import time; time.sleep(300)"]
    env = {"CALLBOARD_RUN_ID": "given-up"}
    for steps in range(12):
        starting = asyncio.create_task(Child.start(argv, env=env, cwd=str(tmp_path), stdin=True, listener=Deaf()))
        for _ in range(steps):
            await asyncio.sleep(0)
        starting.cancel()
        try:
            child = await starting
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            gc.collect()
            continue
        Family("given-up", child).kill_now()
        assert steps > 1, "no start was cancelled half-way"
        break
    else:
        raise AssertionError("no start ever came to its end")
    wait_for(lambda: not run_processes("given-up"))
    await asyncio.sleep(0.1)


async def test_what_a_cli_wrote_before_it_exited_at_once_arrives_whole(tmp_path):
    body = "init(); text('x' * 5_000_000); result('done')"
    ended = await run(tmp_path, body)
    assert ended.result.output == "done"
    assert sum(len(m.content) for m in ended.of("text")) == 5_000_000


async def test_a_variable_is_given_once_whatever_its_case_and_windows_itself_is_found(tmp_path):
    cli = fake_cli(tmp_path, "print('done', os.environ['PATH'], 'SYSTEMROOT' in os.environ)", "simple")
    result = await simple(Simple, tmp_path, cli, Path="the later")
    assert result.output == "the later True"


async def test_the_console_is_not_ours(tmp_path):
    """A Ctrl-C typed at us would end our agents."""
    body = """
        import ctypes
        pids = (ctypes.c_ulong * 9)()
        print("done", ctypes.windll.kernel32.GetConsoleProcessList(pids, 9), *pids)
    """
    cli = fake_cli(tmp_path, body, "simple")
    result = await simple(Simple, tmp_path, cli)
    count, *pids = map(int, result.output.split())
    assert count >= 1
    assert not {os.getpid(), *(p.pid for p in psutil.Process().parents())} & set(pids[:count])
