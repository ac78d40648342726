"""An adapter played in memory: no process, no clock. Thousands of cuts and mutations a second."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from callboard_adapters.base import (
    Adapter,
    CommandDone,
    FileContent,
    Outcome,
    Output,
    ProcessExit,
    ReadFiles,
    Relaunch,
    Reply,
    RunCommand,
    RunContext,
    Stop,
    TurnEnded,
    TurnResumed,
)
from callboard_adapters.conformance.recording import Recording
from callboard_adapters.conformance.script import Script
from callboard_adapters.messages import Message
from callboard_adapters.options import ExecOptions
from callboard_adapters.process.framing import LineFramer
from callboard_adapters.process.probe import parse_version
from callboard_adapters.run_state import in_words


def context(adapter: type[Adapter], recording: Recording) -> RunContext:
    """A fixed world, the same on every machine."""
    return RunContext(
        provider=adapter.capabilities.name,
        executable=f"/bin/{adapter.capabilities.name}",
        launch_prefix=(),
        env={"HOME": "/home/somebody", "IS_SANDBOX": "1", **recording.env},
        cwd="/work-dir",
        home="/home/somebody",
        scratch="/tmp/scratch",
        run_id="conformance",
        unique="00000000-0000-4000-8000-000000000000",
        started_at=1_796_000_000.0,
        platform="linux",
        euid=1000,
        version=parse_version(recording.version),
        version_text=recording.version,
    )


@dataclass
class PureRun:
    """Plays a recording into one adapter object."""

    adapter: Adapter
    recording: Recording
    messages: list[Message] = field(default_factory=list)
    turn_ended: bool = False
    stopped: bool = False  # the adapter asked for the end; what comes later is not heard
    turn_ends: list[bool] = field(default_factory=list)  # after each line, whether the run had been decided
    _queue: list[bytes] = field(default_factory=list)
    _script: Script = field(default_factory=lambda: Script((), (), ()))
    tools_open: list[int] = field(default_factory=list)  # after each line, how many tools ran

    @classmethod
    def of(cls, adapter: type[Adapter], recording: Recording) -> PureRun:
        return cls(adapter(context(adapter, recording)), recording)

    def play(self, chunks: Iterable[bytes] | None = None) -> Outcome | Relaunch:
        """Launch, feed `chunks` (None: the recording, line by line as the conversation goes), finish."""
        options = ExecOptions(cwd="/work-dir", resume_session_id=self.recording.resume)
        self.prepare(options)
        launch = self.adapter.launch(self.recording.prompt, options)
        self.messages += launch.notices
        self._script = Script(self.recording.lines, self.recording.client, self.recording.sent_after)
        self._queue = list(self._script.begin())
        if chunks is not None:
            self._feed(chunks)
        else:
            self._hear(launch.stdin)
            while self._queue:
                self._receive(self._queue.pop(0))
        for line in self.recording.stderr.splitlines():
            self._do(self.adapter.receive_stderr(line.encode()))
        exit = ProcessExit(self.recording.exit, None, None, self.turn_ended, self.recording.stderr)
        self._do(self.adapter.after_exit(exit))
        return self.adapter.finish(exit)

    def prepare(self, options: ExecOptions) -> None:
        """The adapter's own look around before a launch."""
        self._do(self.adapter.before_launch(options))

    def _feed(self, chunks: Iterable[bytes]) -> None:
        framer = LineFramer(indented=self.adapter.indented_output)
        for chunk in chunks:
            for line in framer.feed(chunk):
                self._receive(line)
        last = framer.close()
        if last is not None:
            self._receive(last)

    def _receive(self, line: bytes) -> None:
        if not self.stopped:
            self._do(self.adapter.receive(line))
        self.turn_ends.append(self.turn_ended or self.stopped)
        used = {m.call_id for m in self.messages if m.type == "tool-use" and m.call_id}
        done = {m.call_id for m in self.messages if m.type == "tool-result"}
        self.tools_open.append(len(used - done))

    def _do(self, outputs: Sequence[Output]) -> None:
        for output in outputs:
            if self.stopped:
                return
            if isinstance(output, Message):
                self.messages.append(in_words(output))
            elif isinstance(output, TurnEnded | TurnResumed):
                self.turn_ended = isinstance(output, TurnEnded)
            elif isinstance(output, Stop):
                self.stopped = True
            elif isinstance(output, Reply):
                self._hear(output.data)
            elif isinstance(output, ReadFiles):
                self._do(self.adapter.files(output.purpose, self._side_files(output)))
            elif isinstance(output, RunCommand):
                text = self.recording.commands.get(" ".join(output.args))
                done = CommandDone(0 if text is not None else 1, (text or "").encode(), b"")
                self._do(self.adapter.command(output.purpose, done))

    def _hear(self, data: bytes) -> None:
        for line in data.splitlines():
            self._queue += self._script.hear(line)

    def _side_files(self, request: ReadFiles) -> list[FileContent]:
        from fnmatch import fnmatch

        found = []
        for name, content in self.recording.side_files.items():
            path = f"/home/somebody/{name}"
            if any(fnmatch(path, pattern.replace("**", "*")) for pattern in request.patterns):
                offset = request.offsets.get(path, 0)
                found.append(FileContent(path, len(content), content[offset:], offset))
        return found[-request.max_files :]
