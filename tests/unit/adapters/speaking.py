"""An adapter in memory: events in, what it says out. For what no recording holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from callboard_adapters.base import (
    Adapter,
    CommandDone,
    FileContent,
    Launch,
    Outcome,
    ProcessExit,
    ReadFiles,
    RunCommand,
    StopCause,
    TurnEnded,
    TurnResumed,
)
from callboard_adapters.conformance import Recording
from callboard_adapters.conformance.pure import context
from callboard_adapters.messages import Message, MessageType
from callboard_adapters.options import ExecOptions


class Speaking:
    """Feeds a fresh adapter. `files` (path → content) and `commands` (arguments → (code, stdout)) are its world."""

    def __init__(
        self,
        adapter: type[Adapter],
        *,
        options: ExecOptions | None = None,
        prompt: str = "hello",
        env: Mapping[str, str] | None = None,
        files: Mapping[str, bytes] | None = None,
        commands: Mapping[str, tuple[int | None, str]] | None = None,
        version: str = "999.0.0",
    ) -> None:
        world = context(adapter, Recording("made up", (), version=version))
        self.adapter = adapter(replace(world, env={"HOME": world.home, **(env or {})}))
        self.world_files = dict(files or {})
        self.commands = dict(commands or {})
        self.asked: list[Any] = []
        self.outputs: list[Any] = []
        options = options or ExecOptions(cwd="/work-dir")
        self._do(self.adapter.before_launch(options))
        self.launch: Launch = self.adapter.launch(prompt, options)

    def event(self, *events: dict[str, Any]) -> Speaking:
        for event in events:
            self.line(json.dumps(event).encode())
        return self

    def line(self, *lines: bytes) -> Speaking:
        for line in lines:
            self._do(self.adapter.receive(line))
        return self

    def stderr(self, *lines: str) -> Speaking:
        for line in lines:
            self._do(self.adapter.receive_stderr(line.encode()))
        return self

    def tick(self, name: str) -> Speaking:
        self._do(self.adapter.tick(name))
        return self

    def finish(
        self, code: int | None = 0, *, signal: int | None = None, stderr: str = "", cause: StopCause | None = None
    ) -> Outcome:
        exit = ProcessExit(None if signal else code, signal, cause, self.turn_ended, stderr)
        self._do(self.adapter.after_exit(exit))
        outcome = self.adapter.finish(exit)
        assert isinstance(outcome, Outcome)
        return outcome

    @property
    def turn_ended(self) -> bool:
        ends = [isinstance(o, TurnEnded) for o in self.outputs if isinstance(o, TurnEnded | TurnResumed)]
        return bool(ends) and ends[-1]

    @property
    def messages(self) -> list[Message]:
        return [o for o in self.outputs if isinstance(o, Message)]

    def of(self, kind: MessageType) -> list[Message]:
        return [m for m in self.messages if m.type is kind]

    def text(self, kind: MessageType = MessageType.TEXT) -> str:
        return "".join(m.content for m in self.of(kind))

    def _do(self, outputs: Any) -> None:
        for output in outputs:
            if isinstance(output, ReadFiles):
                self.asked.append(output)
                self._do(self.adapter.files(output.purpose, self._found(output)))
            elif isinstance(output, RunCommand):
                self.asked.append(output)
                code, text = self.commands.get(" ".join(output.args), (1, ""))
                self._do(self.adapter.command(output.purpose, CommandDone(code, text.encode(), b"")))
            else:
                self.outputs.append(output)

    def _found(self, request: ReadFiles) -> list[FileContent]:
        from fnmatch import fnmatch

        found = []
        for path, data in self.world_files.items():
            if any(fnmatch(path, pattern.replace("**/", "*")) for pattern in request.patterns):
                if request.lines_with:
                    wanted = [x for x in data.splitlines(True) if any(mark in x for mark in request.lines_with)]
                    found.append(FileContent(path, len(data), b"".join(wanted)))
                else:
                    found.append(FileContent(path, len(data), data if request.max_bytes else b""))
        return found
