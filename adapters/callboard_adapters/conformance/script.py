"""A recording as a conversation: what the CLI says after each thing the client says.

Sans-IO, so that the same script is played by a fake CLI process (`player.py`) and in memory (`pure.py`). Uses only
the standard library: the player starts without site-packages.

Requests of a client differ from the recorded ones in their ids and in which of them are sent at all, so client lines
are matched by method (JSON-RPC) or by type (stream JSON), in order, and ids are put back into the answers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


class Script:
    """`client` are the recorded client lines, `sent_after[i]` how many lines of `stdout` came before line i."""

    def __init__(self, stdout: Sequence[bytes], client: Sequence[bytes], sent_after: Sequence[int]) -> None:
        self._stdout = list(stdout)
        self._client = [_parse(line) for line in client]
        bounds = [*sent_after[: len(client)], len(stdout)]
        self._segments = [self._stdout[bounds[i] : bounds[i + 1]] for i in range(len(self._client))]
        self._preamble = self._stdout[: bounds[0]]
        self._next = 0
        self._ids: dict[str, Any] = {}

    def begin(self) -> list[bytes]:
        """What is said before the client says anything: everything, in a recording without client lines."""
        return self._preamble

    def hear(self, line: bytes) -> list[bytes]:
        """What the CLI says to one line of the client."""
        said = _parse(line)
        key = _key(said)
        for at in range(self._next, len(self._client)):
            if _key(self._client[at]) != key:
                continue
            self._match(self._client[at], said)
            released = [x for segment in self._segments[self._next : at + 1] for x in segment]
            self._next = at + 1
            return [self._put_back(x) for x in released]
        if said and "method" in said and said.get("id") is not None:
            # Not recorded: an adapter may ask more than the recorded client did.
            return [json.dumps({"jsonrpc": "2.0", "id": said["id"], "result": {}}).encode()]
        return []

    @property
    def over(self) -> bool:
        """Everything has been said."""
        return self._next >= len(self._client)

    def _match(self, recorded: dict[str, Any] | None, said: dict[str, Any] | None) -> None:
        for name in ("id", "request_id"):
            if recorded and said and name in recorded and name in said:
                self._ids[json.dumps(recorded[name])] = said[name]

    def _put_back(self, line: bytes) -> bytes:
        if not self._ids:
            return line
        value = _parse(line)
        if not value:
            return line
        if "method" not in value and json.dumps(value.get("id")) in self._ids:
            return json.dumps({**value, "id": self._ids[json.dumps(value["id"])]}).encode()
        response = value.get("response")
        if isinstance(response, dict) and json.dumps(response.get("request_id")) in self._ids:
            response["request_id"] = self._ids[json.dumps(response["request_id"])]
            return json.dumps(value).encode()
        return line


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _key(message: dict[str, Any] | None) -> tuple[Any, ...]:
    if message is None:
        return ("text",)
    if "method" in message:
        return ("method", message["method"])
    if "result" in message or "error" in message:
        return ("answer", json.dumps(message.get("id")))
    return ("type", message.get("type"))
