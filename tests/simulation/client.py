"""The client most simulated worlds speak to the engine with: what botocore does about a fault, without botocore.

Building, sending and parsing HTTP was more than half of a simulation's time. Every eighth seed goes the whole way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from botocore.exceptions import ClientError, ConnectionClosedError

from callboard_control.embedded.engine import Engine
from callboard_control.embedded.engine.errors import LostMessage
from callboard_control.embedded.engine.shortcut import Direct
from callboard_control.store import table
from callboard_control.store.models import Item

ATTEMPTS: Final = 1 + Item.Meta.max_retry_attempts
RETRIED: Final = frozenset({"ThrottlingException", "ProvisionedThroughputExceededException", "InternalServerError"})


class Patient(Direct):
    """Tries again what botocore would: throttling, a server's error, a broken connection."""

    def __init__(self, client: Any, engine: Engine, sleep: Callable[[float], None]) -> None:
        super().__init__(client, engine)
        self._sleep = sleep

    def _make_api_call(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return super()._make_api_call(operation, request)
            except ClientError as error:
                lost = isinstance(error.__cause__, LostMessage)
                if attempt == ATTEMPTS and lost:
                    raise ConnectionClosedError(endpoint_url="engine", error=error) from error
                if attempt == ATTEMPTS or not (lost or error.response["Error"]["Code"] in RETRIED):
                    raise
            self._sleep(0.05)
        raise AssertionError("unreachable")


def take_the_short_way(engine: Engine, sleep: Callable[[float], None]) -> None:
    """Have the store reach `engine` through a `Patient` from now on; `sleep` is what it waits with."""
    connection = table.connection()
    patient: Any = Patient(connection.client, engine, sleep)
    connection._client = patient  # as the engine's own hook does: PynamoDB has no public way to give it a client
