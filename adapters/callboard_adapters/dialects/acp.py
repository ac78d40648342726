"""The client side of one ACP connection, from `initialize` to the answer of `session/prompt`.

    initialize → [authenticate] → session/new | session/load | session/resume → [model] → [mode] → [effort] → prompt

Each step is sent when the one before it was answered, and nothing is asked that the agent did not offer. Everything
said before the prompt is history: `session/load` replays it, and so does hermes on `session/resume`.
The protocol is the Agent Client Protocol, version 1; what vendors do differently are the hooks of `acp_vendor`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from callboard_adapters.base import (
    Alive,
    HandshakeDone,
    HandshakeStep,
    Output,
    Relaunch,
    Reply,
    SessionId,
    Timer,
    TurnEnded,
    Usage,
)
from callboard_adapters.dialects import acp_errors, acp_mcp, acp_requests
from callboard_adapters.dialects.acp_offer import Offer, mapping, text
from callboard_adapters.dialects.acp_settings import SET_MODE, SET_MODEL, SET_OPTION
from callboard_adapters.dialects.acp_tools import TIMER as TOOL_TIMER
from callboard_adapters.dialects.acp_vendor import LOAD, RESUME, AcpVendor, Ask
from callboard_adapters.dialects.json_rpc import (
    Answer,
    Incoming,
    Notification,
    RpcError,
    ServerRequest,
    Stray,
    method_key,
)
from callboard_adapters.messages import FailureDetail, Message, MessageType, Watchdog
from callboard_wire.failures import FailureReason

PROTOCOL_VERSION = 1
NEW, PROMPT = "session/new", "session/prompt"
QUIET, SETTLED = 0.25, 2.0
"""Seconds. Last chunks were seen to come after the prompt's answer: they count until it has been quiet that long, and
at most until the second."""
_QUIET_TIMER, _SETTLED_TIMER = "quiet", "settled"
_GRACE_AFTER_FAILURE = 1.0  # seconds to leave in when nothing was begun
_ENDS = {
    **dict.fromkeys(("", "endturn", "cancelled", "canceled", "maxturnrequests"), ""),
    "maxtokens": "the answer was cut off at the model's token limit",
    "refusal": "the model refused to go on",
}
"""The protocol's stop reasons, and what people should know of each."""
_UPDATES = frozenset({"session/update", "session/notification", "sessionupdate", "sessionnotification"})
_ALIVE: tuple[Output, ...] = (Alive(),)
_UNUSUAL = (AttributeError, KeyError, TypeError, ValueError, RecursionError)


class AcpClient(AcpVendor):
    """One process's conversation."""

    def __init__(self, ask: Ask) -> None:
        super().__init__(ask)
        self._pinned = False
        self._closed = False
        self._foreign: set[str] = set()
        self._opened: dict[str, Any] = {}  # the answer to load or resume
        self._heard = False  # something came under the session's id
        self._alias = ""  # another id under which the session turned out to speak
        self._answers: dict[str, Callable[[Answer], Sequence[Output]]] = {
            "initialize": self._on_initialize,
            "authenticate": self._on_authenticate,
            LOAD: self._on_opened,
            RESUME: self._on_opened,
            NEW: self._on_new,
            SET_MODEL: self._on_setting,
            SET_MODE: self._on_setting,
            SET_OPTION: self._on_setting,
            PROMPT: self._on_prompt,
        }

    # the driver's side -------------------------------------------------------------

    def start(self) -> bytes:
        """The first line to send. The capabilities are honest: no file system and no terminal for the agent."""
        capabilities = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        info = {"name": "callboard", "title": "Callboard", "version": _own_version()}
        params = {"protocolVersion": PROTOCOL_VERSION, "clientInfo": info, "clientCapabilities": capabilities}
        return self.rpc.request("initialize", params)[1]

    def receive(self, line: bytes) -> Sequence[Output]:
        """One line. Never raises: a message of an unexpected shape is shown as a log message."""
        incoming = self.rpc.receive(line)
        if incoming is None:
            return self.rpc.notices()
        try:
            outputs = self._dispatch(incoming)
        except _UNUSUAL:
            outputs = self._unusual(incoming)
        return [*self.rpc.notices(), *outputs] if self.rpc.parser.has_notices else outputs

    def tick(self, timer: str) -> Sequence[Output]:
        if timer == TOOL_TIMER:
            return self.updates.tools.flush()
        if timer in (_QUIET_TIMER, _SETTLED_TIMER):
            self._closed = True
        return ()

    def ran_out(self, dog: Watchdog) -> Sequence[Output]:
        """A session that never opens (its lock is held, its file is huge) is left for a new one, once."""
        if dog is not Watchdog.HANDSHAKE or self.waiting_for not in (LOAD, RESUME):
            return ()
        self.fresh = f"{self.waiting_for} was not answered"
        return [_log(f"{self.fresh}: starting again with a new session"), Relaunch(self.fresh)]

    def cancel(self) -> Sequence[Output]:
        """The protocol's cancel once there is a turn; before that nothing, and the process is ended."""
        if not self.prompted or self.over:
            return ()
        self.cancelled = True
        return [Reply(self.rpc.notify("session/cancel", {"sessionId": self.session_id}))]

    @property
    def waiting_for(self) -> str:
        """The method that has not been answered, "" when nothing is outstanding."""
        return next(iter(self.rpc.pending.values()), "")

    # what comes in -------------------------------------------------------------------

    def _dispatch(self, incoming: Incoming) -> Sequence[Output]:
        if isinstance(incoming, Notification):
            return self._notified(incoming)
        if isinstance(incoming, Answer):
            return _ALIVE if self.over else self._on_answer(incoming)
        if isinstance(incoming, ServerRequest):
            return self._asked(incoming)
        return self._stray(incoming)

    def _unusual(self, incoming: Incoming) -> Sequence[Output]:
        """A message of a shape nobody has seen. An answer is waited for by the next step, so the run ends with it."""
        what = f"the answer to {incoming.method}" if isinstance(incoming, Answer) else "a message"
        said = f"{what} has a shape that this client does not know"
        if isinstance(incoming, Answer):
            return self.give_up(FailureDetail(FailureReason.PROCESS, said))
        return [_log(said)]

    def _on_answer(self, answer: Answer) -> Sequence[Output]:
        outputs = self._answers[answer.method](answer)
        return outputs if answer.method == PROMPT else [HandshakeStep(), *outputs]

    def _notified(self, said: Notification) -> Sequence[Output]:
        if said.key not in _UPDATES:
            outputs = self.on_extension(said.key, said.params)
            return self.updates.unheard_of(f"notification {said.method!r}", said.params) if outputs is None else outputs
        session_id = text(said.params.get("sessionId"))
        ours = session_id in ("", self.session_id, self._alias)
        self._heard = self._heard or session_id == self.session_id
        if not self.prompted or self._closed or mapping(said.params.get("_meta")).get("isReplay") is True:
            return _ALIVE
        if not ours and not self._goes_on_as(session_id):
            return self._other_session(session_id)
        outputs = self.updates.receive(said.params)
        if self.answered:
            return [*outputs, Timer(_QUIET_TIMER, QUIET)]
        return outputs if self._pinned else [*self._pin(), *outputs]

    def _goes_on_as(self, session_id: str) -> bool:
        """Whether a resumed session speaks under this id: its opening named none, and nothing came under the old."""
        if not self.resumed or self._heard or self._alias or text(self._opened.get("sessionId")):
            return False
        self._alias = session_id
        return True

    def _other_session(self, session_id: str) -> Sequence[Output]:
        """A sub-agent's own conversation: mixing it in would make its words our answer."""
        if session_id in self._foreign or len(self._foreign) >= 100:
            return _ALIVE
        self._foreign.add(session_id)
        return [_log(f"updates of another session, {session_id}, are not shown", "debug")]

    def _asked(self, request: ServerRequest) -> Sequence[Output]:
        line, notices = acp_requests.answer(request, over=self.cancelled or self.over)
        shown: list[Output] = []
        if request.key in acp_requests.PERMISSION and self.prompted and not self.over:
            shown = self.updates.tools.asked(mapping(request.params.get("toolCall")))
        return [*shown, Reply(line), *notices, Alive()]

    def _stray(self, stray: Stray) -> Sequence[Output]:
        return self.updates.unheard_of(stray.why, stray.message)

    def _pin(self) -> list[Output]:
        """Tell the session's id once the prompt was taken: before that the agent may never have saved it, and the
        next run would try to resume what is not there."""
        if self._pinned or not self.session_id:
            return []
        self._pinned = True
        return [SessionId(self.session_id)]

    # the steps -----------------------------------------------------------------------

    def _on_initialize(self, answer: Answer) -> Sequence[Output]:
        if answer.error is not None:
            return self._fail(answer.error, answer.method)
        self.offer = Offer.read(answer.fields)
        if self.offer.protocol is not None and self.offer.protocol != PROTOCOL_VERSION:
            why = f"{self.offer.agent or 'the agent'} speaks ACP version {self.offer.protocol}, this client version 1"
            return self.give_up(FailureDetail(FailureReason.VERSION, why))
        method = self.auth_method()
        if isinstance(method, FailureDetail):
            return self.give_up(method)
        if method:
            return [self._ask("authenticate", {"methodId": method, "_meta": {"headless": True}})]
        return self._open()

    def _on_authenticate(self, answer: Answer) -> Sequence[Output]:
        return self._fail(answer.error, answer.method) if answer.error is not None else self._open()

    def _open(self) -> Sequence[Output]:
        remote = self.takes_remote_mcp()
        servers, notices = acp_mcp.spoken(
            list(self.ask.servers), http=self.offer.http or remote, sse=self.offer.sse or remote
        )
        params: dict[str, Any] = {"cwd": self.ask.cwd, "mcpServers": servers}
        if not self.ask.resume or self.fresh:
            return [*notices, self._ask(NEW, params)]
        method = next((m for m in self.opens_with if self.offer.has(m)), None)
        if method is None:
            self.rejected = True
            why = f"{self.offer.agent or 'the agent'} cannot continue a session: it offers neither {LOAD} nor {RESUME}"
            return self.give_up(FailureDetail(FailureReason.UNKNOWN, why))
        return [*notices, self._ask(method, {**params, "sessionId": self.ask.resume})]

    def _on_opened(self, answer: Answer) -> Sequence[Output]:
        if answer.error is not None:
            if acp_errors.busy(answer.error):
                # Held by somebody is not gone; but waiting for a holder that died would take for ever.
                self.fresh = answer.error.sentence(answer.method)
                return [_log(f"{self.fresh}: a new session is used instead"), *self._open()]
            self.rejected = acp_errors.gone(answer.error, self.ask.resume, opening=True)
            return self._fail(answer.error, answer.method)
        self._opened = answer.fields
        self.session.update(answer.fields)
        self.session_id = self.landed(answer.fields)
        if not self.session_id:
            self.rejected = True
            why = f"session not found: {answer.method} opened another session than {self.ask.resume}"
            return self.give_up(FailureDetail(FailureReason.UNKNOWN, why))
        self.resumed = True
        self.updates.bills_session_cost = False
        notices = []
        if self.session_id != self.ask.resume:
            notices.append(_log(f"session {self.ask.resume} goes on as {self.session_id}"))
        return [*notices, *self._pin(), *self._next()]

    def _on_new(self, answer: Answer) -> Sequence[Output]:
        if answer.error is not None:
            return self._fail(answer.error, answer.method)
        self.session.update(answer.fields)
        self.session_id = text(answer.fields.get("sessionId"))
        if not self.session_id:
            return self.give_up(FailureDetail(FailureReason.PROCESS, "session/new was answered without a session id"))
        return self._next()

    def _next(self) -> list[Output]:
        line = self.settings.next(self.session_id)
        return self._prompt() if line is None else [Reply(line)]

    def _on_setting(self, answer: Answer) -> Sequence[Output]:
        if answer.error is not None and self.resumed and acp_errors.gone(answer.error, self.session_id, opening=False):
            self.rejected = True
            return self._fail(answer.error, answer.method)
        failure, warnings = self.settings.answered(answer)
        return self.give_up(failure) if failure is not None else [*map(_log, warnings), *self._next()]

    def _prompt(self) -> list[Output]:
        self.prompted = True
        params = self.prompt_params([{"type": "text", "text": self.prompt_text()}])
        request = self._ask(PROMPT, {"sessionId": self.session_id, **params})
        return [*map(_log, self.settings.effort_notices()), request, HandshakeDone()]

    def _on_prompt(self, answer: Answer) -> Sequence[Output]:
        tools = self.updates.tools.close("the turn ended without this call's result")
        if answer.error is not None:
            if self.forgives(answer.error):
                self.answered = True
                return [*self._pin(), *tools, TurnEnded(self.grace)]
            self.keeps_session = self.resumed and acp_errors.picture_in_history(answer.error)
            lost = self.resumed and acp_errors.gone(answer.error, self.session_id, opening=False)
            self.rejected = lost or self.keeps_session
            return [*([] if lost else self._pin()), *tools, *self._fail(answer.error, answer.method)]
        self.answered = True
        self.result = answer.fields
        self.stop_reason = text(self.result.get("stopReason")) or self.updates.stop_reason
        self.on_result(self.result)
        totals = self.usage()
        usage = [Usage(totals)] if totals else []
        settle = [Timer(_QUIET_TIMER, QUIET), Timer(_SETTLED_TIMER, SETTLED)]
        return [*self._pin(), *tools, *usage, *self._unusual_end(), *settle, TurnEnded(self.grace, quiet=QUIET)]

    def _unusual_end(self) -> list[Message]:
        reason = method_key(self.stop_reason)
        said = _ENDS.get(reason, f"the turn ended for a reason that this client does not know: {self.stop_reason}")
        return [_log(said)] if said else []

    # how it goes wrong ---------------------------------------------------------------

    def _fail(self, error: RpcError, method: str) -> list[Output]:
        return self.give_up(acp_errors.failure(error, method))

    def give_up(self, failure: FailureDetail) -> list[Output]:
        """End the conversation with this failure; waiting for more is useless."""
        self.error = failure
        grace = self.grace if self.prompted else min(self.grace, _GRACE_AFTER_FAILURE)
        said = [] if self.cancelled else [Message(MessageType.ERROR, failure.detail)]
        return [*said, TurnEnded(grace)]

    def _ask(self, method: str, params: dict[str, Any]) -> Reply:
        return Reply(self.rpc.request(method, params)[1])


@cache
def _own_version() -> str:
    try:
        return version("callboard")
    except PackageNotFoundError:  # a source tree on the path, not installed
        return "0"


def _log(said: str, level: str = "warn") -> Message:
    return Message(MessageType.LOG, said, level=level)
