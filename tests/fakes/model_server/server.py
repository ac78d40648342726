"""The server: one thread a connection, on 127.0.0.1 and a port of the system's choosing."""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit
from uuid import uuid4

from tests.fakes.model_server import anthropic, chat, responses
from tests.fakes.model_server.conversation import Conversation
from tests.fakes.model_server.dialect import Dialect, Piece, never_in_stream
from tests.fakes.model_server.scenarios import FIRST_CALL, Failure, FailureKind, Plan, plan

MODEL = "loopback-model"
TEXT_PIECES_BEFORE_CUT = 2
_SECRET_HEADERS = ("authorization", "x-api-key", "api-key", "cookie", "proxy-authorization")
_CHAT = Dialect(chat.read, chat.stream, chat.whole, chat.failure_body, never_in_stream)
_ANTHROPIC = Dialect(anthropic.read, anthropic.stream, anthropic.whole, anthropic.failure_body, never_in_stream)
_RESPONSES = Dialect(responses.read, responses.stream, responses.whole, chat.failure_body, responses.stream_failure)
DIALECTS = {
    "/v1/messages": _ANTHROPIC,
    "/v1/chat/completions": _CHAT,
    "/v1/responses": _RESPONSES,
}
_COUNT_TOKENS = "/v1/messages/count_tokens"


@dataclass(frozen=True)
class RecordedRequest:
    """One request as it came. `headers` (lower-case names) are without secrets: `auth` only names where one was.

    `body` is the JSON sent, {} when there was none; `scenario` the word in force, "" where the request is no model
    call; `auxiliary` a model call that offered no tools; `status` what was answered.
    """

    method: str
    path: str
    headers: dict[str, str]
    auth: str | None
    body: dict[str, Any] = field(repr=False)
    status: int = 200
    model: str = ""
    scenario: str = ""
    auxiliary: bool = False
    stream: bool = False
    tools: tuple[str, ...] = ()
    tool_done: bool = False


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
        self._http = _Listener(self, port)
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
            tool_done=conversation.tool_done,
            auxiliary=auxiliary,
            earlier=earlier,
            mark=self.mark,
        )

    def close(self) -> None:
        """Stop: calls that hang are let go, the port is free again."""
        self.stopping.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _first(self, scenario: str) -> RecordedRequest | None:
        return next((one for one in self._requests if one.scenario == scenario and not one.auxiliary), None)


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a CLI's idle keep-alive connection must not hold the test up

    def __init__(self, model: ModelServer, port: int) -> None:
        self.model = model
        super().__init__(("127.0.0.1", port), _Connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away mid-answer is what cancel tests are about; anything else is this server's bug."""
        import sys

        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Listener

    def do_HEAD(self) -> None:
        """Claude probes its base address with HEAD before it asks anything."""
        self._record({}, 200)
        self._answer_json(200, {})

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path.endswith("/models"):
            entry = {"id": MODEL, "object": "model", "type": "model", "display_name": "Loopback", "owned_by": "loopback"}
            self._record({}, 200)
            self._answer_json(200, {"object": "list", "data": [entry], "has_more": False})
        else:
            self._not_found({})

    def do_POST(self) -> None:
        body = self._read_body()
        path = urlsplit(self.path).path
        if path == _COUNT_TOKENS:
            self._record(body, 200)
            self._answer_json(200, {"input_tokens": FIRST_CALL.uncached})
        elif path in DIALECTS:
            self._model_call(DIALECTS[path], body)
        else:
            self._not_found(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the requests are recorded."""

    def _model_call(self, dialect: Dialect, body: dict[str, Any]) -> None:
        conversation = dialect.read(body)
        course = self.server.model.plan(conversation)
        failure = course.failure
        in_stream = dialect.stream_failure(failure, conversation) if failure and conversation.stream else None
        status = failure.status if failure and not in_stream else 200
        if failure and failure.kind in (FailureKind.QUOTA,) and dialect is _ANTHROPIC:
            status = 400
        self._record(body, status, conversation)
        if in_stream:
            self._stream(in_stream, Plan(course.answer))
        elif failure:
            self._answer_json(status, dialect.failure_body(failure), failure)
        elif course.hang:
            self._hang()
        elif conversation.stream:
            self._stream(dialect.stream(course.answer, conversation), course)
        elif course.cut:
            self._cut()
        else:
            self._answer_json(200, dialect.whole(course.answer, conversation))

    def _read_body(self) -> dict[str, Any]:
        if "chunked" in self.headers.get("transfer-encoding", ""):
            raw = b"".join(iter(self._read_chunk, b""))
        else:
            raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            return {}
        return body if isinstance(body, dict) else {}

    def _read_chunk(self) -> bytes:
        size = int(self.rfile.readline().split(b";")[0], 16)
        chunk = self.rfile.read(size)
        self.rfile.readline()
        return chunk

    def _record(self, body: dict[str, Any], status: int, conversation: Conversation | None = None) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        read: dict[str, Any] = {}
        if conversation is not None:
            read = {
                "model": conversation.model,
                "scenario": conversation.words[-1] if conversation.words else "text",
                "auxiliary": not conversation.tools,
                "stream": conversation.stream,
                "tools": tuple(tool.name for tool in conversation.tools),
                "tool_done": conversation.tool_done,
            }
        self.server.model.record(
            RecordedRequest(
                method=self.command,
                path=self.path,
                headers={name: value for name, value in headers.items() if name not in _SECRET_HEADERS},
                auth=next((name for name in _SECRET_HEADERS if headers.get(name)), None),
                body=body,
                status=status,
                **read,
            )
        )

    def _not_found(self, body: dict[str, Any]) -> None:
        self._record(body, 404)
        self._answer_json(404, {"error": {"message": f"no such path: {self.path}", "type": "not_found_error"}})

    def _answer_json(self, status: int, document: dict[str, Any], failure: Failure | None = None) -> None:
        payload = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(payload)))
        if failure and failure.retry_after is not None:
            self.send_header("retry-after", str(failure.retry_after))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(payload)

    def _stream(self, pieces: Iterable[Piece], course: Plan) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("cache-control", "no-cache")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        texts = 0
        for piece in pieces:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece.data), piece.data))
            texts += piece.is_text
            if course.cut and texts == TEXT_PIECES_BEFORE_CUT:
                self._cut()
                return
            if piece.is_text and course.answer.pause:
                self.server.model.stopping.wait(course.answer.pause)
        self.wfile.write(b"0\r\n\r\n")

    def _cut(self) -> None:
        """End the connection where the answer has not ended: the client sees a body without its last chunk."""
        self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _hang(self) -> None:
        """Headers, then nothing until the client hangs up or the server stops."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        self.close_connection = True
        while not self.server.model.stopping.is_set():
            readable, _, _ = select.select([self.connection], [], [], 0.2)
            if readable and not self.connection.recv(1, socket.MSG_PEEK):
                return
            time.sleep(0)
