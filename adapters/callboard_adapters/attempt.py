"""One process of a run: its bytes to the adapter, the adapter's wishes to the process, and its end.

`Attempt` is the listener of a `Child`; everything in it runs on the event loop, in the order the bytes came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from callboard_adapters import outcome, redact
from callboard_adapters.base import (
    Adapter,
    Alive,
    CloseStdin,
    HandshakeDone,
    HandshakeStep,
    Launch,
    Output,
    ProcessExit,
    ReadFiles,
    Relaunch,
    Reply,
    RunCommand,
    SessionId,
    Stop,
    StopCause,
    Timer,
    TurnEnded,
    TurnResumed,
    Usage,
)
from callboard_adapters.clocks import Clocks
from callboard_adapters.last_word import LastWord
from callboard_adapters.messages import Message, MessageType, Watchdog
from callboard_adapters.outcome import Stopped
from callboard_adapters.process.framing import LineFramer, LineTooLong
from callboard_adapters.process.host import Child, Family
from callboard_adapters.requests import Requests
from callboard_adapters.run_state import RunState

STDERR_TAIL = 4096  # bytes
_DRAIN = 2.0  # seconds somebody else may hold the pipes after the leader has ended
_DRAIN_AFTER_TURN = 0.2
_AFTER_STDOUT = 3.0  # seconds a process may live on after closing stdout
_AFTER_CANCEL = 1.0  # seconds to exit in after the protocol has confirmed a cancel
_MAX_STDERR_LINE = 1 << 20


class Attempt:
    def __init__(self, adapter: Adapter, launch: Launch, state: RunState, run_id: str, requests: Requests) -> None:
        self._adapter = adapter
        self._launch = launch
        self._state = state
        self._run_id = run_id
        self._requests = requests
        self._loop = asyncio.get_running_loop()
        self._framer = LineFramer(indented=adapter.indented_output)
        self._stderr_framer = LineFramer(_MAX_STDERR_LINE)
        self._stderr = bytearray()
        self._child: Child | None = None
        self._family: Family | None = None
        self._wake = asyncio.Event()
        self._last_word = LastWord(self._let_go, self._wake.set)
        self._leaving: asyncio.Task[None] | None = None
        self._deaf = False
        self._ready_seen = False
        self._clocks = Clocks(state.watchdogs, self._ran_out, self._tick)
        self.stopped: Stopped | None = None
        self.relaunch: Relaunch | None = None
        self._handlers: dict[type, Callable[..., None]] = {
            SessionId: self._on_session_id,
            Usage: self._on_usage,
            Reply: lambda o: self._write(o.data),
            CloseStdin: lambda o: self._close_stdin(),
            Timer: lambda o: self._clocks.set_timer(o.name, o.seconds),
            HandshakeDone: lambda o: self._ready(),
            HandshakeStep: lambda o: self._state.watchdogs.handshake_step(self._loop.time()),
            Alive: lambda o: self._state.watchdogs.alive(self._loop.time(), o.progress),
            TurnEnded: self._on_turn_ended,
            TurnResumed: self._on_turn_resumed,
            Stop: self._on_stop,
            Relaunch: self._on_relaunch,
            ReadFiles: self._on_request,
            RunCommand: self._on_request,
        }

    # the life of the process -----------------------------------------------------

    async def start(self, argv: Sequence[str], env: dict[str, str], cwd: str) -> None:
        """Raises OSError or ValueError when the system refuses."""
        feeds = bool(self._launch.stdin) or self._launch.keep_stdin
        self._child = await Child.start(argv, env=env, cwd=cwd, stdin=feeds, listener=self)
        self._family = Family(self._run_id, self._child)
        if self._launch.stdin:
            self._child.write(self._launch.stdin)
        if not self._launch.keep_stdin:
            self._child.close_stdin()
        for timer in self._launch.timers:
            self._clocks.set_timer(timer.name, timer.seconds)
        self._clocks.arm()

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    async def run(self) -> ProcessExit:
        """From the started process to the moment nothing of it is left."""
        child, family = self._child, self._family
        assert child is not None, "start() comes first"
        assert family is not None, "made with the child"
        await self._wake.wait()
        if not child.exited.is_set():
            if self.stopped is not None and self.stopped.cause is StopCause.CANCEL:
                await self._cancel_politely(child)
            # Before the first signal: a tool in a session of its own is found by its parents only while they live.
            await family.look_around()
            child.close_stdin()
            await family.end_leader(self._adapter.capabilities.timeouts.term_grace)
        await self._drain(child, family)
        self._disarm()
        return self._exit(child)

    def stop(self, stopped: Stopped) -> None:
        """End the process for this reason; the first reason counts, and none counts after the turn has ended."""
        too_late = self._last_word.in_time or (
            # It has ended by itself, and only its last output is still on the way.
            stopped.cause in (StopCause.CANCEL, StopCause.WATCHDOG)
            and self._child is not None
            and self._child.exited.is_set()
        )
        if self.stopped is None and not too_late:
            self.stopped = stopped
        self._wake.set()

    def cancel(self) -> None:
        self.stop(Stopped(StopCause.CANCEL, "cancelled by the caller"))

    def kill_now(self) -> None:
        """Without waiting for anything: the event loop is going away."""
        self._deaf = True
        self._disarm()
        if self._family is not None:
            self._family.kill_now()

    async def _cancel_politely(self, child: Child) -> None:
        asked = self._ask(self._adapter.cancel)
        if not any(isinstance(o, Reply) for o in asked):
            return
        grace = self._adapter.capabilities.timeouts.cancel_grace
        await _first(grace, child.exited, self._last_word.over)
        if self._last_word.over.is_set():
            child.close_stdin()
            await _first(_AFTER_CANCEL, child.exited)

    async def _leave(self) -> None:
        """The turn has ended: remember the processes, then let the CLI go."""
        if self._family is not None:
            await self._family.look_around()
        self._close_stdin()

    async def _drain(self, child: Child, family: Family) -> None:
        """After the leader: the rest of its output, then everything it left behind, then the last line."""
        if self._leaving is not None:
            await self._leaving
        closed = await child.pipes_closed(
            _DRAIN_AFTER_TURN if self._last_word.over.is_set() or self.stopped else _DRAIN
        )
        await family.end_rest()
        if not closed:
            await child.pipes_closed(_DRAIN)  # whoever held them has just been ended
        last = self._framer.close()
        if last:
            self._line(last)
        rest = self._stderr_framer.close()
        if rest:
            self._ask(self._adapter.receive_stderr, rest)
        await self._requests.settled()
        self._deaf = True
        child.close()

    def _exit(self, child: Child) -> ProcessExit:
        code = child.returncode
        self._state.lines += self._framer.lines
        self._state.bytes += self._framer.bytes
        return ProcessExit(
            code=code if code is None or code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            cause=self.stopped.cause if self.stopped else None,
            turn_ended=self._last_word.in_time,
            stderr_tail=redact.diagnostic(self._stderr.decode("utf-8", "ignore")).strip(),
            stdin_broken=child.stdin_broken,
        )

    # the child's side ------------------------------------------------------------

    def stdout_data(self, data: bytes) -> None:
        if self._deaf:
            return
        self._last_word.heard()
        try:
            lines = self._framer.feed(data)
        except LineTooLong as error:
            self._deaf = True
            self.stop(Stopped(StopCause.LINE_TOO_LONG, str(error)))
            return
        for line in lines:
            self._line(line)

    def stdout_ended(self) -> None:
        child = self._child
        if child is None or child.exited.is_set() or self._deaf:
            return
        child.close_stdin()
        ended = Stopped(
            StopCause.STDOUT_CLOSED, f"the CLI closed its output and did not exit within {_AFTER_STDOUT:g} s"
        )
        self._last_word.expire(_AFTER_STDOUT, lambda: self.stop(ended))

    def stderr_data(self, data: bytes) -> None:
        self._stderr = (self._stderr + data)[-STDERR_TAIL:]
        if self._deaf:
            return
        try:
            lines = self._stderr_framer.feed(data)
        except LineTooLong:
            self._stderr_framer = LineFramer(_MAX_STDERR_LINE)  # the tail keeps its end, the adapter does without
            return
        for line in lines:
            self._ask(self._adapter.receive_stderr, line)

    def exited(self) -> None:
        self._wake.set()

    # the adapter's side ----------------------------------------------------------

    def do(self, outputs: Iterable[Output]) -> None:
        """Carry out what the adapter said, in order."""
        now = self._loop.time()
        for output in outputs:
            if type(output) is Message:
                if self._state.say(output, now):
                    self._clocks.arm()
            else:
                self._handlers[type(output)](output)

    def _line(self, line: bytes) -> None:
        if self._deaf:  # the line before it ended the run
            return
        self._ask(self._adapter.receive, line)
        if not (self._ready_seen or self._adapter.capabilities.explicit_handshake):
            self._ready()

    def _ask(self, call: Callable[..., Sequence[Output]], *args: object) -> Sequence[Output]:
        try:
            outputs = call(*args)
            if outputs:
                self.do(outputs)
            return outputs
        except Exception as error:  # noqa: BLE001 - an adapter's bug ends its run with a reason, not the host's loop
            self._deaf = True
            name = self._adapter.capabilities.name
            text = f"the {name} adapter failed in {call.__name__}: {type(error).__name__}: {error}"
            self.stop(Stopped(StopCause.BROKEN_ADAPTER, text))
            return ()

    def _ready(self) -> None:
        self._ready_seen = True
        if not self._state.watchdogs.is_ready:
            self._state.watchdogs.ready(self._loop.time())
            self._clocks.arm()

    def _on_session_id(self, output: SessionId) -> None:
        if isinstance(output.value, str) and output.value not in ("", self._state.session_id):
            self._state.session_id = output.value
            self.do([Message(MessageType.STATUS, status="running", session_id=output.value)])

    def _on_usage(self, output: Usage) -> None:
        self._state.usage = dict(output.by_model)

    def _tick(self, name: str) -> None:
        if not self._deaf:
            self._ask(self._adapter.tick, name)

    def _ran_out(self, dog: Watchdog) -> None:
        if self.stopped is None and not self._last_word.in_time:
            self._ask(self._adapter.ran_out, dog)
            limit = self._state.watchdogs.limit_of(dog)
            self.stop(outcome.watchdog_stop(dog, limit, self._adapter.capabilities.name))

    def _on_turn_ended(self, output: TurnEnded) -> None:
        self._last_word.ended(output, in_time=self.stopped is None)

    def _on_turn_resumed(self, output: TurnResumed) -> None:
        if self.stopped is None:
            self._last_word.resumed()

    def _let_go(self) -> None:
        if self._leaving is None:
            self._leaving = self._loop.create_task(self._leave())

    def _disarm(self) -> None:
        self._clocks.stop()
        self._last_word.stop()

    def _on_stop(self, output: Stop) -> None:
        self._deaf = True  # what still arrives depends on the moment, and the run has been judged
        self.stop(Stopped(StopCause.ADAPTER, output.failure.detail, output.failure))

    def _on_relaunch(self, output: Relaunch) -> None:
        self.relaunch = output
        self._deaf = True
        self.stop(Stopped(StopCause.RELAUNCH, output.reason))

    def _on_request(self, request: ReadFiles | RunCommand) -> None:
        self._requests.start(request, self._ask)

    def _write(self, data: bytes) -> None:
        if self._child is not None:
            self._child.write(data)

    def _close_stdin(self) -> None:
        if self._child is not None:
            self._child.close_stdin()


async def _first(timeout: float, *events: asyncio.Event) -> None:
    """Until one of `events` is set, at most `timeout` seconds."""
    waits = [asyncio.ensure_future(e.wait()) for e in events]
    try:
        await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
