"""Grok's sub-agents: they work in the background, in sessions of their own, and often outlast the turn that started
them. When one is done grok wakes its parent for another turn (`will_wake`), which reads the result and ends with a
`turn_completed` under a prompt id of its own (`subagent-completed-…`). The bill in the prompt's answer lacks those that
were still at work (`usageIsIncomplete`) and the turns after it.
"""

from __future__ import annotations

from typing import Any

from callboard_adapters.dialects.acp_offer import text
from callboard_adapters.messages import TokenUsage

_OWN_TURN = "subagent-"


class Agents:
    """`working`: the sessions of those that have not finished. `beyond`: what the prompt's answer did not bill."""

    def __init__(self) -> None:
        self.working: set[str] = set()
        self._spent: dict[str, TokenUsage] = {}
        self._wakes: set[str] = set()
        self._billed: set[str] = set()
        self._later = TokenUsage()

    @property
    def pending(self) -> bool:
        """Whether something is still to come of them."""
        return bool(self.working or self._wakes)

    @property
    def beyond(self) -> TokenUsage:
        return sum((used for who, used in self._spent.items() if who not in self._billed), self._later)

    def spawned(self, update: dict[str, Any]) -> None:
        session = text(update.get("child_session_id"))
        if session:
            self.working.add(session)
            self._spent.setdefault(session, TokenUsage())

    def finished(self, update: dict[str, Any]) -> None:
        session = text(update.get("child_session_id"))
        self.working.discard(session)
        if update.get("will_wake") is True:
            self._wakes.add(session)

    def knows(self, session_id: str) -> bool:
        return session_id in self._spent

    def spent(self, session_id: str, used: TokenUsage) -> None:
        self._spent[session_id] += used

    def turned(self, update: dict[str, Any]) -> None:
        """A turn of the parent's has ended. One that an agent woke it for has read what there was to read."""
        if text(update.get("prompt_id")).startswith(_OWN_TURN):
            self._wakes.clear()

    def answered(self) -> None:
        """The prompt was answered: its bill has those that were done by then."""
        self._billed = set(self._spent) - self.working

    def called_later(self, used: TokenUsage) -> None:
        """A call of the parent's after its prompt was answered."""
        self._later += used
