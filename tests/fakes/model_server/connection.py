"""One connection: HTTP in, a dialect's bytes out, and the ways an answer can go wrong on the wire."""

from __future__ import annotations

import json
import select
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import urlsplit

from tests.fakes.model_server import anthropic, chat, responses
from tests.fakes.model_server.conversation import Conversation
from tests.fakes.model_server.dialect import Dialect, Piece, never_in_stream
from tests.fakes.model_server.records import RecordedRequest
from tests.fakes.model_server.scenarios import FIRST_CALL, Failure, Plan

MODEL = "loopback-model"
TEXT_PIECES_BEFORE_CUT = 2
PAUSE_BEFORE_CUT = 0.5  # seconds
HANG_POLL = 0.2  # seconds between looks at whether a hanging call's client has gone
DIALECTS = {
    "/v1/messages": Dialect(
        anthropic.read,
        anthropic.stream,
        anthropic.whole,
        anthropic.refusal,
        never_in_stream,
        anthropic.error_event,
    ),
    "/v1/chat/completions": Dialect(
        chat.read, chat.stream, chat.whole, chat.refusal, never_in_stream, chat.error_event
    ),
    "/v1/responses": Dialect(
        responses.read,
        responses.stream,
        responses.whole,
        chat.refusal,
        responses.stream_failure,
        responses.error_event,
    ),
}
_COUNT_TOKENS = "/v1/messages/count_tokens"
_MODELS = {
    "object": "list",
    "data": [{"id": MODEL, "object": "model", "type": "model", "display_name": "Loopback", "owned_by": "loopback"}],
    "has_more": False,
}
_SECRET_HEADERS = ("authorization", "x-api-key", "api-key", "cookie", "proxy-authorization")


class Model(Protocol):
    """What a connection needs of the server it belongs to."""

    stopping: threading.Event

    def plan(self, conversation: Conversation) -> Plan: ...

    def record(self, request: RecordedRequest) -> None: ...

    def broke(self, error: BaseException) -> None: ...


class Listener(ThreadingHTTPServer):
    """Accepts connections, a thread each."""

    daemon_threads = True
    block_on_close = False  # a CLI's idle keep-alive connection must not hold the test up

    def __init__(self, address: tuple[str, int], handler: type[Connection], model: Model) -> None:
        self.model = model
        super().__init__(address, handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away mid-answer is what cancel tests are about; anything else is this server's bug."""
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, ConnectionError):
            self.model.broke(error)


class Connection(BaseHTTPRequestHandler):
    """One client's connection; `server.model` decides, this says it in HTTP."""

    protocol_version = "HTTP/1.1"
    server: Listener

    def do_HEAD(self) -> None:
        """Claude probes its base address with HEAD before it asks anything."""
        self._record({}, 200)
        self._answer_json(200, {})

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path.endswith("/models"):
            self._record({}, 200)
            self._answer_json(200, _MODELS)
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
        failure = course.failure or (None if conversation.stream else course.breaks)
        in_stream = dialect.stream_failure(failure, conversation) if failure and conversation.stream else None
        if failure and not in_stream:
            status, document = dialect.refusal(failure)
            self._record(body, status, conversation)
            self._answer_json(status, document, failure)
            return
        self._record(body, 200, conversation)
        if in_stream:
            self._stream(in_stream, Plan(course.answer))
        elif course.hang:
            self._hang()
        elif conversation.stream:
            pieces = dialect.stream(course.answer, conversation)
            broken = course.breaks
            if broken is not None:
                pieces = _broken(pieces, partial(dialect.error_event, broken, conversation))
            self._stream(pieces, course)
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
                "tool_done": conversation.results > 0,
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
        """End the connection where the answer has not ended: the client sees a body without its last chunk.

        Not at once: whether a client has read the pieces before the end decides whether it counts their tokens.
        """
        self.server.model.stopping.wait(PAUSE_BEFORE_CUT)
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
            readable, _, _ = select.select([self.connection], [], [], HANG_POLL)
            if readable:  # end of file, or bytes nobody may send before the answer: either way the client is done
                return


def _broken(pieces: Iterable[Piece], error: Callable[[int], Piece]) -> Iterator[Piece]:
    """An answer that ends with an error where a cut one is cut."""
    texts = 0
    for number, piece in enumerate(pieces):
        yield piece
        texts += piece.is_text
        if texts == TEXT_PIECES_BEFORE_CUT:
            yield error(number + 1)
            return
