"""Files and commands an adapter asks for, done in the background and answered in the order they were asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from callboard_adapters.base import Adapter, Output, ReadFiles, Request, RunCommand
from callboard_adapters.process.files import read_files
from callboard_adapters.process.probe import run_command

MAX_ROUNDS = 16
"""An adapter may answer an answer with another request (list, then read); this many and no more."""

Ask: TypeAlias = Callable[..., object]
"""Calls one of the adapter's methods and carries out what it says."""


class Requests:
    def __init__(self, adapter: Adapter, argv: Sequence[str], env: Mapping[str, str], cwd: str) -> None:
        self._adapter = adapter
        self._argv = list(argv)
        self._env = env
        self._cwd = cwd
        self._last: asyncio.Task[None] | None = None

    def start(self, request: Request, ask: Ask) -> None:
        """Do `request` after the ones before it and pass the answer on through `ask`."""
        self._last = asyncio.ensure_future(self._after(self._last, request, ask))

    async def settled(self) -> None:
        """Until every request has been answered, also those that answers led to."""
        while self._last is not None and not self._last.done():
            await asyncio.shield(self._last)

    async def all(self, requests: Iterable[Request]) -> list[Output]:
        """Do `requests` and what they lead to; the other outputs in order. What the adapter raises comes through."""
        said: list[Output] = []
        queue = list(requests)
        for _ in range(MAX_ROUNDS):
            if not queue:
                break
            method, args = await self._do(queue.pop(0))
            for output in method(*args):
                if isinstance(output, ReadFiles | RunCommand):
                    queue.append(output)
                else:
                    said.append(output)
        return said

    async def _do(self, request: Request) -> tuple[Callable[..., Sequence[Output]], tuple[object, ...]]:
        """Do one request; the adapter's method that takes the answer, and the answer."""
        if isinstance(request, ReadFiles):
            return self._adapter.files, (request.purpose, await asyncio.to_thread(read_files, request))
        done = await run_command(
            [*self._argv, *request.args],
            env=self._env,
            cwd=self._cwd,
            timeout=request.timeout,
            max_bytes=request.max_bytes,
        )
        return self._adapter.command, (request.purpose, done)

    async def _after(self, before: asyncio.Task[None] | None, request: Request, ask: Ask) -> None:
        if before is not None:
            await before
        method, args = await self._do(request)
        ask(method, *args)
