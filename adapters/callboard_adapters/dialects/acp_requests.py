"""Answers to what an ACP agent asks of its client. Nobody sits in front of a run, so each answer is a policy.

No file system, no terminal and no forms were advertised: an agent that asks for them anyway is refused at once, so
that it goes on instead of waiting.
"""

from __future__ import annotations

from typing import Any

from callboard_adapters.dialects.acp_offer import mapping, objects, text
from callboard_adapters.dialects.json_rpc import INTERNAL_ERROR, METHOD_NOT_FOUND, JsonRpc, ServerRequest, method_key
from callboard_adapters.messages import Message, MessageType

PERMISSION = frozenset({"session/requestpermission", "sessionrequestpermission"})
_SESSION_GRANTS = frozenset({"allowsession", "approveforsession"})


def answer(request: ServerRequest, *, over: bool) -> tuple[bytes, list[Message]]:
    """(line to send, what to tell the user). `over`: the turn was cancelled or has ended."""
    if request.key not in PERMISSION:
        notice = f"refused {request.method}: this client has no file system, terminal or forms for the agent"
        return JsonRpc.refuse(request, METHOD_NOT_FOUND, "method not found"), [_log(notice, "debug")]
    if over:
        # The protocol's own answer to a question whose turn is over; during a turn it would end the turn.
        return JsonRpc.answer(request, {"outcome": {"outcome": "cancelled"}}), []
    asked = text(mapping(request.params.get("toolCall")).get("title")) or "a tool"
    options = objects(request.params.get("options"))
    chosen = choose(options)
    if chosen is None:
        refused = JsonRpc.refuse(request, INTERNAL_ERROR, "no offered option allows or rejects this one call")
        return refused, [_log(f"permission for {asked} not given: no option for this one call was offered", "warn")]
    option_id, granted = chosen
    said = JsonRpc.answer(request, {"outcome": {"outcome": "selected", "optionId": option_id}})
    if granted:
        return said, [_log(f"allowed {asked}", "debug")]
    return said, [_log(f"permission for {asked} denied: only lasting grants were offered", "warn")]


def choose(options: list[dict[str, Any]]) -> tuple[str, bool] | None:
    """(option id, whether it grants): this once, else for this session, else a rejection of this one call.

    Only offered options, and never one that lasts beyond the session or rejects for good. Option ids are the agent's
    own words (`approve_once`, `ok1`): the kind decides.
    """
    kinds: dict[str, str] = {}
    for option in options:
        option_id = text(option.get("optionId"))
        kind = method_key(text(option.get("kind")))
        if option_id and kind == "allowalways" and method_key(option_id) in _SESSION_GRANTS:
            kind = "allowsession"
        if option_id:
            kinds.setdefault(kind, option_id)
    for kind in ("allowonce", "allowsession", "rejectonce"):
        if kind in kinds:
            return kinds[kind], kind != "rejectonce"
    return None


def _log(said: str, level: str) -> Message:
    return Message(MessageType.LOG, said, level=level)
