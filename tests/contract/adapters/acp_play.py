"""Ways to play an ACP adapter: against a scripted agent as a process, and against the same script in memory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from callboard_adapters import BackendConfig, ExecOptions, Message, MessageType, Result, create_backend
from callboard_adapters.backend import Backend
from callboard_adapters.base import Adapter, Outcome, Output, ProcessExit, Reply, RunContext, StopCause, TurnEnded
from callboard_adapters.registry import adapter_class
from tests.fakes.acp_agent import Script, install

EXITED = ProcessExit(0, None, None, True, "")


@dataclass
class Played:
    """One run as its caller saw it."""

    messages: list[Message]
    result: Result

    def of(self, kind: MessageType) -> list[Message]:
        return [m for m in self.messages if m.type is kind]

    @property
    def text(self) -> str:
        return "".join(m.content for m in self.of(MessageType.TEXT))


async def play(
    provider: str,
    folder: Path,
    says: dict[str, list[dict[str, Any]]],
    *,
    cancel_at: str = "",
    deaf: bool = False,
    prompt: str = "Fix it",
    env: dict[str, str] | None = None,
    **options: Any,
) -> Played:
    """Run the adapter against the script as a real process; cancel once the message text `cancel_at` was said."""
    cli = install(folder, says, name=adapter_class(provider).capabilities.executable, deaf=deaf)
    world = {"HOME": str(folder), "PATH": "/usr/bin:/bin", **(env or {})}
    config = BackendConfig(executable=cli, env=world)
    backend = create_backend(provider, config)
    if cancel_at:  # a cancel that is never heeded need not take three seconds
        adapter = adapter_class(provider)
        quick = replace(adapter.capabilities.timeouts, cancel_grace=0.5, term_grace=0.3)
        attributes = {"capabilities": replace(adapter.capabilities, timeouts=quick), "__module__": adapter.__module__}
        backend = Backend(type(adapter.__name__, (adapter,), attributes), config)
    session = await backend.execute(prompt, ExecOptions(**{"cwd": folder, "timeout": 40, **options}))
    messages = []
    async for message in session.messages:
        messages.append(message)
        if cancel_at and message.content == cancel_at:
            await session.cancel()
    return Played(messages, await session.result())


@dataclass
class Talk:
    """An adapter and a script in memory: what the client sent, what it said, how it ended."""

    provider: str
    says: dict[str, list[dict[str, Any]]]
    env: dict[str, str] = field(default_factory=dict)
    said: list[Output] = field(default_factory=list)
    sent: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.adapter: Adapter = adapter_class(self.provider)(self._context())
        self._script = Script(self.says)

    def start(self, prompt: str = "Fix it", **options: Any) -> Talk:
        launch = self.adapter.launch(prompt, ExecOptions(**options))
        self.said += launch.notices
        self.args = list(launch.args)
        self._send(launch.stdin)
        return self

    def hear(self, *lines: bytes) -> Talk:
        """Give the adapter lines of the agent's that are not in the script."""
        for line in lines:
            self.do(self.adapter.receive(line))
        return self

    def do(self, outputs: Any) -> None:
        for output in outputs:
            self.said.append(output)
            if isinstance(output, Reply):
                self._send(output.data)

    def end(self, exit: ProcessExit = EXITED) -> Outcome:
        ended = any(isinstance(o, TurnEnded) for o in self.said)
        outcome = self.adapter.finish(replace(exit, turn_ended=ended))
        assert isinstance(outcome, Outcome)
        return outcome

    def killed(self, signal: int = 9) -> Outcome:
        return self.end(ProcessExit(None, signal, None, False, ""))

    def cancel(self) -> Talk:
        self.do(self.adapter.cancel())
        return self

    def stopped(self) -> Outcome:
        return self.end(ProcessExit(0, None, StopCause.CANCEL, False, ""))

    def methods(self) -> list[str]:
        return [m.get("method", "answer") for m in self.sent]

    def messages(self, kind: MessageType) -> list[Message]:
        return [o for o in self.said if isinstance(o, Message) and o.type is kind]

    def _send(self, data: bytes) -> None:
        import json

        for line in data.splitlines():
            self.sent.append(json.loads(line))
            for do, what in list(self._script.hear(line)):
                if do == "write":
                    self.hear(what)

    def _context(self) -> RunContext:
        return RunContext(
            provider=self.provider,
            executable=f"/bin/{adapter_class(self.provider).capabilities.executable}",
            launch_prefix=(),
            env=self.env,
            cwd="/work-dir",
            home="/home/somebody",
            scratch="/scratch",
            run_id="run",
            unique="00000000-0000-4000-8000-000000000000",
            started_at=1_796_000_000.0,
            platform="linux",
            euid=1000,
        )
