"""JSON-RPC 2.0, one message a line: what codex app-server and every ACP agent speak.

`JsonRpc` keeps the books of one connection and nothing else: it has no clock, knows no method and writes nothing. It
hands back bytes to send and turns lines into four kinds of message. Real servers leave `jsonrpc` out, answer ids as
floats or strings, number their own requests from 0 or with strings, answer twice, answer what nobody asked, and print
log lines between messages; none of that may end a run or settle the wrong request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from callboard_adapters.dialects.ndjson import LineParser
from callboard_adapters.messages import Message

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

_FRAME = ("jsonrpc", "id", "method")
_MAX_ID_DIGITS = 15  # longer ids are never ours, and int() refuses very long ones


@dataclass(slots=True)
class RpcError:
    """The error of an answer. `code` is None and `data` the whole value when it was not the standard object."""

    code: int | None
    message: str
    data: Any = None

    def sentence(self, method: str) -> str:
        """`<method>: <message> (code=N, data=D)`: the wording the failure classifier and people get."""
        facts = [] if self.code is None else [f"code={self.code}"]
        if self.data is not None:
            facts.append(f"data={self.data if isinstance(self.data, str) else json.dumps(self.data)}")
        return f"{method}: {self.message}" + (f" ({', '.join(facts)})" if facts else "")


@dataclass(slots=True)
class Answer:
    """The answer to a request of ours, given at most once per request. With an `error`, `result` is None."""

    id: int
    method: str
    result: Any = None
    error: RpcError | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """The result where it is an object, else {}: `null` is a common way to say "done"."""
        return self.result if isinstance(self.result, dict) else {}


@dataclass(slots=True)
class ServerRequest:
    """A question of the server. It waits until it is answered: `id` goes back exactly as it came (0, "a", 1.5)."""

    id: Any
    method: str
    key: str
    params: dict[str, Any]


@dataclass(slots=True)
class Notification:
    method: str
    key: str
    params: dict[str, Any]


@dataclass(slots=True)
class Stray:
    """A message that fits nothing: an answer nobody waits for, a second answer, no method and no result."""

    why: str
    message: dict[str, Any]


Incoming: TypeAlias = Answer | ServerRequest | Notification | Stray


class JsonRpc:
    """One connection. `pending` maps the ids of our unanswered requests to their methods, oldest first."""

    def __init__(self) -> None:
        self.parser = LineParser()
        self.pending: dict[int, str] = {}
        self._next_id = 0
        self._keys: dict[str, str] = {}

    # to the server -----------------------------------------------------------------

    def request(self, method: str, params: Mapping[str, Any] | None = None) -> tuple[int, bytes]:
        """(id, line) of a new request; it stays in `pending` until its answer or `forget`."""
        request_id = self._next_id
        self._next_id += 1
        self.pending[request_id] = method
        return request_id, _line({"id": request_id, "method": method}, params)

    def forget(self, request_id: int) -> None:
        """Stop waiting: an answer that still comes is a `Stray`."""
        self.pending.pop(request_id, None)

    @staticmethod
    def notify(method: str, params: Mapping[str, Any] | None = None) -> bytes:
        return _line({"method": method}, params)

    @staticmethod
    def answer(request: ServerRequest, result: Any) -> bytes:
        return _line({"id": request.id, "result": result})

    @staticmethod
    def refuse(request: ServerRequest, code: int, message: str) -> bytes:
        """An error answer: the server goes on instead of waiting for ever."""
        return _line({"id": request.id, "error": {"code": code, "message": message}})

    # from the server -----------------------------------------------------------------

    def receive(self, line: bytes) -> Incoming | None:
        """The message on the line; None for a blank line and for noise (see `notices`). Never raises."""
        message = self.parser.parse(line)
        if message is None:
            return None
        method = message.get("method")
        settled = message.get("error") is not None or "result" in message
        if settled or type(method) is not str:
            # A server that echoes our method in its answer still answers.
            mine = self._mine(message.get("id"))
            if settled and mine is not None:
                return self._answer(mine, message)
            if type(method) is not str:
                return Stray("an answer that nobody waits for" if settled else "neither method nor result", message)
        params = message.get("params")
        if type(params) is not dict:
            # Whatever it is called or made of: nothing a server says is dropped.
            params = {k: v for k, v in message.items() if k not in _FRAME and v is not None}
        if message.get("id") is None:
            return Notification(method, self._key(method), params)
        return ServerRequest(message["id"], method, self._key(method), params)

    def notices(self) -> list[Message]:
        """Messages about noise since the last call (`LineParser.notices`)."""
        return self.parser.notices() if self.parser.has_notices else []

    # the parts -------------------------------------------------------------------------

    def _mine(self, value: Any) -> int | None:
        """Our pending request that an answer's id means; 3, 3.0 and "3" are the same, true is none."""
        if type(value) is str and value.isascii() and value.isdecimal() and len(value) <= _MAX_ID_DIGITS:
            value = int(value)
        # As keys of a dict 3 and 3.0 are equal; so are 1 and true.
        if type(value) not in (int, float) or value not in self.pending:
            return None
        return int(value)

    def _answer(self, request_id: int, message: dict[str, Any]) -> Answer:
        method = self.pending.pop(request_id)
        error = message.get("error")
        if error is not None:  # with a result beside it, too: a failure is never taken for a success
            return Answer(request_id, method, None, _error(error))
        return Answer(request_id, method, message.get("result"))

    def _key(self, method: str) -> str:
        key = self._keys.get(method)
        if key is None:
            key = method_key(method)
            if len(self._keys) < 1000:  # a server that invents methods must not fill the memory
                self._keys[method] = key
        return key


def method_key(method: str) -> str:
    """A method or kind without its casing: `Session_Update`, `session/Update`, `agentMessageChunk` → lower case, no
    `_` and no `-`. Servers spell one method in several ways; compare keys, show methods."""
    return method.lower().replace("_", "").replace("-", "")


def _error(error: Any) -> RpcError:
    if isinstance(error, dict):
        code, message = error.get("code"), error.get("message")
        if isinstance(code, float) and code.is_integer():
            code = int(code)
        text = message if isinstance(message, str) and message.strip() else "an error without a text"
        return RpcError(code if type(code) is int else None, text, error.get("data"))
    return RpcError(None, error if isinstance(error, str) and error.strip() else "an error without a text", None)


def _line(head: dict[str, Any], params: Mapping[str, Any] | None = None) -> bytes:
    message = {"jsonrpc": "2.0", **head}
    if params is not None:
        message["params"] = params
    # ASCII only: a lone surrogate in a prompt cannot be encoded as UTF-8 and can be escaped.
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"
