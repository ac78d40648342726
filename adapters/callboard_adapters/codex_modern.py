"""Today's protocol of codex app-server (`turn/…`, `item/…`, `error`; 0.10x to 0.17x) → what the turn has shown.

Knows neither threads nor other turns: `codex_turn` passes only what belongs here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from callboard_adapters.base import Alive, Output, Timer, Usage
from callboard_adapters.codex_errors import TurnError
from callboard_adapters.codex_items import call_id_of, reasoning_text, tool_of
from callboard_adapters.codex_shown import ALIVE, IDLE_WAIT, Shown, TurnEnd
from callboard_adapters.codex_usage import RunUsage, turn_usage
from callboard_adapters.dialects.json_rpc import Notification, method_key
from callboard_adapters.dialects.json_values import flatten
from callboard_adapters.messages import Message, MessageType

_INTERRUPTED = frozenset({"interrupted", "cancelled", "canceled", "aborted"})
_SAID_AT_THE_END = frozenset({"agentmessage", "reasoning", "plan", "exitedreviewmode"})
_BEGINS_WITH = {"commandexecution": "command", "filechange": "changes", "mcptoolcall": "arguments"}
_ENDS_WITH = {"commandexecution": "aggregatedOutput", "filechange": "changes", "mcptoolcall": "result"}
"""The field of a tool's item that tells most: without it the whole item is shown."""
_NOT_WORK = frozenset({"usermessage", "hookprompt", "subagentactivity", "enteredreviewmode"})
_QUIET = (
    *("account/", "app/", "autoapprovalreview/", "command/", "externalagentconfig/", "fs/", "fuzzyfilesearch/"),
    *("hook/", "mcpserver/", "model/", "modelprovider/", "process/", "project/", "rawresponseitem/"),
    *("item/agentmessage/", "item/autoapprovalreview/", "item/commandexecution/", "item/filechange/"),
    *("item/mcptoolcall/", "item/plan/", "item/reasoning/", "item/tool/", "item/websearch/"),
    *("remotecontrol/", "serverrequest/", "skills/", "thread/", "turn/diff/", "turn/moderation", "windows"),
)
"""Notifications of today's protocol that show nothing: progress of something shown elsewhere, settings, bookkeeping."""


class ModernEvents:
    def __init__(self, shown: Shown, usage: RunUsage) -> None:
        self._shown = shown
        self._usage = usage
        self._began = False
        self._handlers: dict[str, Callable[[dict[str, Any]], Sequence[Output]]] = {
            "turn/started": lambda p: ALIVE,
            "turn/completed": self._completed,
            "turn/plan/updated": self._plan,
            "item/started": self._item_started,
            "item/completed": self._item_completed,
            "item/agentmessage/delta": lambda p: shown.partial(str(p.get("itemId") or ""), p.get("delta")),
            "item/reasoning/textdelta": lambda p: shown.alive(),
            "item/reasoning/summarytextdelta": lambda p: shown.alive(),
            "error": self._error,
            "thread/status/changed": self._thread_status,
            "thread/compacted": self._compacted,
            "thread/closed": lambda p: [Timer("idle", IDLE_WAIT)],
            "model/rerouted": self._rerouted,
        }

    @staticmethod
    def decides(note: Notification) -> bool:
        """Whether this notification shows that the server speaks today's protocol."""
        return note.key.startswith(("turn/", "item/")) or note.key == "error"

    @staticmethod
    def is_quiet(note: Notification) -> bool:
        """Known, and nothing to show."""
        return note.key.startswith(_QUIET)

    def receive(self, note: Notification) -> Sequence[Output]:
        handler = self._handlers.get(note.key)
        if handler is None:
            if self.is_quiet(note):
                return ALIVE
            return self._shown.unheard_of(f"notification {note.method}", note.params)
        self._began = self._began or note.key.startswith(("turn/", "item/"))
        try:
            return handler(note.params)
        except (AttributeError, KeyError, TypeError, ValueError):
            return self._shown.unheard_of(f"shape of {note.method}", note.params)

    # turns -------------------------------------------------------------------------

    def _completed(self, params: dict[str, Any]) -> Sequence[Output]:
        turn = params["turn"]
        outputs: list[Output] = []
        items = turn.get("items")
        if not self._shown.answer and isinstance(items, list):
            for item in items:  # the summary repeats the last message, in case its own event was lost
                if isinstance(item, dict) and item.get("type") == "agentMessage":
                    outputs += self._shown.text(str(item.get("text") or ""), item.get("phase"))
        used = turn_usage(turn)
        if used is not None:
            self._usage.stated(used)
            outputs.append(Usage(self._usage.by_model()))
        error = TurnError.read(turn.get("error")) or self._shown.error
        status = str(turn.get("status") or "completed")
        if status in _INTERRUPTED:
            return [*outputs, *self._shown.finish(TurnEnd("interrupted", error))]
        if status == "completed" and not TurnError.read(turn.get("error")):
            return [*outputs, *self._shown.finish(TurnEnd("completed"))]
        error = error or TurnError(f"codex ended the turn with status {status!r} and gave no reason")
        return [*outputs, *self._shown.finish(TurnEnd("failed", error))]

    def _thread_status(self, params: dict[str, Any]) -> Sequence[Output]:
        kind = (params.get("status") or {}).get("type")
        if kind == "active":
            return [Alive(), Timer("idle", None)]
        return [Alive(), Timer("idle", IDLE_WAIT)] if self._began else ALIVE

    def _error(self, params: dict[str, Any]) -> Sequence[Output]:
        error = TurnError.read(params.get("error") or params.get("message"))
        error = error or TurnError("codex reported an error without a text")
        return self._shown.failing(error, will_retry=params.get("willRetry") is True)

    def _plan(self, params: dict[str, Any]) -> Sequence[Output]:
        steps = [f"[{s.get('status')}] {s.get('step')}" for s in params.get("plan") or []]
        self._shown.alive()
        return [Message(MessageType.LOG, "plan: " + "; ".join(steps), level="info")] if steps else ALIVE

    def _compacted(self, params: dict[str, Any]) -> Sequence[Output]:
        return [Message(MessageType.STATUS, "the conversation was compacted", status="compacted")]

    def _rerouted(self, params: dict[str, Any]) -> Sequence[Output]:
        model = params.get("toModel")
        text = f"codex goes on with model {model!r} instead of {params.get('fromModel')!r}: {params.get('reason')}"
        if isinstance(model, str) and model:
            self._usage.model = model
        return [Message(MessageType.LOG, text, level="warn")]

    # items -------------------------------------------------------------------------

    def _item_started(self, params: dict[str, Any]) -> Sequence[Output]:
        item = params["item"]
        tool = tool_of(item)
        if tool is not None:
            begun = self._shown.tool_started(call_id_of(item), tool)
            known = self._has(item, _BEGINS_WITH)
            return begun if known else [*begun, *self._shown.unheard_of("shape of a tool", item)]
        kind = method_key(str(item.get("type") or ""))
        if kind in _NOT_WORK:
            return ALIVE
        if kind == "contextcompaction":
            return [Message(MessageType.STATUS, "codex compacts the conversation", status="compacting")]
        return self._shown.alive() if kind in _SAID_AT_THE_END else self._shown.unheard_of(f"item {kind!r}", item)

    @staticmethod
    def _has(item: dict[str, Any], fields: dict[str, str]) -> bool:
        name = fields.get(method_key(str(item.get("type"))))
        return name is None or name in item

    def _item_completed(self, params: dict[str, Any]) -> Sequence[Output]:
        item = params["item"]
        tool = tool_of(item)
        if tool is not None:
            ended = self._shown.tool_ended(call_id_of(item), tool)
            return ended if self._has(item, _ENDS_WITH) else [*ended, *self._shown.unheard_of("shape of a tool", item)]
        kind = method_key(str(item.get("type") or ""))
        if kind == "agentmessage":
            text = item["text"]
            return self._shown.text(text if type(text) is str else flatten(text), item.get("phase"), call_id_of(item))
        if kind == "reasoning":
            thought = reasoning_text(item)
            known = thought or (type(item.get("summary")) is list and type(item.get("content")) in (list, type(None)))
            return self._shown.thinking(thought) if known else self._shown.unheard_of("shape of a thought", item)
        if kind == "plan":
            return self._shown.thinking(str(item.get("text") or ""))
        if kind == "exitedreviewmode":
            return self._shown.text(str(item.get("review") or ""))
        if kind == "contextcompaction":
            return self._compacted(params)
        return ALIVE if kind in _NOT_WORK else self._shown.unheard_of(f"item {item.get('type')}", item)
