"""Running a fake CLI through the public face, and looking at what is left of it."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from callboard_adapters import Backend, BackendConfig, ExecOptions, Message, Result, Session
from callboard_adapters.claude import ClaudeAdapter
from tests.fakes.cli import fake_cli

posix = pytest.mark.skipif(os.name == "nt", reason="of signals, sessions, fork, first lines or file modes")


class Impatient(ClaudeAdapter):
    """claude, with less patience between the rungs of the ladder."""

    capabilities = replace(
        ClaudeAdapter.capabilities,
        timeouts=replace(ClaudeAdapter.capabilities.timeouts, cancel_grace=0.5, term_grace=1.0),
    )


@dataclass
class Ended:
    messages: list[Message]
    result: Result
    session: Session

    def of(self, kind: str) -> list[Message]:
        return [m for m in self.messages if m.type == kind]


async def start(folder: Path, body: str, prompt: str = "hello", **options: Any) -> Session:
    cli = fake_cli(folder, body)
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "IS_SANDBOX": "1", "LANG": "C.UTF-8"}
    env |= options.pop("env", {})
    backend = Backend(Impatient, BackendConfig(executable=cli, env=env))
    return await backend.execute(prompt, ExecOptions(**{"cwd": folder, "timeout": 30, **options}))


async def finish(session: Session) -> Ended:
    messages = [m async for m in session.messages]
    return Ended(messages, await session.result(), session)


async def run(folder: Path, body: str, prompt: str = "hello", **options: Any) -> Ended:
    return await finish(await start(folder, body, prompt, **options))


def alive(pid: int) -> bool:
    """Running, not a zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def pids_in(path: Path) -> list[int]:
    return [int(word) for word in path.read_text().split()]
