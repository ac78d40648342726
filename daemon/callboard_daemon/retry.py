"""How often and how soon something is tried again: one policy for everything the daemon asks of the control plane."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_delay, stop_never

from callboard_daemon.answers import CONTENDED, TASK_NOT_FOUND
from callboard_daemon.errors import Conflict, ControlError, NotAuthorised, NotFound, ServerTrouble, StaleClaim

T = TypeVar("T")

FIRST_S: Final = 0.25
LONGEST_S: Final = 30.0
LOGIN_S: Final = 2.0
"""The least between tries while the token is refused: another part of the daemon renews it, or somebody logs in."""


def pause(attempt: int, error: BaseException | None = None) -> float:
    """Seconds before try `attempt` + 1: doubling with jitter, so a thousand daemons do not return in one instant
    after an outage; never sooner than the server asked."""
    wanted = min(LONGEST_S, FIRST_S * 2.0 ** min(attempt - 1, 16)) * random.uniform(0.5, 1.0)
    asked = error.retry_after_s if isinstance(error, ServerTrouble) else None
    return max(wanted, asked or 0.0, LOGIN_S if isinstance(error, NotAuthorised) else 0.0)


def may_pass(error: BaseException) -> bool:
    """Whether the same request may succeed later."""
    return isinstance(error, ControlError) and error.transient


def task_lost(error: BaseException) -> bool:
    """Whether an error means that the task is not ours. A 404 that does not say `task_not_found` is somebody in
    between (a captive portal, a server half deployed) and must not end an agent's work."""
    return isinstance(error, StaleClaim) or (isinstance(error, NotFound) and error.code == TASK_NOT_FOUND)


class Patience:
    """`worth_another_try`, but not for ever with an answer of 500 to one and the same request.

    An outage shows as no answer, 502, 503 or 504 and is waited out. A 500 that stays may well be this very request
    hitting a bug over there; whatever comes behind it must not wait for the bug to be fixed.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._since: float | None = None

    def __call__(self, error: BaseException) -> bool:
        if not (isinstance(error, ServerTrouble) and error.status == 500):
            self._since = None
            return worth_another_try(error)
        self._since = self._since or time.monotonic()
        return time.monotonic() - self._since < self._limit


def worth_another_try(error: BaseException) -> bool:
    """For what is said about a claimed task: a refused token is waited out too, because another part of the daemon
    renews it."""
    if isinstance(error, NotFound):
        return not task_lost(error)
    if isinstance(error, Conflict) and error.code == CONTENDED:
        return True
    return may_pass(error) or (isinstance(error, NotAuthorised) and error.status == 401)


async def retrying(
    ask: Callable[[], Awaitable[T]],
    *,
    within: float | None = None,
    until: Callable[[BaseException], bool] = may_pass,
    on_failure: Callable[[BaseException], None] = lambda _: None,
) -> T:
    """The answer of `ask`, asked again while `until` says that its error may pass, for `within` seconds (None: for as
    long as it takes). Raises the last error."""
    tries = AsyncRetrying(
        sleep=asyncio.sleep,
        stop=stop_never if within is None else stop_after_delay(within),
        wait=lambda state: pause(state.attempt_number, _error(state)),
        retry=retry_if_exception(until),
        before_sleep=lambda state: on_failure(_error(state) or RuntimeError("no error")),
        reraise=True,
    )

    async def asked() -> T:  # tenacity awaits only what is declared `async`, and most callers hand over a lambda
        return await ask()

    return await tries(asked)


def _error(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None
