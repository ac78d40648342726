"""The conversation with one `codex app-server` process.

initialize ─▶ initialized ─▶ thread/resume ──rejected, unreadable, too long──▶ thread/start ─▶ thread/name/set
                                  └──────────────── thread id ─────────────────────┴─▶ turn/start ─▶ the turn
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from callboard_adapters import failures, redact
from callboard_adapters.base import Alive, HandshakeDone, HandshakeStep, Output, Reply, Stop, Timer, TurnEnded
from callboard_adapters.codex_errors import TurnError
from callboard_adapters.codex_requests import Answers
from callboard_adapters.codex_shown import ALIVE, TurnEnd
from callboard_adapters.codex_turn import Turn
from callboard_adapters.codex_usage import RunUsage
from callboard_adapters.dialects.json_rpc import Answer, JsonRpc, Notification, RpcError, ServerRequest, Stray
from callboard_adapters.messages import Message, MessageType

MAX_RESUME_LINE = 32 << 20
"""Bytes. A thread whose answer to `thread/resume` is longer only grows: it is given up once instead of every time."""
NOTICE = (
    "Note: an earlier conversation about this could not be resumed, so you remember nothing of it. Say so at the start "
    "of your answer, and rely on what is in the working folder.\n\n---\n\n"
)
_CLIENT = {"name": "callboard", "title": "Callboard", "version": "0.1.0"}
_SHOWN, _SAID = 4000, 1000  # characters of a message that fits nothing; different warnings remembered
_PROBE = 60.0  # seconds of silence in a turn, no tool running, before the thread is asked whether it is still at work
_GONE = ("no rollout found", "not found", "invalid thread id", "unknown thread", "no such thread")
_SANDBOXES = {"danger-full-access": "dangerFullAccess", "workspace-write": "workspaceWrite", "read-only": "readOnly"}
_WARNINGS = {"warning": "warn", "guardianwarning": "warn", "configwarning": "info", "deprecationnotice": "debug"}


@dataclass(frozen=True, slots=True)
class Wishes:
    """What this run asks of the server. Empty strings are not sent: codex refuses an empty effort or tier."""

    prompt: str
    cwd: str
    sandbox: str
    model: str = ""
    effort: str = ""
    tier: str = ""
    name: str = ""
    resume: str = ""
    resume_expected: bool = False


class Conversation:
    """`rejected`: the thread asked for is gone, positively. `interrupted`: the caller wanted the end. `turn` is None
    until a thread is there."""

    def __init__(self, wishes: Wishes) -> None:
        self.rpc = JsonRpc()
        self.usage = RunUsage()
        self.answers = Answers(allow=wishes.sandbox == "danger-full-access")
        self.turn: Turn | None = None
        self.thread_id = ""
        self.rejected = False
        self.interrupted = False
        self._wishes = wishes
        self._lost = wishes.resume_expected and not wishes.resume
        self._over = False
        self._ready = False
        self._active = False
        self._said: set[str] = set()
        self._on: dict[str, Callable[[Answer], Sequence[Output]]] = {
            "initialize": self._initialized,
            "thread/resume": self._resumed,
            "thread/start": self._thread_started,
            "thread/name/set": self._named,
            "turn/start": self._turn_started,
            "turn/interrupt": lambda answer: (),
            "thread/read": self._thread_read,
        }

    def start(self) -> bytes:
        """The first line for the server."""
        _, line = self.rpc.request("initialize", {"clientInfo": _CLIENT, "capabilities": {"experimentalApi": True}})
        return line

    def waits_for(self, method: str) -> bool:
        return method in self.rpc.pending.values()

    @property
    def is_resumed(self) -> bool:
        """The turn goes on in the thread that was asked for."""
        return bool(self.thread_id) and self.thread_id == self._wishes.resume

    @property
    def step(self) -> str:
        """The startup request that has no answer yet, "" once the turn runs."""
        return "" if self._ready else next(iter(self.rpc.pending.values()), "")

    def receive(self, line: bytes) -> Sequence[Output]:
        """One line of the server. Never raises, whatever it is."""
        if len(line) > MAX_RESUME_LINE and self.waits_for("thread/resume"):
            return self._too_long(len(line))
        incoming = self.rpc.receive(line)
        outputs: Sequence[Output] = ()
        if isinstance(incoming, Notification):
            outputs = self._notified(incoming)
        elif isinstance(incoming, Answer):
            outputs = self._on[incoming.method](incoming)
        elif isinstance(incoming, ServerRequest):
            self._active = True
            reply, message = self.answers.answer(incoming)
            outputs = [Reply(reply), Alive() if message is None else message]
        elif incoming is not None:
            outputs = self._stray(incoming)
        if self.rpc.parser.has_notices:
            outputs = [*self.rpc.notices(), *outputs]
        return self._check_end(outputs)

    def interrupt(self) -> Sequence[Output]:
        """The caller's cancel in codex's words, where there is a turn to address; nothing is granted from now on."""
        self.interrupted = self.answers.closed = True
        if self.turn is None or not self.turn.is_requested or self._over:
            return []
        outputs = [*self.turn.release()]
        if self.turn.id and self.turn.end is None:
            _, line = self.rpc.request("turn/interrupt", {"threadId": self.thread_id, "turnId": self.turn.id})
            outputs.append(Reply(line))
        return self._check_end(outputs)

    def tick(self, timer: str) -> Sequence[Output]:
        if self.turn is None or self._over:
            return []
        if timer == "turn-answer":
            return self._check_end([*self._handshake_done(), *self.turn.release()])
        if timer == "idle":
            return self._check_end(self._idle(self.turn))
        if timer == "probe":
            return self._probe(self.turn)
        return []

    # starting up ---------------------------------------------------------------------

    def _initialized(self, answer: Answer) -> Sequence[Output]:
        if answer.error is not None:
            return self._stop(answer.error, "initialize failed")
        outputs: list[Output] = [HandshakeStep(), Reply(self.rpc.notify("initialized"))]
        return [*outputs, *(self._resume() if self._wishes.resume else self._start_thread())]

    def _resume(self) -> list[Output]:
        # Without `excludeTurns` the answer is the whole conversation on one line.
        params = {"threadId": self._wishes.resume, **self._thread_params(), "excludeTurns": True}
        return [Reply(self.rpc.request("thread/resume", params)[1])]

    def _start_thread(self) -> list[Output]:
        params = {**self._thread_params(), "experimentalRawEvents": False, "persistExtendedHistory": True}
        return [HandshakeStep(), Reply(self.rpc.request("thread/start", params)[1])]

    def _thread_params(self) -> dict[str, Any]:
        wishes = self._wishes
        params: dict[str, Any] = {"cwd": wishes.cwd, "approvalPolicy": "never", "sandbox": wishes.sandbox}
        if wishes.model:
            params["model"] = wishes.model
        if wishes.effort:
            params["config"] = {"model_reasoning_effort": wishes.effort}
        if wishes.tier:
            params["serviceTier"] = wishes.tier
        return params

    def _resumed(self, answer: Answer) -> list[Output]:
        thread_id = _thread_id(answer)
        if thread_id:
            return self._begin_turn(answer, thread_id, fresh=False)
        error = answer.error or RpcError(None, "the answer names no thread")
        text = error.sentence(answer.method)
        self.rejected = any(words in error.message.lower() for words in _GONE)
        return self._start_afresh(f"the earlier conversation could not be resumed, a new one begins: {text}")

    def _too_long(self, size: int) -> list[Output]:
        for request_id in [i for i, method in self.rpc.pending.items() if method == "thread/resume"]:
            self.rpc.forget(request_id)
        self.rejected = True
        text = f"codex answered with {size >> 20} MiB on one line"
        return self._start_afresh(f"the earlier conversation is given up, a new one begins: {text}")

    def _start_afresh(self, text: str) -> list[Output]:
        self._lost = True
        return [Message(MessageType.LOG, redact.diagnostic(text), level="warn"), *self._start_thread()]

    def _thread_started(self, answer: Answer) -> Sequence[Output]:
        thread_id = _thread_id(answer)
        if not thread_id:
            return self._stop(answer.error or RpcError(None, "the answer names no thread"), "thread/start failed")
        outputs: list[Output] = []
        if self._wishes.name:
            params = {"threadId": thread_id, "name": self._wishes.name}
            outputs.append(Reply(self.rpc.request("thread/name/set", params)[1]))
        return [*outputs, *self._begin_turn(answer, thread_id, fresh=True)]

    def _begin_turn(self, answer: Answer, thread_id: str, *, fresh: bool) -> list[Output]:
        self.thread_id = thread_id
        self.usage.model = str(answer.fields.get("model") or self._wishes.model or "unknown")
        self.usage.follow(thread_id, fresh=fresh)
        self.turn = Turn(thread_id, self.usage)
        prompt = self._wishes.prompt
        if self._lost and "could not be resumed" not in prompt:  # whoever knew it before us has said so
            prompt = NOTICE + prompt
        params: dict[str, Any] = {"threadId": thread_id, "input": [{"type": "text", "text": prompt}]}
        if self._wishes.effort:
            params["effort"] = self._wishes.effort
        if self._wishes.tier:
            params["serviceTier"] = self._wishes.tier
        line = self.rpc.request("turn/start", params)[1]
        return [HandshakeStep(), *self._sandbox_notice(answer), Reply(line), *self.turn.requested()]

    def _sandbox_notice(self, answer: Answer) -> list[Output]:
        sandbox = answer.fields.get("sandbox")
        got = sandbox.get("type") if isinstance(sandbox, dict) else None
        if not isinstance(got, str) or got == _SANDBOXES[self._wishes.sandbox]:
            return []
        text = f"codex was asked for the sandbox {self._wishes.sandbox} and runs with {got}: writes may fail silently"
        return [Message(MessageType.LOG, text, level="warn")]

    def _named(self, answer: Answer) -> Sequence[Output]:
        if answer.error is None:
            return ()
        return [Message(MessageType.LOG, redact.diagnostic(answer.error.sentence(answer.method)), level="debug")]

    def _turn_started(self, answer: Answer) -> Sequence[Output]:
        turn = self.turn
        if turn is None:
            return ()
        if answer.error is not None:
            outputs = turn.release()  # a turn that has already ended has ended, whatever its request is answered
            return outputs if turn.end is not None else [*outputs, *self._stop(answer.error, "turn/start failed")]
        named = answer.fields.get("turn")
        turn_id = named.get("id") if isinstance(named, dict) else None
        return [*self._handshake_done(), *turn.answered(turn_id if isinstance(turn_id, str) else "")]

    def _handshake_done(self) -> list[Output]:
        if self._ready:
            return []
        self._ready = True
        return [HandshakeDone(), Timer("probe", _PROBE)]

    def _stop(self, error: RpcError, what: str) -> list[Output]:
        text = redact.diagnostic(error.sentence(what))
        return [Stop(failures.classify(text))]

    # the turn ------------------------------------------------------------------------

    def _notified(self, note: Notification) -> Sequence[Output]:
        if note.key in _WARNINGS:
            text = str(note.params.get("message") or note.params.get("summary") or note.method)
            return self._once(text, _WARNINGS[note.key])
        if note.key == "mcpserver/startupstatus/updated" and note.params.get("status") == "failed":
            text = f"MCP server {note.params.get('name')} did not start: {note.params.get('error')}"
            return [Message(MessageType.LOG, redact.diagnostic(text), level="warn")]
        self._active = True
        return ALIVE if self.turn is None else self.turn.receive(note)

    def _once(self, text: str, level: str) -> Sequence[Output]:
        """A log message, the first time this `text` comes; codex repeats some warnings with every request."""
        if text in self._said:
            return ALIVE
        if len(self._said) < _SAID:
            self._said.add(text)
        return [Message(MessageType.LOG, redact.diagnostic(text), level=level)]

    def _stray(self, stray: Stray) -> Sequence[Output]:
        level = "debug" if stray.why in self._said else "warn"
        self._said.add(stray.why)
        shown = json.dumps(stray.message, ensure_ascii=False, default=str)[:_SHOWN]
        return [Message(MessageType.LOG, redact.diagnostic(f"{stray.why}: {shown}"), level=level)]

    def _check_end(self, outputs: Sequence[Output]) -> Sequence[Output]:
        if self._over or self.turn is None or self.turn.shown.end is None:
            return outputs
        self._over = self.answers.closed = True
        return [*outputs, *self._handshake_done(), Timer("probe", None), Timer("turn-answer", None), TurnEnded()]

    def _probe(self, turn: Turn) -> list[Output]:
        """A turn whose end got lost looks like one that thinks: ask. Compactions have lost their turn's end."""
        quiet, self._active = not self._active, False
        outputs: list[Output] = [Timer("probe", _PROBE)]
        if quiet and not turn.shown.tools and not self.waits_for("thread/read"):
            line = self.rpc.request("thread/read", {"threadId": self.thread_id, "includeTurns": False})[1]
            outputs.append(Reply(line))
        return outputs

    def _thread_read(self, answer: Answer) -> Sequence[Output]:
        thread = answer.fields.get("thread")
        status = thread.get("status") if isinstance(thread, dict) else None
        idle = isinstance(status, dict) and status.get("type") in ("idle", "systemError")
        return self._idle(self.turn) if idle and self.turn is not None and self.turn.end is None else ()

    def _idle(self, turn: Turn) -> list[Output]:
        """The thread rests and the end of its turn did not come: what it said is the answer."""
        shown = turn.shown
        if shown.end is not None:
            return []
        if shown.error is not None:
            return shown.finish(TurnEnd("failed", shown.error))
        if shown.answer.strip():
            return shown.finish(TurnEnd("completed"))
        silent = TurnError("codex stopped working without ending its turn or saying a word")
        return shown.finish(TurnEnd("failed", silent))


def _thread_id(answer: Answer) -> str:
    thread = answer.fields.get("thread")
    found = thread.get("id") if isinstance(thread, dict) else None
    return found if isinstance(found, str) else ""
