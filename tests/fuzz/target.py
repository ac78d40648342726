"""What a fuzzer does to one adapter: any bytes on its pipes, in its files and as its commands' answers.

Input is the CLI's stdout. A line `#stderr` or `#files` switches to what it writes to stderr, or to what every file and
command that the adapter asks for holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from callboard_adapters import registry
from callboard_adapters.base import (
    Adapter,
    CommandDone,
    FileContent,
    Outcome,
    Output,
    ProcessExit,
    ReadFiles,
    Relaunch,
    RunCommand,
    SessionId,
    Timer,
    TurnEnded,
    Usage,
)
from callboard_adapters.conformance import Recording
from callboard_adapters.conformance.pure import PureRun, context
from callboard_adapters.errors import LaunchRefused
from callboard_adapters.messages import Message, RunStatus, TokenUsage, Watchdog
from callboard_adapters.options import ExecOptions
from callboard_adapters.process.framing import LineFramer
from callboard_adapters.run_state import in_words

RECORDINGS = Path(__file__).parents[1] / "fixtures" / "transcripts"
DIALECTS = sorted(registry.BUILT_IN)
_SEED_SIZE = 20_000  # bytes: mutating a longer one finds nothing that a shorter one does not
_GROWTH, _FLOOR = 60, 50_000  # characters an adapter may say for each byte it heard, and at any rate
_BORROWS = {"kiro": "kimi", "traecli": "kimi"}
"""Never recorded; what they say first is what every ACP agent says."""
_ROUNDS = 20  # answers to requests that lead to requests


class Broken(AssertionError):
    """Something that must hold of every adapter did not."""


class Target:
    """One adapter under test; every `play` is a run of its own."""

    def __init__(self, provider: str) -> None:
        self.adapter = registry.adapter_class(provider)
        self._world = replace(
            context(self.adapter, Recording("fuzz", ())), env={"HOME": "/home/somebody", "IS_SANDBOX": "1"}
        )

    def play(self, data: bytes) -> Outcome | Relaunch | None:
        """One run on these bytes; None where the adapter refuses to launch. Raises `Broken`, or as the adapter did."""
        pipes = _Pipes(data)
        run = _Run(self.adapter(self._world), pipes.files)
        options = ExecOptions(cwd="/work-dir", resume_session_id="s-1" if len(data) % 2 else None)
        try:
            run.take(run.adapter.before_launch(options))
            run.take(run.adapter.launch("hello", options).notices)
        except LaunchRefused:
            return None
        run.hear(pipes.stdout)
        for line in pipes.stderr.split(b"\n"):
            run.take(run.adapter.receive_stderr(line))
        outcome = run.end()
        run.judge(outcome, len(data))
        return outcome


class _Pipes:
    def __init__(self, data: bytes) -> None:
        parts: dict[bytes, list[bytes]] = {b"": [], b"#stderr": [], b"#files": []}
        where = b""
        for line in data.split(b"\n"):
            if line in parts and line:
                where = line
            else:
                parts[where].append(line)
        self.stdout, self.stderr, self.files = (b"\n".join(lines) for lines in parts.values())


class _Run:
    def __init__(self, adapter: Adapter, files: bytes) -> None:
        self.adapter = adapter
        self._files = files
        self._timers: set[str] = set()
        self._said = 0
        self._turn_ended = False
        self._rounds = 0

    def hear(self, data: bytes) -> None:
        framer = LineFramer(indented=self.adapter.indented_output)
        half = len(data) // 2
        for chunk in (data[:half], data[half:]):
            for line in framer.feed(chunk):
                self.take(self.adapter.receive(line))
        last = framer.close()
        if last is not None:
            self.take(self.adapter.receive(last))

    def end(self) -> Outcome | Relaunch:
        for timer in sorted(self._timers):
            self.take(self.adapter.tick(timer))
        for dog in Watchdog:
            self.take(self.adapter.ran_out(dog))
        self.take(self.adapter.cancel())
        exit = ProcessExit(0, None, None, self._turn_ended, self._files[-200:].decode("utf-8", "replace"))
        self.take(self.adapter.after_exit(exit))
        return self.adapter.finish(exit)

    def take(self, outputs: Iterable[Output]) -> None:
        for output in outputs:
            if isinstance(output, Message):
                in_words(output)
                self._said += len(output.content) + len(output.output)
            elif isinstance(output, Timer):
                self._timers.add(output.name)
            elif isinstance(output, TurnEnded):
                self._turn_ended = True
            elif isinstance(output, Usage):
                check_usage(output.by_model)
            elif isinstance(output, SessionId) and type(output.value) is not str:
                raise Broken(f"a session id that is no text: {output.value!r}")
            elif isinstance(output, ReadFiles | RunCommand) and self._rounds < _ROUNDS:
                self._rounds += 1
                self.take(self._answer(output))

    def _answer(self, request: ReadFiles | RunCommand) -> Iterable[Output]:
        if isinstance(request, RunCommand):
            done = CommandDone(0, self._files, b"")
            return self.adapter.command(request.purpose, done)
        path = request.patterns[0].replace("*", "x") if request.patterns else "/none"
        found = [FileContent(path, len(self._files), self._files if request.max_bytes else b"")] if self._files else []
        return self.adapter.files(request.purpose, found)

    def judge(self, outcome: Outcome | Relaunch, size: int) -> None:
        if self._said > _GROWTH * size + _FLOOR:
            raise Broken(f"{size} bytes in, {self._said} characters out")
        if isinstance(outcome, Relaunch):
            return
        check_usage(outcome.usage or {})
        if outcome.status is RunStatus.COMPLETED and not size:
            raise Broken("nothing was said, and the run is completed")
        if outcome.status is RunStatus.COMPLETED and outcome.resume_rejected and not outcome.session_id:
            raise Broken("completed in a session that is gone")


def check_usage(by_model: Any) -> None:
    for model, usage in by_model.items():
        counts = usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens
        if (
            type(model) is not str
            or not isinstance(usage, TokenUsage)
            or any(type(n) is not int or n < 0 for n in counts)
        ):
            raise Broken(f"usage {model!r}: {usage!r}")


def seeds(provider: str) -> Iterator[bytes]:
    """What the provider's CLI said in our recordings, with the ids that the adapter waits for."""
    folder = RECORDINGS / _BORROWS.get(provider, provider)
    for name in sorted(p.name for p in folder.iterdir()) if folder.is_dir() else ():
        recording = Recording.load(folder / name)
        heard: list[bytes] = []
        run = PureRun.of(registry.adapter_class(provider), recording)
        receive = run.adapter.receive
        run.adapter.receive = lambda line, r=receive, h=heard: (h.append(line), r(line))[1]  # type: ignore[method-assign]
        run.play()
        files = b"".join(recording.side_files.values())
        whole = b"\n".join([*heard, b"#stderr", recording.stderr.encode(), b"#files", files])
        if len(whole) <= _SEED_SIZE:
            yield whole
