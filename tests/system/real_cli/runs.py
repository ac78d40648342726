"""Drive one real CLI through the public face of `callboard_adapters`, and look for what it left behind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import psutil

from callboard_adapters import BackendConfig, ExecOptions, Message, MessageType, Result, TokenUsage, create_backend
from tests.system.real_cli.worlds import MARK_VARIABLE, World

GONE_WITHIN = 5.0  # seconds after the result in which everything of a run must have ended
STREAM_ENDS_WITHIN = 2.0
POLL = 0.1


@dataclass(frozen=True)
class Run:
    """What the caller of one run saw."""

    messages: list[Message]
    result: Result

    def of(self, kind: MessageType) -> list[Message]:
        """The messages of one type, in order."""
        return [one for one in self.messages if one.type is kind]

    def text(self, kind: MessageType = MessageType.TEXT) -> str:
        """The contents of one type, glued: deltas and whole blocks come out the same."""
        return "".join(one.content for one in self.of(kind))

    def usage(self) -> TokenUsage:
        """The tokens of all models together."""
        return sum(self.result.usage.values(), TokenUsage())

    def describe(self) -> str:
        """The run as a failing test should show it."""
        lines = [f"{one.type}: {one.tool} {one.status} {one.content or one.output}"[:300] for one in self.messages]
        shown = f"{self.result}"[:1500]
        return "\n".join([*lines[-40:], shown])


async def drive(
    world: World,
    prompt: str,
    *,
    timeout: float,
    resume: str | None = None,
    cancel_when: Callable[[], bool] | None = None,
    max_turns: int | None = None,
    mcp_config: Mapping[str, Any] | None = None,
) -> Run:
    """Run the CLI to its end, collecting its messages; cancel it once `cancel_when` says so.

    Fails when the messages do not end with the result, or when `cancel_when` never comes true within `timeout`.
    """
    backend = create_backend(world.cli.provider, BackendConfig(executable=world.cli.executable, env=world.env))
    options = ExecOptions(
        cwd=world.workdir,
        model=world.model,
        resume_session_id=resume,
        timeout=timeout,
        max_turns=max_turns,
        mcp_config=mcp_config,
    )
    session = await backend.execute(prompt, options)
    messages: list[Message] = []

    async def listen() -> None:
        async for message in session.messages:
            messages.append(message)

    listening = asyncio.create_task(listen())
    try:
        if cancel_when is not None:
            await _come_true(cancel_when, timeout)
            await session.cancel()
        result = await session.result()
        await asyncio.wait_for(listening, STREAM_ENDS_WITHIN)
        assert await session.result() is result
        return Run(messages, result)
    finally:
        await session.cancel()
        listening.cancel()


async def _come_true(condition: Callable[[], bool], timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"the moment to cancel never came within {timeout} s"
        await asyncio.sleep(POLL)


def processes_of(world: World) -> list[psutil.Process]:
    """Every process of this world's runs, however far it moved away: by its inherited mark, or the mark in its argv."""
    return list(_marked(world.server.mark))


def tool_is_running(world: World) -> bool:
    """Whether the long tool's own process exists (its shell alone is not enough)."""
    mark = world.server.mark
    return any(one.name().startswith("python") for one in _marked(mark) if mark in _argv(one))


async def left_alive(world: World) -> list[str]:
    """The command lines of what is still running `GONE_WITHIN` seconds after a result; empty as soon as nothing is."""
    deadline = time.monotonic() + GONE_WITHIN
    while (left := processes_of(world)) and time.monotonic() < deadline:
        await asyncio.sleep(POLL)
    return [_argv(one) for one in left]


def end_all(world: World) -> None:
    """Kill what a failed run left, so that it cannot disturb the next one."""
    for process in processes_of(world):
        try:
            process.kill()
        except psutil.NoSuchProcess:
            pass


def _marked(mark: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            if process.environ().get(MARK_VARIABLE) == mark or mark in _argv(process):
                yield process
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue  # gone meanwhile, or another user's: neither is ours


def _argv(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""
