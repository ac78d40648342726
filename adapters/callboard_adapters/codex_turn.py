"""One turn of codex: which notifications are its, in which of two protocols, and how it ended.

    notification ─▶ thread filter ─▶ turn gate ─▶ parser (today's items, or the legacy events) ─▶ messages

The gate is shut until `turn/start` has been sent: on resume the server first repeats what earlier turns said, their
ends included. What comes between the request and its answer is held back until the answer names the turn; from then on
only that turn's notifications pass. Memory consolidation and sub-agents talk on the same pipe in their own threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from callboard_adapters.base import Output, SessionId, Timer, Usage
from callboard_adapters.codex_legacy import LegacyEvents
from callboard_adapters.codex_modern import ModernEvents
from callboard_adapters.codex_shown import ALIVE, Shown, TurnEnd
from callboard_adapters.codex_usage import RunUsage
from callboard_adapters.dialects.json_rpc import Notification

ANSWER_WAIT = 10.0
"""Seconds the answer to `turn/start` may be missing before what was held back is taken as it is."""
_TOKENS = "thread/tokenusage/updated"
_HELD = 1000  # notifications; more than that is a turn in full swing whose request was never answered


class Turn:
    """The turn this run is about. `events` is None until the server has shown which protocol it speaks."""

    def __init__(self, thread_id: str, usage: RunUsage) -> None:
        self.thread_id = thread_id
        self.id = ""
        self.usage = usage
        self.shown = Shown()
        self.events: ModernEvents | LegacyEvents | None = None
        self._old: set[str] = set()
        self._requested = False
        self._named = False
        self._answered = False
        self._held: list[Notification] = []

    @property
    def is_requested(self) -> bool:
        return self._requested

    @property
    def end(self) -> TurnEnd | None:
        return self.shown.end

    def requested(self) -> Sequence[Output]:
        """`turn/start` is being sent: what comes now may be ours."""
        self._requested = True
        return [Timer("turn-answer", ANSWER_WAIT)]

    def answered(self, turn_id: str) -> list[Output]:
        """`turn/start` was answered, with the turn's id or (older servers) without."""
        if turn_id:
            self.id = turn_id
        return [Timer("turn-answer", None), *self.release()]

    def release(self) -> list[Output]:
        """Take what was held back: the turn's id is known now, or will not be told."""
        self._answered = True
        held, self._held = self._held, []
        started = (_turn_of(note) for note in held if note.key == "turn/started")
        self.id = self.id or next((turn_id for turn_id in started if turn_id not in self._old), "")
        return [output for note in held for output in self._take(note)]

    def receive(self, note: Notification) -> Sequence[Output]:
        thread_id = _thread_of(note)
        if thread_id and thread_id != self.thread_id:
            return self._other_thread(thread_id, note)
        if not self._requested:
            self._old.add(_turn_of(note))
            return self._count(self.thread_id, note, mine=False) if note.key == _TOKENS else ALIVE
        if not self._answered:
            self._held.append(note)
            return ALIVE if len(self._held) < _HELD else self.release()
        return self._take(note)

    # the gate --------------------------------------------------------------------

    def _take(self, note: Notification) -> Sequence[Output]:
        ours = self._is_ours(note)
        if note.key == _TOKENS:
            return self._count(self.thread_id, note, mine=ours)
        if self.shown.end is not None or not ours:
            return ALIVE
        legacy = note.key.startswith("codex/event")
        if self.events is None:
            return self._announced(self._choose(note, legacy))
        if legacy != isinstance(self.events, LegacyEvents) and not self._outranked(note):
            return ALIVE  # servers up to 0.11x speak both at once: the second telling is dropped
        return self._announced(self.events.receive(note))

    def _outranked(self, note: Notification) -> bool:
        """Whether the older events gave way to today's protocol, which says more. Which of the two a server of both
        begins with is a matter of chance; once something was shown, the other would show it again."""
        if self.shown.progressed or isinstance(self.events, ModernEvents) or not ModernEvents.decides(note):
            return False
        self.events = ModernEvents(self.shown, self.usage)
        return True

    def _announced(self, outputs: Sequence[Output]) -> Sequence[Output]:
        """Name the conversation with its first sign of work: before that a repeated start may still give it up, and
        codex has written nothing that could be resumed."""
        if self._named or not (self.shown.progressed or self.end):
            return outputs
        self._named = True
        return [SessionId(self.thread_id), *outputs]

    def _choose(self, note: Notification, legacy: bool) -> Sequence[Output]:
        """Settle the protocol with the first notification that shows it."""
        if legacy and LegacyEvents.decides(note):
            self.events = LegacyEvents(self.shown, self.usage, self.thread_id)
        elif not legacy and ModernEvents.decides(note):
            self.events = ModernEvents(self.shown, self.usage)
        elif legacy or ModernEvents.is_quiet(note):
            return ALIVE
        else:
            return self.shown.unheard_of(f"notification {note.method}", note.params)
        return self.events.receive(note)

    def _is_ours(self, note: Notification) -> bool:
        turn_id = _turn_of(note)
        if not turn_id or turn_id == self.id:
            return True
        if self.id or turn_id in self._old:
            return False
        # Nobody told the id: the first turn at work that is not an old one is ours. A resumed thread's bill is repeated
        # after the request, under the turn before.
        if note.key == _TOKENS:
            return False
        self.id = turn_id
        return True

    # beside the turn -------------------------------------------------------------

    def _count(self, thread_id: str, note: Notification, *, mine: bool) -> Sequence[Output]:
        working = mine and (self.shown.progressed or self.usage.knows_total(thread_id))
        if not self.usage.step(thread_id, note.params.get("tokenUsage"), mine=working):
            return ALIVE
        return [Usage(self.usage.by_model())]

    def _other_thread(self, thread_id: str, note: Notification) -> Sequence[Output]:
        """An agent that ours spawned costs what this run costs; anything else only shows that codex lives."""
        if note.key == _TOKENS:
            return self._count(thread_id, note, mine=True)
        thread = note.params.get("thread")
        if note.key == "thread/started" and isinstance(thread, dict):
            parent = thread.get("parentThreadId")
            if parent == self.thread_id or (isinstance(parent, str) and self.usage.follows(parent)):
                self.usage.follow(str(thread.get("id")), fresh=True)
        return ALIVE


def _thread_of(note: Notification) -> str:
    params = note.params
    found = params.get("threadId")
    if type(found) is str and found:
        return found
    thread = params.get("thread")
    found = params.get("conversationId") or (isinstance(thread, dict) and thread.get("id"))
    return found if isinstance(found, str) else ""


def _turn_of(note: Notification) -> str:
    params = note.params
    found = params.get("turnId")
    if type(found) is str and found:
        return found
    turn: Any = params.get("turn")
    found = isinstance(turn, dict) and turn.get("id")
    if not found and note.key.startswith("codex/event"):
        found = params.get("id")  # the older events carry their submission's id, which is the turn's
    return found if isinstance(found, str) else ""
