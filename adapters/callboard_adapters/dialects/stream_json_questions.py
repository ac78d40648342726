"""Questions that only a person could answer, in a run without one.

Their tools are taken from the model on the command line. Where one is called all the same and the CLI neither asks us
nor answers itself, it waits for ever: it gets a result that says so.
"""

from __future__ import annotations

from collections.abc import Iterable

from callboard_adapters.base import Output, Reply, Timer
from callboard_adapters.dialects.stream_json_input import encode
from callboard_adapters.messages import Message, MessageType

TIMER = "question"
DENIED = "Nobody can answer in this run. Decide yourself and say which assumption you made."
_PATIENCE = 0.6  # seconds for the CLI's own answer, which comes at once where there is one


class Questions:
    """The calls of `tools` (names) that wait for an answer."""

    def __init__(self, tools: Iterable[str]) -> None:
        self._tools = frozenset(tools)
        self._open: set[str] = set()
        self._settled: set[str] = set()

    def called(self, tool: str, call_id: str) -> list[Output]:
        if tool not in self._tools or not call_id or call_id in self._settled:
            return []
        self._open.add(call_id)
        return [Timer(TIMER, _PATIENCE)]

    def settled(self, call_id: str) -> list[Output]:
        """The CLI has answered by itself."""
        if call_id not in self._open:
            return []
        self._open.discard(call_id)
        return [] if self._open else [Timer(TIMER, None)]

    def refused(self, tool: str, call_id: str) -> list[Output]:
        """We have, when the CLI asked for the permission; that may come before the call itself."""
        if tool in self._tools and call_id:
            self._settled.add(call_id)
        return self.settled(call_id)

    def deny(self) -> list[Output]:
        """The answers to all that are still open."""
        outputs: list[Output] = []
        for call_id in sorted(self._open):
            result = {"type": "tool_result", "tool_use_id": call_id, "content": DENIED, "is_error": True}
            outputs.append(Reply(encode({"type": "user", "message": {"role": "user", "content": [result]}})))
            text = "the agent asked a question that nobody can answer here; it was told to decide itself"
            outputs.append(Message(MessageType.LOG, text, level="warn"))
        self._open.clear()
        return outputs
