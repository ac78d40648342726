"""What an adapter may ask of the driver, each with a small adapter of the test's own and a real process."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from callboard_adapters import Backend, BackendConfig, ExecOptions, FailureDetail, Result, RunStatus, Watchdog
from callboard_adapters.base import (
    Adapter,
    Alive,
    CommandDone,
    FileContent,
    FileLink,
    FileWrite,
    HandshakeDone,
    HandshakeStep,
    Launch,
    Outcome,
    Output,
    ProcessExit,
    ReadFiles,
    Relaunch,
    Reply,
    RunCommand,
    SessionId,
    Stop,
    StopCause,
    Timer,
    TurnEnded,
    Usage,
)
from callboard_adapters.capabilities import Capabilities, PromptVia, Timeouts
from callboard_adapters.messages import Message, MessageType, TokenUsage
from callboard_wire.failures import FailureReason
from tests.fakes.cli import fake_cli

SLOW_START = 5 if os.name == "nt" else 1
"""A process takes longer to start on Windows than some clocks here allow: it has said nothing when they run out."""


class Simple(Adapter):
    """`done X` ends the turn with X; any other line is text."""

    capabilities = Capabilities(
        "simple", "simple", "simple", PromptVia.STDIN_LINE, timeouts=Timeouts(cancel_grace=0.5, term_grace=0.5)
    )
    exit: ProcessExit | None = None

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self.launches = 0
        self.answer: str | None = None
        self.heard: list[str] = []

    def launch(self, prompt: str, options: ExecOptions) -> Launch:
        self.launches += 1
        return Launch([str(self.launches)], stdin=prompt.encode() + b"\n", keep_stdin=True)

    def receive(self, line: bytes) -> Sequence[Output]:
        text = line.decode()
        self.heard.append(text)
        if text.startswith("done "):
            self.answer = text.removeprefix("done ")
            return [TurnEnded()]
        return [Message(MessageType.TEXT, text)]

    def finish(self, exit: ProcessExit) -> Outcome | Relaunch:
        type(self).exit = exit
        if self.answer is None:
            return Outcome(RunStatus.FAILED)
        return Outcome(RunStatus.COMPLETED, self.answer)


async def run(adapter: type[Adapter], folder: Path, body: str, cancel: bool = False, **options: Any):
    cli = fake_cli(folder, body, "simple")
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    session = await Backend(adapter, BackendConfig(executable=cli, env=env)).execute(
        "hello", ExecOptions(**{"cwd": folder, "timeout": 20, **options})
    )
    messages = []
    async for message in session.messages:
        messages.append(message)
        if cancel and message.content == "now":
            await session.cancel()
    return messages, await session.result()


ECHO = """
    line = sys.stdin.readline()
    while line:
        print("done", line.strip(), flush=True)
        line = sys.stdin.readline()
"""


async def test_a_reply_reaches_the_cli_and_its_answer_comes_back(tmp_path):
    class Asks(Simple):
        def receive(self, line: bytes) -> Sequence[Output]:
            if line == b"done hello":
                return [Reply(b"again\n")]
            return super().receive(line)

    _, result = await run(Asks, tmp_path, ECHO)
    assert (result.status, result.output) == (RunStatus.COMPLETED, "again")


async def test_a_relaunch_is_the_same_run_with_a_new_process(tmp_path):
    class Twice(Simple):
        def finish(self, exit: ProcessExit) -> Outcome | Relaunch:
            return Relaunch("once more") if self.launches == 1 else super().finish(exit)

    body = "print('try', sys.argv[1], flush=True); sys.argv[1] == '2' and print('done ok')"
    messages, result = await run(Twice, tmp_path, body)
    assert [m.content for m in messages] == ["try 1", "try 2"]
    assert (result.status, result.output) == (RunStatus.COMPLETED, "ok")


async def test_relaunches_are_bounded(tmp_path):
    class Forever(Simple):
        def finish(self, exit: ProcessExit) -> Outcome | Relaunch:
            return Relaunch(f"after launch {self.launches}")

    messages, result = await run(Forever, tmp_path, "print('x')")
    assert len(messages) == 3
    assert (result.status, result.error) == (RunStatus.FAILED, "after launch 3")


async def test_a_relaunch_may_interrupt_a_running_process(tmp_path):
    class Impatient(Simple):
        def receive(self, line: bytes) -> Sequence[Output]:
            return [Relaunch("stuck")] if line == b"stuck" else super().receive(line)

    body = "sys.argv[1] == '1' and (print('stuck', flush=True), time.sleep(60)); print('done unstuck')"
    _, result = await run(Impatient, tmp_path, body)
    assert result.output == "unstuck"


async def test_an_endless_line_may_be_answered_with_a_relaunch(tmp_path):
    class Shorter(Simple):
        def finish(self, exit: ProcessExit) -> Outcome | Relaunch:
            return Relaunch("too long") if exit.cause is StopCause.LINE_TOO_LONG else super().finish(exit)

    body = "sys.argv[1] == '1' and raw(b'x' * (65 << 20)); print('done short')"
    _, result = await run(Shorter, tmp_path, body)
    assert result.output == "short"


async def test_a_cancelled_run_is_not_launched_again(tmp_path):
    class Twice(Simple):
        def finish(self, exit: ProcessExit) -> Outcome | Relaunch:
            return Relaunch("once more")

    messages, result = await run(Twice, tmp_path, "print('now', flush=True); time.sleep(60)", cancel=True)
    assert (len(messages), result.status) == (1, RunStatus.CANCELLED)


async def test_a_timer_ticks_when_asked_and_not_when_taken_back(tmp_path):
    class Ticks(Simple):
        def receive(self, line: bytes) -> Sequence[Output]:
            if line == b"go":
                return [Timer("never", 0.05), Timer("soon", 0.1), Timer("never", None)]
            return super().receive(line)

        def tick(self, timer: str) -> Sequence[Output]:
            return [Reply(f"{timer}\n".encode())]

    body = "sys.stdin.readline(); print('go', flush=True); print('done', sys.stdin.readline())"
    _, result = await run(Ticks, tmp_path, body)
    assert result.output.strip() == "soon"


async def test_a_timer_can_start_with_a_silent_process(tmp_path):
    class Ticks(Simple):
        def launch(self, prompt: str, options: ExecOptions) -> Launch:
            return Launch([], keep_stdin=True, timers=[Timer("look", 0.1)])

        def tick(self, timer: str) -> Sequence[Output]:
            return [Reply(f"{timer}\n".encode())]

    _, result = await run(Ticks, tmp_path, "print('done', sys.stdin.readline())")
    assert result.output.strip() == "look"


async def test_side_files_are_read_before_the_launch_and_after_the_exit(tmp_path):
    (tmp_path / "usage.jsonl").write_text('{"in": 1}\n')

    class Reads(Simple):
        def before_launch(self, options: ExecOptions) -> Sequence[Any]:
            return [ReadFiles("before", [f"{self.context.home}/*.jsonl"], max_bytes=0)]

        def files(self, purpose: str, found: Sequence[FileContent]) -> Sequence[Output]:
            if purpose == "before":
                self.sizes = {f.path: f.size for f in found}
                return ()
            (new,) = found
            return [Usage({"m": TokenUsage(json.loads(new.data)["in"])})]

        def after_exit(self, exit: ProcessExit) -> Sequence[Any]:
            return [ReadFiles("after", [f"{self.context.home}/*.jsonl"], offsets=self.sizes)]

    body = "open('usage.jsonl', 'a').write('{\"in\": 7}\\n'); print('done x', flush=True)"
    _, result = await run(Reads, tmp_path, body)
    assert result.usage == {"m": TokenUsage(7)}


async def test_a_command_before_the_launch_is_answered_and_may_lead_to_another(tmp_path):
    asked: list[str] = []

    class Looks(Simple):
        def before_launch(self, options: ExecOptions) -> Sequence[Any]:
            return [RunCommand("models", ["models"])]

        def command(self, purpose: str, done: CommandDone) -> Sequence[Output]:
            asked.append(f"{purpose} {done.code} {done.stdout.decode().strip()}")
            return [RunCommand("more", ["more"])] if purpose == "models" else ()

    body = "print('m-1' if sys.argv[1] == 'models' else 'done x'); sys.exit(3 if sys.argv[1] == 'more' else 0)"
    _, result = await run(Looks, tmp_path, body)
    assert asked == ["models 0 m-1", "more 3 done x"]
    assert result.status is RunStatus.COMPLETED


async def test_a_command_that_hangs_is_ended_and_reported_as_such(tmp_path):
    class Looks(Simple):
        code: object = "unset"

        def before_launch(self, options: ExecOptions) -> Sequence[Any]:
            return [RunCommand("models", ["models"], timeout=0.3)]

        def command(self, purpose: str, done: CommandDone) -> Sequence[Output]:
            type(self).code = done.code
            return ()

    _, result = await run(Looks, tmp_path, "sys.argv[1] == 'models' and time.sleep(60); print('done x')")
    assert (Looks.code, result.output) == (None, "x")


async def test_files_are_private_while_the_run_lasts_and_gone_or_restored_after_it(tmp_path):
    project = tmp_path / "settings.json"
    project.write_text("the user's")
    project.chmod(0o640)

    class Writes(Simple):
        def launch(self, prompt: str, options: ExecOptions) -> Launch:
            secret = FileWrite(self.scratch_file("a/secret.json"), b"s3cret")
            merged = FileWrite(str(project), b"ours", mode=0o644, after="restore")
            kept = FileWrite(f"{self.context.cwd}/kept.txt", b"kept", mode=0o644, after="keep")
            return Launch([secret.path], files=[secret, merged, kept])

    body = """
        info = os.stat(sys.argv[1])
        folder = os.stat(os.path.dirname(os.path.dirname(sys.argv[1])))
        seen = [oct(info.st_mode & 0o777), oct(folder.st_mode & 0o777), open(sys.argv[1]).read()]
        print("done", sys.argv[1], open("settings.json").read(), *seen)
    """
    _, result = await run(Writes, tmp_path, body)
    path, *seen = result.output.split()
    shared, file_mode, folder_mode, secret = seen
    assert (shared, secret) == ("ours", "s3cret")
    assert not Path(path).parent.parent.exists()
    assert project.read_text() == "the user's"
    if os.name != "nt":  # there it is the user's temporary folder that is private
        assert (file_mode, folder_mode, stat.S_IMODE(project.stat().st_mode)) == ("0o600", "0o700", 0o640)
    assert (tmp_path / "kept.txt").read_text() == "kept"


async def test_nothing_is_left_on_disk_when_the_start_fails(tmp_path):
    class Writes(Simple):
        path = ""

        def launch(self, prompt: str, options: ExecOptions) -> Launch:
            type(self).path = self.scratch_file("secret.json")
            return Launch(["x" * 300_000], files=[FileWrite(self.path, b"s3cret")])

    with pytest.raises(Exception, match="larger than the system allows"):
        await run(Writes, tmp_path, "")
    assert not Path(Writes.path).parent.exists()


@pytest.mark.skipif(os.name == "nt", reason="links take a privilege there")
@pytest.mark.parametrize("saves", ["through the link", "by replacing the link", "not at all"])
async def test_a_linked_login_that_is_refreshed_during_the_run_is_never_lost(tmp_path, saves):
    (tmp_path / "user").mkdir()
    login = tmp_path / "user" / "auth.json"
    login.write_text("old")

    class Links(Simple):
        def launch(self, prompt: str, options: ExecOptions) -> Launch:
            here = self.scratch_file("home")
            links = [
                FileLink(f"{here}/auth.json", str(login)),
                FileLink(f"{here}/s", f"{tmp_path}/kept/s", directory=True),
            ]
            return Launch([here], links=links)

    body = f"""
        home, how = sys.argv[1], {saves!r}
        assert open(home + "/auth.json").read() == "old"
        if how == "through the link":
            open(home + "/auth.json", "w").write("new")
        elif how == "by replacing the link":
            open(home + "/draft", "w").write("new")
            os.replace(home + "/draft", home + "/auth.json")
        open(home + "/s/session", "w").write("kept")
        print("done", home)
    """
    _, result = await run(Links, tmp_path, body)
    assert login.read_text() == ("old" if saves == "not at all" else "new")
    assert not login.is_symlink()
    assert (tmp_path / "kept" / "s" / "session").read_text() == "kept"
    assert not Path(result.output).exists()


async def test_stop_ends_the_run_at_once_with_its_failure(tmp_path):
    failure = FailureDetail(FailureReason.AUTH, "login refused", http_status=401)

    class Stops(Simple):
        def receive(self, line: bytes) -> Sequence[Output]:
            return [Stop(failure)]

    _, result = await run(Stops, tmp_path, "print('x', flush=True); time.sleep(60)")
    assert (result.status, result.error, result.failure) == (RunStatus.FAILED, "login refused", failure)


async def test_late_pieces_of_an_answer_are_waited_for_where_the_adapter_asks(tmp_path):
    class Quiet(Simple):
        def receive(self, line: bytes) -> Sequence[Output]:
            said = super().receive(line)
            return [TurnEnded(quiet=0.4)] if isinstance(said[0], TurnEnded) else said

    body = """
        print("done x", flush=True)
        for piece in "abc":
            time.sleep(0.15)
            print(piece, flush=True)
        until_eof()
    """
    messages, _ = await run(Quiet, tmp_path, body)
    assert [m.content for m in messages] == ["a", "b", "c"]


class Handshaking(Simple):
    capabilities = Capabilities(
        "simple", "simple", "simple", PromptVia.RPC, explicit_handshake=True, timeouts=Timeouts(term_grace=0.3)
    )

    def receive(self, line: bytes) -> Sequence[Output]:
        words: dict[bytes, Sequence[Output]] = {b"step": [HandshakeStep()], b"ready": [HandshakeDone()]}
        words[b"alive"] = [Alive()]
        words[b"progress"] = [Alive(progress=True)]
        return words[line] if line in words else super().receive(line)


async def test_the_handshake_clock_starts_anew_with_each_step(tmp_path):
    body = f"""
        for _ in range(4):
            time.sleep({0.3 * SLOW_START})
            print("step", flush=True)
        print("ready\\ndone x", flush=True)
    """
    _, result = await run(Handshaking, tmp_path, body, handshake_timeout=0.8 * SLOW_START)
    assert result.output == "x"
    _, late = await run(Handshaking, tmp_path, "print('step', flush=True); time.sleep(60)", handshake_timeout=0.4)
    assert late.failure.watchdog is Watchdog.HANDSHAKE


async def test_hidden_progress_feeds_the_progress_clocks_and_mere_life_does_not(tmp_path):
    for word, dog in (("progress", None), ("alive", Watchdog.FIRST_PROGRESS)):
        body = f"""
            print("ready", flush=True)
            for _ in range(6):
                time.sleep(0.2)
                print("{word}", flush=True)
            print("done x", flush=True)
        """
        clocks = {"first_progress_timeout": 0.7, "semantic_inactivity_timeout": 0.7}
        _, result = await run(Handshaking, tmp_path, body, **clocks)
        assert (result.failure and result.failure.watchdog) == dog


async def test_an_adapter_may_answer_a_clock_with_a_relaunch(tmp_path):
    class Retries(Handshaking):
        def ran_out(self, dog: Watchdog) -> Sequence[Output]:
            return [Relaunch("never ready")] if self.launches == 1 and dog is Watchdog.HANDSHAKE else ()

    body = "sys.argv[1] == '1' and time.sleep(60); print('ready\\ndone second', flush=True)"
    _, result = await run(Retries, tmp_path, body, handshake_timeout=0.4 * SLOW_START)
    assert result.output == "second"


async def test_the_reason_of_a_handshake_timeout_names_the_step_the_adapter_waited_for(tmp_path):
    class Names(Handshaking):
        def finish(self, exit: ProcessExit) -> Outcome | Relaunch:
            return Outcome(RunStatus.FAILED, error="no answer to session/load")

    _, result = await run(Names, tmp_path, "time.sleep(60)", handshake_timeout=0.3)
    assert result.error.endswith("before that: no answer to session/load")


async def test_an_agent_that_answers_a_cancel_is_not_killed_and_is_cancelled(tmp_path):
    class Graceful(Simple):
        def cancel(self) -> Sequence[Output]:
            return [Reply(b"stop\n")]

    body = """
        prompt_line = sys.stdin.readline()
        print("now", flush=True)
        print("done", sys.stdin.readline(), flush=True)
        until_eof()
    """
    _, result = await run(Graceful, tmp_path, body, cancel=True)
    assert (result.status, result.exit_code) == (RunStatus.CANCELLED, 0)


async def test_a_session_id_is_told_once_and_early(tmp_path):
    class Names(Simple):
        def receive(self, line: bytes) -> Sequence[Output]:
            return [SessionId("s-1"), *super().receive(line)]

    messages, result = await run(Names, tmp_path, "print('a\\nb\\ndone x', flush=True)")
    assert [(m.type.value, m.session_id) for m in messages][:2] == [("status", "s-1"), ("text", "")]
    assert [m.session_id for m in messages].count("s-1") == 1
    assert result.session_id == "s-1"


@pytest.mark.parametrize("method", ["receive", "receive_stderr", "finish", "after_exit"])
async def test_a_bug_in_an_adapter_ends_its_run_and_not_the_host(tmp_path, method):
    def broken(self: Any, *args: Any) -> Any:
        raise ZeroDivisionError("oops")

    buggy = type("Buggy", (Simple,), {method: broken})
    body = "print('x', file=sys.stderr, flush=True); print('x', flush=True); sys.stdin.readline(); print('done x')"
    _, result = await run(buggy, tmp_path, body)
    assert result.status is RunStatus.FAILED
    assert "ZeroDivisionError: oops" in result.error


async def test_the_child_gets_the_environment_we_chose_and_the_mark_of_its_run(tmp_path, monkeypatch):
    monkeypatch.setenv("CLAUDECODE", "1")
    monkeypatch.setenv("MULTICA_TOKEN", "mdt_daemons_own")
    monkeypatch.setenv("CLAUDE_CODE_GIT_BASH_PATH", "kept")

    class Env(Simple):
        def launch(self, prompt: str, options: ExecOptions) -> Launch:
            return Launch([], env={"ADDED": "1"}, env_remove=["GONE"])

    monkeypatch.setenv("GONE", "1")
    cli = fake_cli(tmp_path, "print('done', json.dumps(dict(os.environ)))", "simple")
    session = await Backend(Env, BackendConfig(executable=cli)).execute("x", ExecOptions(cwd=tmp_path, run_id="run-7"))
    result: Result = await session.result()
    env = json.loads(result.output)
    assert env["ADDED"] == "1"
    assert env["CALLBOARD_RUN_ID"] == "run-7"
    assert env["PWD"] == str(tmp_path)
    assert env["CLAUDE_CODE_GIT_BASH_PATH"] == "kept"
    assert not {"CLAUDECODE", "MULTICA_TOKEN", "GONE"} & set(env)


async def test_the_launch_prefix_stands_between_the_executable_and_the_protocol(tmp_path):
    class Argv(Simple):
        def launch(self, prompt: str, options: ExecOptions) -> Launch:
            return Launch(["--protocol"])

    cli = fake_cli(tmp_path, "print('done', *sys.argv[1:])", "simple")
    backend = Backend(Argv, BackendConfig(executable=cli, launch_prefix=("start", "q36")))
    session = await backend.execute("x", ExecOptions(cwd=tmp_path))
    assert (await session.result()).output == "start q36 --protocol"
