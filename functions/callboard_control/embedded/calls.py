"""One call of a handler: its deadline, whether anybody still waits for the answer, and the context it is given."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock

from callboard_control.embedded.events import ACCOUNT_ID


class Call:
    """`abandon` may come from any thread, once or often; what was registered with `on_abandon` is then called once."""

    def __init__(self, request_id: str, timeout_s: float) -> None:
        self.request_id = request_id
        self._deadline = time.monotonic() + timeout_s
        self._lock = Lock()
        self._abandoned = False
        self._wake: Callable[[], None] | None = None

    @property
    def abandoned(self) -> bool:
        return self._abandoned

    def remaining_s(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def abandon(self) -> None:
        """The caller hung up: whoever waits on its behalf should stop, or it would claim work for nobody."""
        with self._lock:
            self._abandoned = True
            wake, self._wake = self._wake, None
        if wake is not None:
            wake()

    @contextmanager
    def on_abandon(self, wake: Callable[[], None]) -> Iterator[None]:
        """Within the block `wake` is called when the call is abandoned, at once if it is already."""
        with self._lock:
            abandoned = self._abandoned
            if not abandoned:
                self._wake = wake
        if abandoned:
            wake()
        try:
            yield
        finally:
            with self._lock:
                self._wake = None


current_call: ContextVar[Call | None] = ContextVar("current_call", default=None)
"""The call this thread serves; None outside the gateway."""


class LocalContext:
    """Lambda's context object, for a function that runs here."""

    function_version = "$LATEST"
    memory_limit_in_mb = "256"
    identity = None
    client_context = None

    def __init__(self, function_name: str, call: Call) -> None:
        self.function_name = function_name
        self.aws_request_id = call.request_id
        self.invoked_function_arn = f"arn:aws:lambda:us-east-1:{ACCOUNT_ID}:function:{function_name}"
        self.log_group_name = f"/aws/lambda/{function_name}"
        self.log_stream_name = "local"
        self._call = call

    def get_remaining_time_in_millis(self) -> int:
        return int(self._call.remaining_s() * 1000)
