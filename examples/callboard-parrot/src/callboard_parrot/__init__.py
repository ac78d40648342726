"""The adapter: one class, no I/O."""

from __future__ import annotations

from collections.abc import Sequence

from callboard_adapters.base import Adapter, Launch, Outcome, Output, ProcessExit, RunContext, SessionId, TurnEnded
from callboard_adapters.capabilities import ArgMode, Capabilities, PromptVia
from callboard_adapters.dialects.ndjson import LineParser
from callboard_adapters.failures import classify
from callboard_adapters.messages import Message, MessageType, RunStatus
from callboard_adapters.options import ExecOptions


class ParrotAdapter(Adapter):
    capabilities = Capabilities(
        name="parrot",
        executable="parrot",
        launch_header="parrot (json)",
        prompt=PromptVia.STDIN_EOF,
        early_session_id=True,
        context_file="AGENTS.md",
        blocked_args={"--json": ArgMode.STANDALONE},
    )

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.parser = LineParser()
        self.answer = ""
        self.error = ""
        self.status: int | None = None
        self.ended = False

    def launch(self, prompt: str, options: ExecOptions) -> Launch:
        user, notices = self.user_args(options)
        return Launch(["--json", *self.flag("--model", options.model), *user], stdin=prompt.encode(), notices=notices)

    def receive(self, line: bytes) -> Sequence[Output]:
        event = self.parser.parse(line)
        if event is None:
            return self.parser.notices()
        kind, text = event.get("type"), str(event.get("text") or "")
        if kind == "start":
            return [SessionId(str(event.get("session") or ""))]
        if kind == "text":
            self.answer = text
            return [Message(MessageType.TEXT, text)]
        if kind == "done":
            self.ended = True
            return [TurnEnded()]
        if kind == "error":
            self.error = text or "parrot said nothing more"
            self.status = event["status"] if type(event.get("status")) is int else None
            return [Message(MessageType.ERROR, text), TurnEnded()]
        return [Message(MessageType.LOG, f"unknown event {kind!r}: {str(event)[:500]}", level="debug")]

    def noise(self) -> tuple[int, int]:
        return self.parser.noise, self.parser.invalid_utf8

    def finish(self, exit: ProcessExit) -> Outcome:
        if self.error:
            failure = classify(self.error, exit, http_status=self.status)
            return Outcome(RunStatus.FAILED, error=self.error, failure=failure)
        if self.ended:
            return Outcome(RunStatus.COMPLETED, self.answer)
        return Outcome(RunStatus.FAILED, error=f"parrot ended with {exit} and no answer {exit.stderr_tail}".strip())
