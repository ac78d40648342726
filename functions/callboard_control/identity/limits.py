"""How often somebody may call: so many calls a minute for a token, and for an address that shows none.

Calls are counted in windows of a minute, first in the process and then, in steps, on an item all processes share::

    process   ····· ····· ···│··        a step is 1/20 of the limit, and smaller the nearer the limit is
    shared    ─────5────10──15──▶ limit

So somebody far from a limit costs the store nothing at all, somebody near it is counted exactly, and somebody beyond it
is refused from memory. What is let through beyond a limit is at most a step for each process that serves the caller.
A limit below 40 has a step of one: every call is counted at once.
"""

from __future__ import annotations

import logging
import os
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Final

from callboard_control import ports
from callboard_control.errors import TooManyRequests
from callboard_control.store import keys, table
from callboard_control.store.errors import StoreError
from callboard_control.store.identity_items import CallsItem

WINDOW_MS: Final = 60_000
STEPS: Final = 20
REMEMBERED: Final = 10_000
"""Keys, and known tokens, that a process keeps at once: a flood of made-up addresses must not fill its memory."""

logger: Final = logging.getLogger("callboard.limits")


@dataclass(frozen=True, slots=True)
class Rate:
    """`limit` calls a minute for each of what `name` counts; 0 is no limit."""

    name: str
    limit: int


@dataclass(frozen=True, slots=True)
class Rates:
    """What is limited. `token`: calls with one valid token. `address`: calls from one address that no valid token came
    with. `login`: the calls that make somebody known (first login, invitations, device codes), for an address.
    `guess`: user codes that do not exist, for a person."""

    token: Rate = Rate("token", 6000)
    address: Rate = Rate("address", 600)
    login: Rate = Rate("login", 60)
    guess: Rate = Rate("guess", 10)

    @classmethod
    def from_environment(cls) -> Rates:
        """``CALLBOARD_RATE_TOKEN``, ``_ADDRESS``, ``_LOGIN``: calls a minute, 0 = no limit. Raises `ValueError`."""
        usual = cls()
        return cls(_rate(usual.token), _rate(usual.address), _rate(usual.login))


def _rate(usual: Rate) -> Rate:
    name = f"CALLBOARD_RATE_{usual.name.upper()}"
    text = os.environ.get(name, "").strip()
    if not text:
        return usual
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise ValueError(f"{name} is a number of calls a minute (0 = no limit), not {text[:40]!r}")
    return Rate(usual.name, int(text))


@dataclass(frozen=True, slots=True)
class Standing:
    """Where somebody stands in the current window: for the ``RateLimit-*`` headers of an answer."""

    limit: int
    remaining: int
    reset_s: int


@dataclass(slots=True)
class _Count:
    """`known`: calls that the shared item has, as far as this process was told; `unsent`: those it has not."""

    known: int = 0
    unsent: int = 0


class Limiter:
    """One process's counts. Safe to use from several threads."""

    def __init__(self, rates: Rates) -> None:
        self.rates = rates
        self._lock = Lock()
        self._window = 0
        self._counts: OrderedDict[tuple[str, str], _Count] = OrderedDict()
        self._good: OrderedDict[str, None] = OrderedDict()

    def count(self, rate: Rate, whom: str) -> Standing | None:
        """Count one call. Raises `TooManyRequests` when it is one too many; None where there is no limit."""
        if not rate.limit:
            return None
        now = ports.now_ms()
        with self._lock:
            count = self._of(now, rate, whom)
            self._refuse(rate, count, now)
            count.unsent += 1
            due = count.unsent if count.unsent >= _step(rate.limit, count.known) else 0
            count.unsent -= due
            count.known += due  # at once, so that no other thread sends the same
        if due and self._told(rate, whom, now, due, count) > rate.limit:
            raise _too_many(rate, now)
        return Standing(rate.limit, max(0, rate.limit - count.known - count.unsent), _left_s(now))

    def check(self, rate: Rate, whom: str) -> None:
        """Raises `TooManyRequests` when `whom` is known to be beyond the limit; counts nothing, asks nobody."""
        if not rate.limit:
            return
        now = ports.now_ms()
        with self._lock:
            # Looked up and not made: a made-up token must not push somebody's count out of the memory.
            count = self._counts.get((rate.name, whom)) if now // WINDOW_MS == self._window else None
            if count is not None:
                self._refuse(rate, count, now)

    def remember(self, token_key: str) -> None:
        """`token_key` has just been found valid: an address's bad calls do not shut out whoever has it."""
        with self._lock:
            self._good[token_key] = None
            self._good.move_to_end(token_key)
            if len(self._good) > REMEMBERED:
                self._good.popitem(last=False)

    def remembers(self, token_key: str) -> bool:
        return token_key in self._good

    def _of(self, now: int, rate: Rate, whom: str) -> _Count:
        window = now // WINDOW_MS
        if window != self._window:
            self._window = window
            self._counts.clear()
        count = self._counts.setdefault((rate.name, whom), _Count())
        self._counts.move_to_end((rate.name, whom))
        if len(self._counts) > REMEMBERED:
            self._counts.popitem(last=False)
        return count

    @staticmethod
    def _refuse(rate: Rate, count: _Count, now: int) -> None:
        if count.known + count.unsent >= rate.limit:
            raise _too_many(rate, now)

    def _told(self, rate: Rate, whom: str, now: int, due: int, count: _Count) -> int:
        """Add `due` to the shared count; how many it has now."""
        window = now // WINDOW_MS
        item = CallsItem(f"RL#{rate.name}#{whom}", keys.stamp(window))
        actions = [CallsItem.calls.add(due), CallsItem.ttl.set((window + 2) * WINDOW_MS // 1000)]
        try:
            total = int(table.update(item, actions).calls)
        except StoreError:
            # Whoever is within the limits must not be refused for it; their own call will meet the outage by itself.
            logger.warning("calls could not be counted", exc_info=True)
            return 0
        with self._lock:
            count.known = max(count.known, total)
        return total


def _step(limit: int, known: int) -> int:
    return max(1, min(limit // STEPS, (limit - known) // 4))


def _left_s(now: int) -> int:
    """Whole seconds until the window ends, at least one."""
    return max(1, -(-(WINDOW_MS - now % WINDOW_MS) // 1000))


_WHOSE: Final = {
    "token": "with this token",
    "address": "from this address without a valid token",
    "login": "from this address to log in",
    "guess": "with codes that do not exist",
}


def _too_many(rate: Rate, now: int) -> TooManyRequests:
    wait = _left_s(now)
    message = f"More than {rate.limit} calls a minute {_WHOSE[rate.name]}: wait {wait} s."
    return TooManyRequests(message, rate=rate.name, limit=rate.limit, retry_after_s=wait)


_current: list[Limiter] = []


def use(limiter: Limiter | None) -> None:
    """Make `limiter` the process's own; None: a new one, by the environment, at the next call."""
    _current[:] = [limiter] if limiter else []


def current() -> Limiter:
    if not _current:
        _current.append(Limiter(Rates.from_environment()))
    return _current[0]
