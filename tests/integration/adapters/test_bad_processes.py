"""CLIs that misbehave as processes. Every test is a real process through the public face."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from callboard_adapters import (
    BackendConfig,
    ExecOptions,
    ExecutableNotFound,
    ExecutableNotRunnable,
    LaunchRefused,
    RunStatus,
    VersionUnsupported,
    Watchdog,
    WorkdirMissing,
    create_backend,
)
from callboard_wire.failures import FailureReason
from tests.integration.adapters.running import alive, finish, pids_in, posix, run, start


def backend(executable: Path | str, folder: Path):
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "IS_SANDBOX": "1"}
    return create_backend("claude", BackendConfig(executable=executable, env=env))


async def test_a_missing_binary_is_refused_before_anything_starts(tmp_path):
    with pytest.raises(ExecutableNotFound, match="executable not found") as caught:
        await backend(tmp_path / "nothing", tmp_path).execute("hi", ExecOptions(cwd=tmp_path))
    assert caught.value.failure_reason is FailureReason.MISSING_EXECUTABLE
    with pytest.raises(ExecutableNotFound, match="not on PATH"):
        await backend("no-such-cli", tmp_path).execute("hi", ExecOptions(cwd=tmp_path))


@posix
async def test_a_file_without_the_executable_bit_names_the_repair(tmp_path):
    (tmp_path / "claude").write_text("#!/bin/sh\n")
    with pytest.raises(ExecutableNotRunnable, match=r"chmod \+x"):
        await backend(tmp_path / "claude", tmp_path).execute("hi", ExecOptions(cwd=tmp_path))


async def test_an_npm_stub_names_the_package_whose_install_script_did_not_run(tmp_path):
    (tmp_path / "bin").mkdir()
    stub = tmp_path / "bin" / "claude"
    stub.write_bytes(b"\x00native binary not installed")
    stub.chmod(0o755)
    (tmp_path / "package.json").write_text('{"name": "@vendor/cli", "scripts": {"postinstall": "node install.cjs"}}')
    with pytest.raises(ExecutableNotRunnable, match=r"exec format error.*@vendor/cli.*node install\.cjs"):
        await backend(stub, tmp_path).execute("hi", ExecOptions(cwd=tmp_path))


@posix
async def test_a_script_whose_interpreter_is_missing_is_not_called_missing_itself(tmp_path):
    script = tmp_path / "claude"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    with pytest.raises(ExecutableNotRunnable, match="interpreter"):
        await backend(script, tmp_path).execute("hi", ExecOptions(cwd=tmp_path))


async def test_a_missing_workdir_is_not_called_a_missing_binary(tmp_path):
    with pytest.raises(WorkdirMissing, match="gone"):
        await start(tmp_path, "", cwd=tmp_path / "gone")


async def test_too_large_an_argument_is_named_as_such(tmp_path):
    with pytest.raises(Exception, match="larger than the system allows") as caught:
        await start(tmp_path, "until_eof()", custom_args=["--append-system-prompt", "x" * 200_000])
    assert "not found" not in str(caught.value)


@posix
async def test_an_old_cli_is_refused_with_the_version_it_needs(tmp_path):
    script = tmp_path / "claude"
    script.write_text("#!/bin/sh\necho 'Active code page: 65001'\necho '1.0.93 (Claude Code)'\n")
    script.chmod(0o755)
    with pytest.raises(VersionUnsupported, match=r"1\.0\.93 is below the minimum supported version 2\.0\.0") as caught:
        await backend(script, tmp_path).execute("hi", ExecOptions(cwd=tmp_path))
    assert caught.value.failure_reason is FailureReason.VERSION


@posix
async def test_a_cli_replaced_in_place_is_asked_for_its_version_again(tmp_path):
    script = tmp_path / "claude"
    for version, ok in (("1.9.9", False), ("2.0.0", True)):
        script.write_text(f"#!/bin/sh\necho {version}\n")
        script.chmod(0o755)
        if ok:
            session = await backend(script, tmp_path).execute("hi", ExecOptions(cwd=tmp_path))
            assert (await session.result()).cli_version == "2.0.0"
        else:
            with pytest.raises(VersionUnsupported):
                await backend(script, tmp_path).execute("hi", ExecOptions(cwd=tmp_path))


@posix
async def test_a_version_probe_that_reads_stdin_does_not_hang(tmp_path):
    script = tmp_path / "claude"
    script.write_text('#!/bin/sh\n[ "$1" = --version ] && cat >/dev/null && echo 2.1.0 && exit\necho bye >&2; exit 4\n')
    script.chmod(0o755)
    session = await backend(script, tmp_path).execute("hi", ExecOptions(cwd=tmp_path, timeout=5))
    ended = await finish(session)
    assert (ended.result.status, ended.result.exit_code) == (RunStatus.FAILED, 4)


async def test_exit_1_at_once_fails_with_its_stderr(tmp_path):
    ended = await run(tmp_path, "print('the disk is on fire', file=sys.stderr); sys.exit(1)")
    assert ended.result.status is RunStatus.FAILED
    assert ended.result.failure_reason is FailureReason.PROCESS
    assert "exit status 1" in ended.result.error
    assert "the disk is on fire" in ended.result.error


async def test_a_cli_that_never_reads_stdin_can_answer_a_large_prompt(tmp_path):
    ended = await run(tmp_path, "init(); text('done'); result('done')", prompt="p" * 1_000_000)
    assert (ended.result.status, ended.result.output) == (RunStatus.COMPLETED, "done")


async def test_output_before_the_prompt_is_read_does_not_deadlock(tmp_path):
    body = "raw((b'x' * 1023 + b'\\n') * 256); prompt(); init(); result('done'); until_eof()"
    ended = await run(tmp_path, body, prompt="p" * 200_000)
    assert ended.result.output == "done"


async def test_a_cli_that_never_exits_after_its_result_is_ended_and_has_completed(tmp_path):
    body = "init(); result('done'); time.sleep(300)"
    session = await start(tmp_path, body)
    session_pid = session.pid
    ended = await finish(session)
    assert (ended.result.status, ended.result.output) == (RunStatus.COMPLETED, "done")
    assert not alive(session_pid)


async def test_a_result_is_not_undone_by_the_exit_code_after_it(tmp_path):
    ended = await run(tmp_path, "init(); result('done'); sys.exit(7)")
    assert (ended.result.status, ended.result.exit_code) == (RunStatus.COMPLETED, 7)


async def test_a_grandchild_that_holds_stdout_neither_delays_the_result_nor_survives(tmp_path):
    body = """
        init()
        holder = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
        open("holder", "w").write(str(holder.pid))
        result("done")
        os._exit(0)
    """
    ended = await run(tmp_path, body)
    assert ended.result.output == "done"
    assert not alive(pids_in(tmp_path / "holder")[0])


async def test_a_grandchild_in_its_own_session_with_an_empty_environment_dies_too(tmp_path):
    body = """
        init()
        for env in ({}, None):
            code = "import os, time; open('holder', 'a').write(f'{os.getpid()} '); time.sleep(300)"
            subprocess.Popen([sys.executable, "-IS", "-c", code], start_new_session=True, env=env,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not os.path.exists("holder") or len(open("holder").read().split()) < 2:
            time.sleep(0.01)
        prompt()
        time.sleep(300)
    """
    session = await start(tmp_path, body)
    async with asyncio.timeout(10):
        while not (tmp_path / "holder").exists() or len(pids_in(tmp_path / "holder")) < 2:
            await asyncio.sleep(0.02)
    await session.cancel()
    ended = await finish(session)
    assert ended.result.status is RunStatus.CANCELLED
    assert [alive(p) for p in pids_in(tmp_path / "holder")] == [False, False]


@posix
async def test_a_daemonised_grandchild_whose_parent_is_long_gone_dies_with_the_run(tmp_path):
    """Double fork and setsid: no parent link, no group, only the marker in its environment is left."""
    body = """
        init()
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                open("daemon", "w").write(str(os.getpid()))
                for fd in (0, 1, 2):
                    os.close(fd)
                time.sleep(300)
            os._exit(0)
        os.wait()
        while not os.path.exists("daemon"):
            time.sleep(0.01)
        result("done")
        until_eof()
    """
    ended = await run(tmp_path, body)
    assert ended.result.output == "done"
    assert not alive(pids_in(tmp_path / "daemon")[0])


@posix
async def test_processes_born_while_we_kill_are_found_again(tmp_path):
    """Each copy forks another on TERM, three generations deep."""
    body = """
        def copy(generation):
            open("pids", "a").write(f"{os.getpid()} ")
            def again(*_):
                if generation < 3 and os.fork() == 0:
                    os.setsid()
                    copy(generation + 1)
            signal.signal(signal.SIGTERM, again)
            while True:
                time.sleep(1)
        init()
        copy(0)
    """
    session = await start(tmp_path, body)
    async for message in session.messages:
        if message.session_id:
            break
    await session.cancel()
    ended = await finish(session)
    assert ended.result.status is RunStatus.CANCELLED
    pids = pids_in(tmp_path / "pids")
    assert len(pids) >= 2
    assert not [p for p in pids if alive(p)]


@posix
async def test_the_child_leads_a_group_of_its_own(tmp_path):
    body = "init(); open('ids', 'w').write(f'{os.getpid()} {os.getpgid(0)} {os.getsid(0)}'); result('x'); until_eof()"
    await run(tmp_path, body)
    pid, pgid, sid = pids_in(tmp_path / "ids")
    assert pid == pgid == sid != os.getpgid(0)


@posix
async def test_a_stopped_child_is_ended_by_the_idle_clock(tmp_path):
    session = await start(tmp_path, "init(); os.kill(os.getpid(), signal.SIGSTOP)", idle_watchdog_timeout=0.4)
    ended = await finish(session)
    assert ended.result.status is RunStatus.TIMEOUT
    assert ended.result.failure.watchdog is Watchdog.IDLE
    assert ended.result.failure_reason is FailureReason.IDLE_WATCHDOG


async def test_bytes_that_are_not_utf8_cost_their_line_and_nothing_else(tmp_path):
    body = """
        init()
        raw(bytes.fromhex("E45B6CBB0A"))
        raw(b'{"type":"assistant","message":{"content":[{"type":"text","text":"caf\\xe9 ok"}]}}\\n')
        result("done")
        until_eof()
    """
    ended = await run(tmp_path, body)
    assert ended.result.output == "done"
    assert [m.content for m in ended.of("text")] == ["caf� ok"]
    assert ended.result.counts.noise_lines == 1
    assert ended.result.counts.invalid_utf8 == 2
    assert len([m for m in ended.of("log") if "UTF-8" in m.content]) == 1


async def test_lines_end_at_lf_and_nowhere_else(tmp_path):
    odd = "a\u2028b\u2029c\x0bd\x85e"
    body = f"""
        prompt_text = prompt()["message"]["content"][0]["text"]
        init()
        event = {{"type": "assistant", "message": {{"content": [{{"type": "text", "text": {odd!r}}}]}}}}
        raw(json.dumps(event, ensure_ascii=False).encode() + b"\\r\\n")
        result(prompt_text)
        until_eof()
    """
    ended = await run(tmp_path, body, prompt=odd)
    assert [m.content for m in ended.of("text")] == [odd]
    assert ended.result.output == odd


@pytest.mark.parametrize("size", [70_000, 3 << 19, 12 << 20, 40 << 20])
async def test_a_long_line_arrives_whole(tmp_path, size):
    body = f"init(); tool('c', 'cat'); tool_result('c', 'A' * {size}); result('done'); until_eof()"
    ended = await run(tmp_path, body)
    assert ended.result.output == "done"
    assert [len(m.output) for m in ended.of("tool-result")] == [size]


async def test_after_an_oversized_line_the_next_run_is_normal(tmp_path):
    too_long = await run(tmp_path, "init(); raw(b'x' * (65 << 20)); time.sleep(300)")
    assert too_long.result.status is RunStatus.FAILED
    assert "67108864" in too_long.result.error
    assert not alive(too_long.session.pid)
    assert (await run(tmp_path, "init(); result('fine'); until_eof()")).result.output == "fine"


@posix
async def test_a_closed_stdout_with_a_living_process_ends_in_a_failure_that_says_so(tmp_path):
    session = await start(tmp_path, "init(); os.close(1); time.sleep(300)")
    ended = await finish(session)
    assert ended.result.status is RunStatus.FAILED
    assert "closed its output" in ended.result.error
    assert not alive(session.pid)


@posix
async def test_a_flood_of_noise_is_read_in_bounded_memory(tmp_path):
    """300 MB here; the 3 GB version is `test_three_gigabytes_of_noise` in the slow suite."""
    await _flood(tmp_path, 300)


@pytest.mark.slow
@pytest.mark.timeout(300)
@posix
async def test_three_gigabytes_of_noise_are_read_in_bounded_memory(tmp_path):
    await _flood(tmp_path, 3000)


async def _flood(folder: Path, megabytes: int) -> None:
    import resource  # not on Windows

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    body = f"""
        init()
        block = (b"n" * 65535 + b"\\n") * 16
        for _ in range({megabytes}):
            raw(block)
        result("survived")
        until_eof()
    """
    ended = await run(folder, body, timeout=250)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert ended.result.output == "survived"
    assert ended.result.counts.bytes > megabytes << 20
    assert grown_kib < 100 << 10


async def test_messages_nobody_reads_are_folded_visibly_and_the_result_is_whole(tmp_path):
    body = """
        init()
        for i in range(3000):
            tool(f"c{i}", "x" * 20_000)
            tool_result(f"c{i}", "y" * 20_000)
        result("done")
        until_eof()
    """
    session = await start(tmp_path, body)
    result = await session.result()
    assert result.output == "done"
    assert result.counts.folded_messages > 0
    kept = [m async for m in session.messages]
    assert any("fell behind" in m.content for m in kept)
    assert sum(len(m.output) for m in kept) < 40 << 20


async def test_a_reader_that_stops_half_way_changes_nothing(tmp_path):
    session = await start(tmp_path, "init(); text('a'); text('b'); result('b'); until_eof()")
    async for _ in session.messages:
        break
    assert (await session.result()).output == "b"


@posix
async def test_root_is_refused_before_the_launch_with_the_setting_that_allows_it(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root is refused")
    with pytest.raises(LaunchRefused, match=r"root.*IS_SANDBOX=1"):
        await start(tmp_path, "", env={"IS_SANDBOX": "0"})


@posix
async def test_killed_from_outside_is_a_process_failure_with_the_session_kept(tmp_path):
    session = await start(tmp_path, "init('s-9'); text('hm'); time.sleep(300)")
    async for message in session.messages:
        if message.type == "text":
            os.kill(session.pid, signal.SIGKILL)
    result = await session.result()
    assert result.status is RunStatus.FAILED
    assert (result.exit_signal, result.session_id) == (signal.SIGKILL, "s-9")
    assert result.failure_reason is FailureReason.PROCESS


async def test_twenty_cancels_at_any_time_are_one_cancel(tmp_path):
    session = await start(tmp_path, "init(); time.sleep(300)")
    await asyncio.gather(*(session.cancel() for _ in range(20)))
    result = await session.result()
    await session.cancel()
    assert result.status is RunStatus.CANCELLED
    assert await session.result() is result


async def test_other_subprocesses_of_the_host_keep_their_exit_status(tmp_path):
    """The subreaper collects orphans of runs only."""
    own = await asyncio.create_subprocess_exec(sys.executable, "-c", "import sys; sys.exit(42)", start_new_session=True)
    await run(tmp_path, "init(); result('x'); until_eof()")
    assert await own.wait() == 42


async def test_no_zombie_is_left_of_background_jobs_that_ended_during_the_run(tmp_path):
    import psutil

    body = """
        init()
        subprocess.run(["sh", "-c", "(sleep 0.05 &) ; (sleep 0.05 &)"])
        time.sleep(0.3)
        result("x")
        until_eof()
    """
    others = set(psutil.Process().children())
    await run(tmp_path, body)
    # They are collected within the five seconds in which everything of a run is gone, not before its result.
    for _ in range(50):
        mine = set(psutil.Process().children()) - others
        zombies = [c for c in mine if c.status() == psutil.STATUS_ZOMBIE]
        if not zombies:
            break
        await asyncio.sleep(0.1)
    assert zombies == []


async def test_fields_of_another_type_are_shown_as_text_and_cost_nothing_else(tmp_path):
    ended = await run(
        tmp_path,
        """
        init({"a": 1})
        for odd in (5, [1], {"a": 1}, True, 1.5):
            use = {"type": "tool_use", "id": odd, "name": odd, "input": odd}
            blocks = [{"type": "text", "text": odd}, {"type": "thinking", "thinking": odd}, use]
            said = {"id": odd, "model": odd, "content": blocks}
            say({"type": "assistant", "parent_tool_use_id": odd, "message": said})
            done = {"type": "tool_result", "tool_use_id": odd, "content": odd, "is_error": odd}
            say({"type": "user", "parent_tool_use_id": odd, "message": {"content": [done]}})
            say({"type": "system", "subtype": odd, "session_id": odd})
            say({"type": "assistant", "message": {"model": "m", "usage": {"input_tokens": odd}, "content": odd}})
        text("fine")
        result({"x": 1}, session=7, usage=[], modelUsage={"m": 5}, total_cost_usd="x")
        """,
    )
    assert ended.result.status is RunStatus.COMPLETED, ended.result
    assert (ended.result.output, ended.result.session_id) == ("fine", "")
    assert len(ended.of("tool-use")) == len(ended.of("tool-result")) == 5
    words = ("content", "tool", "call_id", "parent_call_id", "output", "status", "level", "session_id")
    assert {type(getattr(m, word)) for m in ended.messages for word in words} == {str}
