"""The older protocol of codex app-server (`codex/event` with `params.msg`) → what the turn has shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from callboard_adapters.base import Output, Usage
from callboard_adapters.codex_errors import TurnError
from callboard_adapters.codex_items import Tool, call_id_of, command_text, legacy_changes, patch_input
from callboard_adapters.codex_shown import ALIVE, Shown, TurnEnd
from callboard_adapters.codex_usage import RunUsage, turn_usage
from callboard_adapters.dialects.json_rpc import Notification, method_key


class LegacyEvents:
    """`codex/event` and `codex/event/<type>` with `params.msg`."""

    def __init__(self, shown: Shown, usage: RunUsage, thread_id: str) -> None:
        self._shown = shown
        self._usage = usage
        self._thread_id = thread_id
        self._handlers: dict[str, Callable[[dict[str, Any]], Sequence[Output]]] = {
            "taskstarted": lambda m: ALIVE,
            "turnstarted": lambda m: ALIVE,
            "agentmessage": lambda m: shown.text(str(m.get("message") or ""), m.get("phase")),
            "agentmessagedelta": lambda m: shown.alive(),
            "agentreasoning": lambda m: shown.thinking(str(m.get("text") or "")),
            "execcommandbegin": lambda m: shown.tool_started(call_id_of(m), _exec(m)),
            "execcommandend": lambda m: shown.tool_ended(call_id_of(m), _exec(m)),
            "patchapplybegin": lambda m: shown.tool_started(call_id_of(m), _patch(m)),
            "patchapplyend": lambda m: shown.tool_ended(call_id_of(m), _patch(m)),
            "mcptoolcallbegin": lambda m: shown.tool_started(call_id_of(m), _mcp(m)),
            "mcptoolcallend": lambda m: shown.tool_ended(call_id_of(m), _mcp(m)),
            "websearchend": lambda m: shown.tool_ended(call_id_of(m), _search(m)),
            "tokencount": self._tokens,
            "streamerror": lambda m: shown.failing(_error(m), will_retry=True),
            "error": lambda m: shown.failing(_error(m), will_retry=False),
            "taskcomplete": self._complete,
            "turncomplete": self._complete,
            "turnaborted": lambda m: shown.finish(TurnEnd("interrupted", shown.error)),
        }

    @staticmethod
    def decides(note: Notification) -> bool:
        """Whether this is an event of a turn: servers of today may still announce their session this way."""
        return _kind(note) in _LEGACY_TURN

    def receive(self, note: Notification) -> Sequence[Output]:
        kind = _kind(note)
        message = note.params.get("msg")
        message = message if isinstance(message, dict) else note.params
        handler = self._handlers.get(kind)
        if handler is None:
            quiet = kind.endswith(("delta", "begin")) or kind in _LEGACY_QUIET
            return ALIVE if quiet else self._shown.unheard_of(f"event {kind}", message)
        try:
            return handler(message)
        except (AttributeError, KeyError, TypeError, ValueError):
            return self._shown.unheard_of(f"shape of event {kind}", message)

    def _tokens(self, message: dict[str, Any]) -> Sequence[Output]:
        mine = self._shown.progressed or self._usage.knows_total(self._thread_id)
        if not self._usage.step(self._thread_id, message.get("info"), mine=mine):
            return ALIVE
        return [Usage(self._usage.by_model())]

    def _complete(self, message: dict[str, Any]) -> Sequence[Output]:
        outputs: list[Output] = []
        used = turn_usage(message)
        if used is not None:
            self._usage.stated(used)
            outputs.append(Usage(self._usage.by_model()))
        last = message.get("last_agent_message")
        if isinstance(last, str) and not self._shown.answer:
            outputs += self._shown.text(last)
        error = self._shown.error
        end = TurnEnd("failed", error) if error else TurnEnd("completed")
        return [*outputs, *self._shown.finish(end)]


_LEGACY_TURN = frozenset(
    {
        *("taskstarted", "turnstarted", "agentmessage", "agentmessagedelta", "agentreasoning", "agentreasoningdelta"),
        *("execcommandbegin", "patchapplybegin", "mcptoolcallbegin", "websearchbegin", "taskcomplete", "turnaborted"),
        *("streamerror", "error"),
    }
)
_LEGACY_QUIET = frozenset(
    {
        *("sessionconfigured", "usermessage", "turndiff", "planupdate", "mcpstartupupdate", "mcpstartupcomplete"),
        *("backgroundevent", "agentreasoningsectionbreak", "rawresponseitem", "itemstarted", "itemcompleted"),
        *(
            "listcustompromptsresponse",
            "deprecationnotice",
            "warning",
            "execapprovalrequest",
            "applypatchapprovalrequest",
        ),
    }
)


def _kind(note: Notification) -> str:
    message = note.params.get("msg")
    kind = message.get("type") if isinstance(message, dict) else None
    return method_key(str(kind or note.method.rpartition("/")[2]))


def _error(message: dict[str, Any]) -> TurnError:
    found = {"message": message.get("message"), "codexErrorInfo": message.get("codex_error_info")}
    return TurnError.read(found) or TurnError("codex reported an error without a text")


def _exec(message: dict[str, Any]) -> Tool:
    code = message.get("exit_code")
    output = next(
        (message[key] for key in ("output", "aggregated_output", "formatted_output", "stdout") if message.get(key)), ""
    )
    failed = type(code) is int and code != 0
    text = str(output) if output or not failed else str(message.get("stderr") or f"exit code {code}")
    return Tool("exec_command", {"command": command_text(message.get("command"))}, text, failed)


def _patch(message: dict[str, Any]) -> Tool:
    changes = legacy_changes(message.get("changes"))
    failed = message.get("success") is False or str(message.get("status") or "") in ("failed", "declined")
    word = "failed" if failed else "completed"
    said = str(message.get("stderr") or "") if failed else str(message.get("stdout") or "")
    return Tool("patch_apply", patch_input(changes), said.strip() or word, failed)


def _mcp(message: dict[str, Any]) -> Tool:
    call = message.get("invocation")
    call = call if isinstance(call, dict) else {}
    result = message.get("result")
    failed = isinstance(result, dict) and "Err" in result
    inner = (result.get("Err") if failed else result.get("Ok", result)) if isinstance(result, dict) else result
    text = inner if isinstance(inner, str) else json.dumps(inner, ensure_ascii=False, default=str)
    given = {"server": str(call.get("server") or ""), "arguments": call.get("arguments")}
    return Tool(str(call.get("tool") or "mcp_tool"), given, "" if inner is None else text, failed)


def _search(message: dict[str, Any]) -> Tool:
    return Tool("web_search", {"query": str(message.get("query") or "")}, "completed")
