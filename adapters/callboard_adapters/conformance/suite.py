"""What every adapter must keep, whatever the CLI does: run through fake CLIs that are real processes.

    report = await check(MyAdapter, [Recording.load("recordings/text")], folder)
    assert not report.problems, report

No test framework is needed. A case is a coroutine `(Bench) -> None` that calls `bench.expect`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from callboard_adapters.backend import Backend
from callboard_adapters.base import Adapter, Launch, Outcome
from callboard_adapters.conformance.pure import PureRun, context
from callboard_adapters.conformance.recording import Recording
from callboard_adapters.messages import Message, MessageType, Result
from callboard_adapters.options import BackendConfig, ExecOptions
from callboard_adapters.process.host import run_processes
from callboard_adapters.session import Session

_GIVE_UP = 30.0  # seconds after which a run counts as hung


@dataclass(frozen=True, slots=True)
class Problem:
    case: str
    recording: str
    what: str

    def __str__(self) -> str:
        return f"{self.case} / {self.recording}: {self.what}"


@dataclass
class Report:
    """`ran` counts runs of the adapter, in memory and as processes."""

    ran: int = 0
    problems: list[Problem] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.ran} runs, {len(self.problems)} problems" + "".join(f"\n  {p}" for p in self.problems)


@dataclass
class Run:
    """One finished process run."""

    messages: list[Message]
    result: Result
    left: int  # processes of the run that were alive when the result came

    @property
    def said(self) -> list[tuple[str, str, str]]:
        """The messages as they read: deltas joined, logs and states left out."""
        joined: list[tuple[str, str, str]] = []
        for m in self.messages:
            if m.type in (MessageType.LOG, MessageType.STATUS):
                continue
            row = (m.type.value, m.call_id or m.parent_call_id, m.content or m.output or m.tool)
            if joined and joined[-1][:2] == row[:2] and m.type in (MessageType.TEXT, MessageType.THINKING):
                row = (*row[:2], joined.pop()[2] + row[2])
            joined.append(row)
        return joined


class Bench:
    """What a case works with: one adapter, one recording, and a place to report."""

    def __init__(self, case: str, adapter: type[Adapter], recording: Recording, folder: Path, report: Report) -> None:
        self.case = case
        self.recording = recording
        self.folder = folder
        self.report = report
        caps = adapter.capabilities
        quick = replace(caps.timeouts, term_grace=0.3, cancel_grace=0.5)
        attributes = {"capabilities": replace(caps, timeouts=quick), "__module__": adapter.__module__}
        self.adapter: type[Adapter] = type(adapter.__name__, (adapter,), attributes)
        self._runs = 0

    def expect(self, holds: bool, what: str) -> None:
        if not holds:
            self.report.problems.append(Problem(self.case, self.recording.name, what))

    def pure(self, chunks: Iterable[bytes] | None = None, recording: Recording | None = None) -> tuple[PureRun, Any]:
        """Play in memory; (the run, its outcome)."""
        self.report.ran += 1
        run = PureRun.of(self.adapter, recording or self.recording)
        return run, run.play(chunks)

    def launch(self, prompt: str, options: ExecOptions) -> Launch:
        """The command line for `prompt` and `options`, in memory."""
        self.report.ran += 1
        run = PureRun.of(self.adapter, self.recording)
        run.prepare(options)
        return run.adapter.launch(prompt, options)

    async def run(
        self, *, read: str = "all", cancel_after: float | None = None, options: Any = None, **how: Any
    ) -> Run:
        """Play as a process. `read`: all messages, `none`, or `one`. `options` are extra `ExecOptions` fields."""
        self._runs += 1
        self.report.ran += 1
        place = self.folder / f"{self.case}-{self.recording.name}-{self._runs}"
        cli = self.recording.fake_cli(place, self.adapter.capabilities, **how)
        home = place / "home"
        home.mkdir()
        base = context(self.adapter, self.recording).env
        env = {**base, "HOME": str(home), "PATH": os.pathsep.join([str(place), os.defpath])}
        backend = Backend(self.adapter, BackendConfig(executable=cli, env=env))
        wanted = ExecOptions(
            cwd=place, resume_session_id=self.recording.resume, **{"timeout": _GIVE_UP - 5, **(options or {})}
        )
        session = await backend.execute(self.recording.prompt, wanted)
        return await self._finish(session, read, cancel_after)

    async def _finish(self, session: Session, read: str, cancel_after: float | None) -> Run:
        messages: list[Message] = []

        async def listen() -> None:
            async for message in session.messages:
                messages.append(message)
                if read == "one":
                    return

        listener = asyncio.ensure_future(listen()) if read != "none" else None
        if cancel_after is not None:
            await asyncio.sleep(cancel_after)
            await session.cancel()
            await session.cancel()
        try:
            result = await asyncio.wait_for(session.result(), _GIVE_UP)
        except TimeoutError:
            self.expect(False, f"no result within {_GIVE_UP:g} s")
            raise
        left = run_processes(session.run_id)
        if listener is not None:
            done, _ = await asyncio.wait([listener], timeout=2)
            self.expect(bool(done), "messages did not end before the result")
            listener.cancel()
        self.expect(await session.result() is result, "asking for the result again gave another one")
        self.expect(not left, f"{len(left)} processes alive after the result")
        self.expect(result.failure is None or bool(result.error), "a failure without a sentence")
        return Run(messages, result, len(left))


Case: TypeAlias = Callable[[Bench], Awaitable[None]]


async def check(
    adapter: type[Adapter],
    recordings: Sequence[Recording],
    folder: str | Path,
    cases: Sequence[Case] | None = None,
) -> Report:
    """Run `cases` (default: all) of the suite on every recording. `folder` is scratch space."""
    from callboard_adapters.conformance.cases import CASES

    report = Report()
    for recording in recordings:
        for case in CASES if cases is None else cases:
            bench = Bench(case.__name__, adapter, recording, Path(folder), report)
            try:
                await case(bench)
            except Exception as error:  # noqa: BLE001 - whatever an adapter raises is a finding, and the rest still runs
                bench.expect(False, f"raised {type(error).__name__}: {error}")
    return report


def same_end(bench: Bench, got: Result, want: Result, how: str) -> None:
    """The two runs ended alike."""
    for name in ("status", "output", "session_id", "resume_rejected", "failure_reason", "usage"):
        a, b = getattr(got, name), getattr(want, name)
        bench.expect(a == b, f"{how}: {name} is {a!r:.120}, undisturbed it is {b!r:.120}")


def same_outcome(bench: Bench, got: Any, want: Any, how: str) -> None:
    if not (isinstance(got, Outcome) and isinstance(want, Outcome)):
        bench.expect(type(got) is type(want), f"{how}: ended as {type(got).__name__}, whole as {type(want).__name__}")
        return
    bench.expect(got == want, f"{how}: {got!r:.200}, whole {want!r:.200}")
