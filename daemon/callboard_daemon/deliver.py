"""Everything a run has to tell the server, in the one order that is right, until the server has it.

    messages (by seq) ─▶ session id as soon as it is known ─▶ … ─▶ usage ─▶ complete | fail | cancel-ack

The same code serves a living run and one left over by a killed daemon. Every write carries the claim and its fence;
an answer that the claim is not ours any more ends the delivery, and nothing else is said about the task.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Final

from callboard_daemon.control import Control
from callboard_daemon.errors import Conflict, ControlError, NotFound, Refused, ServerTrouble, StaleClaim
from callboard_daemon.retry import Patience, retrying, worth_another_try
from callboard_daemon.runs import Ending, RunFolder
from callboard_daemon.spool import Spool
from callboard_wire.bodies import (
    CancelAckRequest,
    FailRequest,
    MessagesRequest,
    SessionRequest,
    TaskMessage,
    TaskState,
    UsageRequest,
)
from callboard_wire.failures import FailureReason
from callboard_wire.states import TaskStatus

log = logging.getLogger(__name__)

GATHER_S: Final = 0.25
"""Messages wait this long for company; with the request itself a batch is up within half a second."""
_LOST: Final = (StaleClaim, NotFound)  # a 404 that is not about the task was waited out in `retrying`
POISON_S: Final = 600.0
"""How long a batch of messages that the server answers with 500 is tried again."""


class Delivered(StrEnum):
    ENDED = "ended"  # the server knows the end
    LOST = "lost"  # somebody else holds the task, or it is gone


class Delivery:
    """One `run` per delivery; `wake` may be called at any time. `on_state` may be set, and gets every answer about
    the task; `heard_at` is when the last one came (monotonic seconds)."""

    def __init__(self, control: Control, folder: RunFolder, spool: Spool) -> None:
        self._control = control
        self._folder = folder
        self._spool = spool
        self.on_state: Callable[[TaskState], None] = lambda _: None
        self._wake = asyncio.Event()
        self._pinned = ""
        self._server_has = 0
        self.heard_at = time.monotonic()

    def wake(self) -> None:
        """There is something to send."""
        self._wake.set()

    async def run(self) -> Delivered:
        """Send until the ending is delivered or the task is lost. Cancelling it loses nothing: all is on disk."""
        record = self._folder.record
        try:
            while self._folder.ending is None:
                await self._wake.wait()
                await asyncio.sleep(GATHER_S if self._folder.ending is None else 0)
                self._wake.clear()
                await self._send_progress()
            await self._send_progress()
            await self._send_ending(self._folder.ending)
        except _LOST as error:
            log.warning("task %s is not ours any more (%s): saying nothing more", record.task_id, error)
            return Delivered.LOST
        except Refused as error:
            log.error("the server refuses the end of task %s: %s", record.task_id, error)
            return Delivered.LOST
        return Delivered.ENDED

    async def _send_progress(self) -> None:
        record = self._folder.record
        fenced = {"claim_id": record.claim_id, "fence": record.fence}
        while batch := self._spool.batch(self._server_has):
            try:
                await self._send_messages(batch)
            except _LOST:
                raise
            except (Refused, ServerTrouble) as error:  # these very messages are the trouble: the rest must not wait
                log.error("the server refuses messages %d to %d: %s", batch[0].seq, batch[-1].seq, error)
                await self._unless_over(lambda batch=batch: self._send_messages([_stand_in(m) for m in batch]))  # type: ignore[misc]
            self._spool.confirm()
        if record.session_id and record.session_id != self._pinned and self._folder.ending is None:
            pin = SessionRequest(**fenced, session_id=record.session_id, work_dir=record.work_dir)
            await self._unless_over(lambda: self._control.session(record.task_id, pin))
            self._pinned = record.session_id

    async def _send_messages(self, batch: list[TaskMessage]) -> TaskState:
        record = self._folder.record
        body = MessagesRequest(claim_id=record.claim_id, fence=record.fence, messages=batch)
        state = await self._say(lambda: self._control.messages(record.task_id, body), Patience(POISON_S))
        self._server_has = state.last_seq  # after a restart it says how much need not be sent again
        return state

    async def _send_ending(self, ending: Ending) -> None:
        """Usage first: a run that was cancelled or failed has cost as well, and a terminal task takes no more."""
        task = self._folder.record.task_id
        fenced = {"claim_id": self._folder.record.claim_id, "fence": self._folder.record.fence}
        if ending.usage:
            usage = UsageRequest(**fenced, usage=ending.usage)
            await self._unless_over(lambda: self._control.usage(task, usage))
        try:
            await self._last_word(ending)
        except _LOST:
            raise
        except Conflict:
            state = await self._say(lambda: self._control.status(task))
            if state.status is TaskStatus.CANCELLED and ending.kind != "cancel_ack":
                await self._say(lambda: self._control.cancel_ack(task, _as_ack(ending)))
            elif not state.status.terminal:
                raise
        except Refused as error:
            if ending.complete is None:
                raise
            refused = FailRequest(
                **ending.complete.model_dump(exclude={"output"}),
                error=f"the server refused the result: {error.message}",
                failure_reason=FailureReason.UNKNOWN,
            )
            await self._say(lambda: self._control.fail(task, refused))

    async def _last_word(self, ending: Ending) -> None:
        task = self._folder.record.task_id
        if (complete := ending.complete) is not None:
            await self._say(lambda: self._control.complete(task, complete))
        elif (fail := ending.fail) is not None:
            await self._say(lambda: self._control.fail(task, fail))
        elif (ack := ending.cancel_ack) is not None:
            await self._say(lambda: self._control.cancel_ack(task, ack))

    async def _unless_over(self, ask: Callable[[], Awaitable[TaskState]]) -> None:
        """For what matters less than the end: a refusal that is not about the claim is noted and passed over."""
        try:
            await self._say(ask)
        except _LOST:
            raise
        except (Refused, ServerTrouble) as error:
            log.warning("the server refuses: %s", error)

    async def _say(
        self, ask: Callable[[], Awaitable[TaskState]], until: Callable[[BaseException], bool] = worth_another_try
    ) -> TaskState:
        """The answer, however long the network takes."""
        state = await retrying(ask, until=until, on_failure=_note)
        self.heard_at = time.monotonic()
        self.on_state(state)
        return state


def _note(error: BaseException) -> None:
    log.info("not delivered yet: %s", error.message if isinstance(error, ControlError) else error)


def _stand_in(message: TaskMessage) -> TaskMessage:
    """Keeps the number of a message the server will not have: it takes no gaps."""
    return TaskMessage(seq=message.seq, type="log", level="warn", content=f"the server refused this {message.type}")


def _as_ack(ending: Ending) -> CancelAckRequest:
    said = ending.complete or ending.fail
    assert said is not None
    keep = {"claim_id", "fence", "branch_name", "durable_work_dir", "work_dir", "session_id"}
    return CancelAckRequest(**said.model_dump(include=keep))
