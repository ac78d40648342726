"""The server: one thread a connection, on 127.0.0.1 and a port of the system's choosing."""

from __future__ import annotations

import threading
from collections import Counter
from types import TracebackType
from typing import Self
from uuid import uuid4

from tests.fakes.model_server.connection import Connection, Listener
from tests.fakes.model_server.conversation import Conversation
from tests.fakes.model_server.courses import plan
from tests.fakes.model_server.records import RecordedRequest
from tests.fakes.model_server.scenarios import Plan


class ModelServerError(AssertionError):
    """The server itself broke while it answered: what the CLI did after that says nothing about the CLI."""


class ModelServer:
    """A model API on the loopback. Use as a context manager; it is listening once made, and stops on leaving.

    `mark` is a word nobody else uses: it stands in the command line of the long tool, so that a process left alive
    by this server's runs, and no other, can be found.
    """

    def __init__(self, port: int = 0) -> None:
        self.mark = f"callboard-mark-{uuid4().hex}"
        self.stopping = threading.Event()
        self._requests: list[RecordedRequest] = []
        self._planned: Counter[str] = Counter()
        self._changed = threading.Condition()
        self._errors: list[BaseException] = []
        self._http = Listener(("127.0.0.1", port), Connection, self)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The base without a path: what Anthropic's clients want."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def openai_url(self) -> str:
        """The base with `/v1`: what OpenAI's clients want."""
        return f"{self.url}/v1"

    @property
    def requests(self) -> list[RecordedRequest]:
        """Everything asked so far, in order of arrival."""
        with self._changed:
            return list(self._requests)

    def main_calls(self) -> list[RecordedRequest]:
        """The model calls that offered tools: the agent's own turns, without titles and summaries."""
        return [one for one in self.requests if one.scenario and not one.auxiliary]

    def wait_for_call(self, scenario: str, timeout: float) -> RecordedRequest:
        """The first main call of a scenario, waiting up to `timeout` seconds. Raises TimeoutError."""
        with self._changed:
            found = self._changed.wait_for(lambda: self._first(scenario), timeout)
        if found is None:
            raise TimeoutError(f"no call of scenario {scenario} within {timeout} s")
        return found

    def record(self, request: RecordedRequest) -> None:
        """Note a request (the connection's thread calls this before it answers)."""
        with self._changed:
            self._requests.append(request)
            self._changed.notify_all()

    def plan(self, conversation: Conversation) -> Plan:
        """Decide a call's course, counting the main calls of each scenario for the `once` ones."""
        auxiliary = not conversation.tools
        word = conversation.words[-1] if conversation.words else ""
        with self._changed:
            earlier = self._planned[word]
            self._planned[word] += not auxiliary
        return plan(
            conversation.words,
            results=conversation.results,
            auxiliary=auxiliary,
            earlier=earlier,
            mark=self.mark,
        )

    def broke(self, error: BaseException) -> None:
        """Note that answering raised (the connection's thread calls this)."""
        with self._changed:
            self._errors.append(error)

    def close(self) -> None:
        """Stop: calls that hang are let go, the port is free again.

        Raises ModelServerError if answering ever raised.
        """
        self.stopping.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
        if self._errors:
            raise ModelServerError(f"{len(self._errors)} requests broke the model server") from self._errors[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _first(self, scenario: str) -> RecordedRequest | None:
        return next((one for one in self._requests if one.scenario == scenario and not one.auxiliary), None)
