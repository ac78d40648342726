"""A run, as its caller sees it, and the loop that carries it from the first process to the one result."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from callboard_adapters.attempt import Attempt
from callboard_adapters.base import MAX_RELAUNCHES, Adapter, Launch, Outcome, Output, ProcessExit, Relaunch, StopCause
from callboard_adapters.dialects.json_values import flatten
from callboard_adapters.messages import Message, MessageType, Result, RunStatus, StreamCounts, TokenUsage
from callboard_adapters.options import ExecOptions
from callboard_adapters.outcome import Stopped, asks, conclude
from callboard_adapters.process.environment import child_env
from callboard_adapters.process.files import Written, write_files
from callboard_adapters.requests import Requests
from callboard_adapters.run_state import RunState
from callboard_adapters.stream import MessageStream
from callboard_adapters.watchdogs import Limits, Watchdogs

_running: set[asyncio.Task[None]] = set()
"""Runs whose caller dropped the session: the loop itself keeps only weak references to tasks."""


# An endless line may be one answer the adapter can do without (a whole thread, on resume).
_MAY_START_AGAIN = (None, StopCause.RELAUNCH, StopCause.LINE_TOO_LONG)


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything a run needs besides its adapter: settled before the first process starts."""

    prompt: str
    options: ExecOptions
    executable: str
    prefix: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    run_id: str
    written: Written


class Session:
    """One run. `messages` ends before `result()` returns; both may be ignored and the run ends the same."""

    def __init__(self, adapter: Adapter, plan: Plan) -> None:
        self._adapter = adapter
        self._plan = plan
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.time()
        limits = Limits.choose(plan.options, adapter.capabilities.timeouts)
        self._state = RunState(MessageStream(), Watchdogs(limits, self._started))
        self._requests = Requests(adapter, [plan.executable, *plan.prefix], plan.env, plan.cwd)
        self._attempt: Attempt | None = None
        self._cancelled = False
        self._done: asyncio.Future[Result] = self._loop.create_future()

    # the face ------------------------------------------------------------------

    @property
    def messages(self) -> MessageStream:
        """Async iterator of `Message`; one queue, whoever reads it."""
        return self._state.stream

    @property
    def run_id(self) -> str:
        """The mark in every process of this run; see `process.reap_run`."""
        return self._plan.run_id

    @property
    def pid(self) -> int | None:
        """The CLI's process, None before the first start."""
        return self._attempt.pid if self._attempt else None

    @property
    def session_id(self) -> str:
        """The conversation's id as far as it is known, else ""."""
        return self._state.session_id

    @property
    def usage(self) -> Mapping[str, TokenUsage]:
        """What the run has cost so far, where the provider says so on the way."""
        return MappingProxyType(self._state.usage)

    async def result(self) -> Result:
        """Wait for the end. The same object every time; never raises for what the run did."""
        return await asyncio.shield(self._done)

    async def cancel(self) -> None:
        """Ask for the end and return at once: first in the protocol's own words, then down the ladder. Repeatable."""
        self._cancelled = True
        if self._attempt is not None:
            self._attempt.cancel()

    # the run -------------------------------------------------------------------

    async def start(self, notices: list[Output]) -> None:
        """Start the first process; whatever goes wrong here is raised and leaves nothing behind."""
        for notice in notices:
            if isinstance(notice, Message):
                self._state.say(notice, self._loop.time())
        await self._launch()
        task = asyncio.create_task(self._run(), name=f"run-{self._plan.run_id}")
        _running.add(task)
        task.add_done_callback(_running.discard)

    async def prepare(self) -> list[Output]:
        """The adapter's own look around before its first launch."""
        return await self._requests.all(self._adapter.before_launch(self._plan.options))

    async def _launch(self) -> None:
        plan = self._plan
        launch: Launch = self._adapter.launch(plan.prompt, plan.options)
        for notice in launch.notices:
            self._state.say(notice, self._loop.time())
        await _to_the_end(asyncio.to_thread(write_files, launch.files, launch.links, plan.written))
        cwd = launch.cwd or plan.cwd
        env = child_env(plan.env, launch.env, launch.env_remove, cwd, plan.run_id)
        attempt = Attempt(self._adapter, launch, self._state, plan.run_id, self._requests)
        await attempt.start([plan.executable, *plan.prefix, *launch.args], env, cwd)
        self._attempt = attempt
        if self._cancelled:
            attempt.cancel()

    async def _run(self) -> None:
        outcome = Outcome(RunStatus.FAILED, error="the run ended without an outcome")
        exit = ProcessExit(None, None, StopCause.CLOSED, False, "")
        try:
            outcome, exit = await self._attempts()
        except asyncio.CancelledError:
            if self._attempt is not None:
                self._attempt.kill_now()
            outcome = Outcome(RunStatus.CANCELLED, error="the event loop was closed")
            raise
        except Exception as error:  # noqa: BLE001 - a bug here or in an adapter's finish(): the caller still gets its one result
            if self._attempt is not None:
                self._attempt.kill_now()
            name = self._adapter.capabilities.name
            outcome = Outcome(RunStatus.FAILED, error=f"the {name} adapter failed: {type(error).__name__}: {error}")
        finally:
            # Not in a thread: on this path the loop may be closing, and the files may hold secrets.
            self._plan.written.undo()
            self._finish(outcome, exit)

    async def _attempts(self) -> tuple[Outcome, ProcessExit]:
        for round_number in range(MAX_RELAUNCHES + 1):
            attempt = self._attempt
            assert attempt is not None, "_launch() comes first"
            exit = await attempt.run()
            said = attempt.relaunch or await self._ask_outcome(exit)
            if isinstance(said, Outcome):
                return conclude(said, exit, attempt.stopped), exit
            if round_number < MAX_RELAUNCHES and not self._cancelled and exit.cause in _MAY_START_AGAIN:
                self._state.watchdogs.relaunched(self._loop.time())
                try:
                    await self._launch()
                except Exception as error:  # noqa: BLE001 - the second start may fail for any reason the first did not
                    failed = Outcome(RunStatus.FAILED, error=f"could not start again ({said.reason}): {error}")
                    return conclude(failed, exit, None), exit
                continue
            stopped = attempt.stopped if exit.cause is not StopCause.RELAUNCH else None
            if self._cancelled:
                stopped = Stopped(StopCause.CANCEL, "cancelled by the caller")
            return conclude(Outcome(RunStatus.FAILED, error=said.reason), exit, stopped), exit
        raise AssertionError("unreachable: the last round returns")

    async def _ask_outcome(self, exit: ProcessExit) -> Outcome | Relaunch:
        said = await self._requests.all(self._adapter.after_exit(exit))
        if self._attempt is not None:
            self._attempt.do(said)
        return self._adapter.finish(exit)

    def _finish(self, outcome: Outcome, exit: ProcessExit) -> None:
        state, context = self._state, self._adapter.context
        noise, invalid = self._adapter.noise()
        if outcome.status is RunStatus.COMPLETED and asks(flatten(outcome.output)):
            text = "the answer ends with a question: input is wanted"
            state.stream.put(Message(MessageType.STATUS, text, status="input_wanted", session_id=state.session_id))
        state.close()
        state.stream.end()
        usage = state.usage if outcome.usage is None else dict(outcome.usage)
        session_id = outcome.session_id or ("" if outcome.resume_rejected else state.session_id)
        result = Result(
            status=outcome.status,
            output=flatten(outcome.output),
            error=flatten(outcome.error),
            failure=outcome.failure,
            duration_ms=round((self._loop.time() - self._started) * 1000),
            session_id=session_id,
            resume_rejected=outcome.resume_rejected,
            usage=usage,
            exit_code=exit.code,
            exit_signal=exit.signal,
            cli_version=context.version_text,
            counts=StreamCounts(state.lines, state.bytes, noise, invalid, state.stream.folded),
        )
        if not self._done.done():
            self._done.set_result(result)


async def _to_the_end(work: Coroutine[None, None, None]) -> None:
    """Await `work` and let it finish even when we are cancelled: a thread that goes on writing cannot be undone."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
