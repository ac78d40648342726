"""What codex asks its client in the middle of a turn, answered at once: nobody sits there to be asked.

The policy follows the sandbox: without one (`danger-full-access`) everything the agent wants to do is allowed, for this
once and never for good; inside a sandbox a request to get out of it is declined. After a cancel nothing is allowed.
A question without an answer would hold the turn for ever, so unknown requests are refused and the turn goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from callboard_adapters.dialects.json_rpc import INVALID_PARAMS, METHOD_NOT_FOUND, JsonRpc, ServerRequest
from callboard_adapters.messages import Message, MessageType

NOBODY = "Nobody is there to answer. Decide yourself, and say in your answer what you assumed."
_SHOWN = 300  # characters of a question in its message


class Answers:
    """`allow`: what the agent asks for is granted. `refused` are the methods that had to be refused."""

    def __init__(self, *, allow: bool) -> None:
        self.allow = allow
        self.closed = False  # the turn was cancelled or is over: nothing is granted any more
        self.refused: list[str] = []
        self._known: dict[str, Callable[[ServerRequest], tuple[Any, str]]] = {
            "item/commandexecution/requestapproval": self._approval,
            "item/filechange/requestapproval": self._approval,
            "execcommandapproval": self._legacy_approval,
            "applypatchapproval": self._legacy_approval,
            "item/permissions/requestapproval": self._permissions,
            "item/tool/requestuserinput": self._user_input,
            "mcpserver/elicitation/request": self._elicitation,
            "item/tool/call": self._tool_call,
        }

    def answer(self, request: ServerRequest) -> tuple[bytes, Message | None]:
        """The line to send, and what the user should know about it. Never raises."""
        handler = self._known.get(request.key)
        if handler is None:
            self.refused.append(request.method)
            line = JsonRpc.refuse(request, METHOD_NOT_FOUND, f"this client does not answer {request.method}")
            return line, _log(f"codex asked for {request.method}, which nobody here can answer; refused", "warn")
        try:
            result, said = handler(request)
        except (AttributeError, KeyError, TypeError, ValueError):
            self.refused.append(request.method)
            return JsonRpc.refuse(request, INVALID_PARAMS, "parameters of an unknown shape"), None
        return JsonRpc.answer(request, result), _log(said, "info") if said else None

    @property
    def _grants(self) -> bool:
        return self.allow and not self.closed

    def _approval(self, request: ServerRequest) -> tuple[Any, str]:
        if self.closed:
            return {"decision": "cancel"}, ""
        wanted = ["accept", "decline", "cancel"] if self.allow else ["decline", "cancel"]
        offered = request.params.get("availableDecisions")
        if isinstance(offered, list):  # what is granted for good (`acceptForSession`, rules) is never picked
            wanted = [word for word in wanted if word in offered] or ["decline"]
        return {"decision": wanted[0]}, "" if wanted[0] == "accept" else _declined(request)

    def _legacy_approval(self, request: ServerRequest) -> tuple[Any, str]:
        """The older pair of requests has words of its own."""
        if self.closed:
            return {"decision": "abort"}, ""
        return {"decision": "approved" if self.allow else "denied"}, "" if self.allow else _declined(request)

    def _permissions(self, request: ServerRequest) -> tuple[Any, str]:
        asked = request.params.get("permissions")
        asked = asked if isinstance(asked, dict) and self._grants else {}
        granted = {key: asked[key] for key in ("network", "fileSystem") if asked.get(key) is not None}
        return {"permissions": granted, "scope": "turn"}, "" if granted else _declined(request)

    def _user_input(self, request: ServerRequest) -> tuple[Any, str]:
        questions = [q for q in request.params.get("questions") or [] if isinstance(q, dict)]
        said = "; ".join(str(q.get("question") or q.get("header") or "") for q in questions)
        answers = {str(q["id"]): {"answers": [NOBODY]} for q in questions if q.get("id")}
        return {"answers": answers}, f"codex asked: {said[:_SHOWN]} — answered that nobody is there"

    def _elicitation(self, request: ServerRequest) -> tuple[Any, str]:
        """A form without a field is a yes-or-no question, which is how codex asks whether an MCP tool may run. What a
        person would have to fill in, open or prove is declined."""
        params = request.params
        schema = params.get("requestedSchema")
        fields = schema.get("properties") if isinstance(schema, dict) else None
        person = bool(fields) or params.get("mode") in ("url", "openai/userVerification")
        action = "accept" if self._grants and not person else "cancel" if self.closed else "decline"
        said = f"an MCP server asked: {str(params.get('message'))[:_SHOWN]} — answered {action}"
        return {"action": action, "content": None, "_meta": None}, "" if action == "accept" else said

    def _tool_call(self, request: ServerRequest) -> tuple[Any, str]:
        text = f"there is no tool {request.params.get('tool')!r}"
        return {"success": False, "contentItems": [{"type": "inputText", "text": text}]}, text


def _declined(request: ServerRequest) -> str:
    what = request.params.get("command") or request.params.get("reason") or request.params.get("grantRoot") or ""
    return f"declined {request.method}: {str(what)[:_SHOWN]}"


def _log(text: str, level: str) -> Message:
    return Message(MessageType.LOG, text, level=level)
