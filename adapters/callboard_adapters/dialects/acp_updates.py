"""`session/update` → messages, and what they leave behind: the answer, the usage, the session's settings.

The kind of an update is in `sessionUpdate`, in `type`, or is the only key around the body, in any casing
(`agent_message_chunk`, `AgentMessageChunk`, `agentMessageChunk`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from callboard_adapters.base import Alive, Output, Usage
from callboard_adapters.dialects.acp_content import content_text, says_nothing
from callboard_adapters.dialects.acp_offer import SessionOffer, mapping, objects, text
from callboard_adapters.dialects.acp_tools import Tools
from callboard_adapters.dialects.acp_usage import UsageBook
from callboard_adapters.dialects.json_rpc import method_key
from callboard_adapters.messages import Message, MessageType, TokenUsage

_UNKNOWN_SHOWN = 4000  # characters of an update nobody knows yet
_TICKS = 10**10  # per US dollar
_ALIVE: tuple[Output, ...] = (Alive(),)
_MOVES = Alive(progress=True)
_SAID_WITH = frozenset({"content", "rawOutput", "raw_output", "output"})
_FRAME = frozenset(
    {
        *("sessionUpdate", "type", "toolCallId", "tool_call_id", "id", "status", "title", "kind", "name"),
        *("rawInput", "raw_input", "input", "parameters", "locations", "_meta"),
    }
)
"""Fields of a tool's frame besides its output."""


class Updates:
    """The updates of one turn. Give it only those of the run's own session and turn."""

    def __init__(self, tools: Tools, session: SessionOffer, model: Callable[[], str]) -> None:
        self.tools = tools
        self.usage = UsageBook()
        self.seen = 0  # updates that said something of the turn
        self.stop_reason = ""  # of a `turn_end` update
        self.bills_session_cost = True  # False on a resumed session: its stated cost covers earlier runs
        self._session = session
        self._model = model
        self._said: list[str] = []  # since the latest tool call
        self._displaced = ""  # the last words before a tool call
        self._plan = ""
        self._unknown: set[str] = set()
        self._kinds: dict[str, str] = {}
        self._handlers: dict[str, Callable[[dict[str, Any]], Sequence[Output]]] = {
            "agentmessagechunk": self._message,
            "agentthoughtchunk": self._thought,
            "toolcall": self._tool_call,
            "toolcallupdate": self._tool_update,
            "usageupdate": self._usage,
            "plan": self._show_plan,
            "planupdate": self._show_plan,
            "turnend": self._turn_end,
            "endturn": self._turn_end,
            "configoptionupdate": self._settings,
            "currentmodeupdate": self._mode,
            "notice": self._notice,
            "compactionupdate": self._compaction,
            "compactionsummarychunk": lambda _: _ALIVE,
            "planremoved": lambda _: _ALIVE,
            "usermessagechunk": lambda _: _ALIVE,  # our own prompt, said back
            "availablecommandsupdate": lambda _: _ALIVE,
            "sessioninfoupdate": lambda _: _ALIVE,
        }

    def receive(self, params: dict[str, Any]) -> Sequence[Output]:
        """The messages for one notification. Raises only the TypeError family on shapes nobody has seen."""
        kind, update = self._open(params)
        handler = self._handlers.get(kind)
        if handler is None:
            return self.unheard_of(f"update {kind!r}", update or params)
        return handler(update)

    @property
    def answer(self) -> str:
        """What was said after the latest tool call; if that is blank, what was said last before one."""
        said = "".join(self._said)
        return said if said.strip() else self._displaced

    def restart(self) -> None:
        """The model's answer broke off and is asked for again: what it had said so far is no part of the answer."""
        self._said.clear()

    def next_turn(self) -> None:
        """What is said from now on is the answer; if nothing is, what was said last."""
        said = "".join(self._said)
        self._displaced = said if said.strip() else self._displaced
        self._said.clear()

    @property
    def did_something(self) -> bool:
        return self.seen > 0

    def by_model(self) -> dict[str, TokenUsage]:
        """The usage so far under the run's model; {} when nothing was stated."""
        total = self.usage.total
        return {self._model(): total} if total.tokens or total.cost_usd_ticks else {}

    def unheard_of(self, what: str, event: Any) -> list[Output]:
        """Something a newer agent says: it goes out as a log, the first of its kind as a warning."""
        first = what not in self._unknown and len(self._unknown) < 100
        if first:
            self._unknown.add(what)
        shown = json.dumps(event, ensure_ascii=True, default=str)[:_UNKNOWN_SHOWN]
        return [Message(MessageType.LOG, f"unknown {what}: {shown}", level="warn" if first else "debug")]

    # kinds -----------------------------------------------------------------------

    def _open(self, params: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        update = mapping(params.get("update"))
        kind = update.get("sessionUpdate") or update.get("type")
        if type(kind) is str:
            return self._key(kind), update
        if len(update) == 1:
            kind, body = next(iter(update.items()))
            if isinstance(body, dict):
                return self._key(kind), body
        return "", update

    def _key(self, kind: str) -> str:
        key = self._kinds.get(kind)
        if key is None:
            key = method_key(kind)
            if len(self._kinds) < 100:  # an agent that invents kinds must not fill the memory
                self._kinds[kind] = key
        return key

    def _message(self, update: dict[str, Any]) -> Sequence[Output]:
        said = content_text(update.get("content"))
        if not said:
            return self._empty(update)
        self.seen += 1
        self._said.append(said)
        return [Message(MessageType.TEXT, said)]

    def _thought(self, update: dict[str, Any]) -> Sequence[Output]:
        said = content_text(update.get("content"))
        if not said:
            return self._empty(update)
        self.seen += 1
        return [Message(MessageType.THINKING, said)]

    def _empty(self, update: dict[str, Any]) -> Sequence[Output]:
        """A chunk without a word: empty, or in a shape nobody has seen."""
        known = "content" in update and says_nothing(update["content"])
        return _ALIVE if known else self.unheard_of("shape of a chunk", update)

    def _tool_call(self, update: dict[str, Any]) -> Sequence[Output]:
        self.seen += 1
        self.next_turn()
        return self.tools.frame(update)

    def _tool_update(self, update: dict[str, Any]) -> Sequence[Output]:
        if not self.tools.knows(update):
            return self._tool_call(update)  # its beginning was not told
        self.seen += 1
        outputs = self.tools.frame(update)
        ended = any(type(o) is Message and o.type is MessageType.TOOL_RESULT for o in outputs)
        if ended and not _SAID_WITH.intersection(update) and not _FRAME.issuperset(update):
            outputs += self.unheard_of("shape of a tool's end", update)
        return outputs

    def _usage(self, update: dict[str, Any]) -> Sequence[Output]:
        # `used` and `size` are the context window's, not the bill's.
        news = self.usage.add(update.get("usage"))
        cost = mapping(update.get("cost"))
        amount = cost.get("amount")
        in_dollars = self.bills_session_cost and text(cost.get("currency")).upper() == "USD"
        if in_dollars and isinstance(amount, int | float) and 0 < amount < 1e6:
            self.usage.add_cost(round(amount * _TICKS))
            news = True
        return [Usage(self.by_model())] if news else _ALIVE

    def _turn_end(self, update: dict[str, Any]) -> Sequence[Output]:
        self.stop_reason = text(update.get("stopReason", update.get("stop_reason")))
        return [Usage(self.by_model())] if self.usage.add(update.get("usage")) else _ALIVE

    def _show_plan(self, update: dict[str, Any]) -> Sequence[Output]:
        entries = objects(update.get("entries") or mapping(update.get("plan")).get("entries"))
        shown = "\n".join(f"[{text(e.get('status')) or '?'}] {text(e.get('content'))}" for e in entries)
        if not shown or shown == self._plan:
            return _ALIVE
        self._plan = shown
        return [_MOVES, Message(MessageType.LOG, f"plan:\n{shown}", level="info")]

    def _notice(self, update: dict[str, Any]) -> Sequence[Output]:
        said = ": ".join(filter(None, (text(update.get("title")), text(update.get("description")))))
        level = {"warning": "warn", "error": "error"}.get(text(update.get("severity")), "info")
        return [Message(MessageType.LOG, said, level=level)] if said else self.unheard_of("shape of a notice", update)

    def _compaction(self, update: dict[str, Any]) -> Sequence[Output]:
        done = text(update.get("status"))
        said = f"the conversation is being compacted: {done} {text(update.get('error'))}".rstrip()
        return [Message(MessageType.STATUS, said, status="compacted" if done == "completed" else "compacting")]

    def _settings(self, update: dict[str, Any]) -> Sequence[Output]:
        self._session.update(update)
        return _ALIVE

    def _mode(self, update: dict[str, Any]) -> Sequence[Output]:
        self._session.mode = text(update.get("currentModeId")) or self._session.mode
        return _ALIVE
