"""The daemon's own address: loopback, a port the system chose, written to the state folder.

    GET  /health     who this is and how it does; nothing secret
    GET  /metrics    Prometheus text
    POST /shutdown   drain and end
    POST /look       look again for CLIs and runtime profiles

What changes anything needs the secret from the state folder, which only the daemon's user can read.

h11 (which httpx brings) reads the requests; a web framework would cost more memory than the whole idle daemon may.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import h11

log = logging.getLogger(__name__)

_READ_TIMEOUT_S: Final = 5.0
_MAX_BODY: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class LocalFace:
    """What the address shows, and what it does by path. None of it may block."""

    health: Callable[[], Mapping[str, Any]]
    metrics: Callable[[], str]
    doors: Mapping[bytes, Callable[[], None]]
    secret: str


@asynccontextmanager
async def serve_locally(face: LocalFace) -> AsyncIterator[int]:
    """Answer on 127.0.0.1 while the context lasts; gives the port."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_READ_TIMEOUT_S):
                await _one_request(face, reader, writer)
        except (TimeoutError, OSError, h11.RemoteProtocolError) as error:
            log.debug("local request not served: %r", error)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def _one_request(face: LocalFace, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    connection = h11.Connection(h11.SERVER)
    request = await _read_request(connection, reader)
    status, kind, body = _answer(face, request)
    head = [("Content-Type", kind), ("Content-Length", str(len(body))), ("Connection", "close")]
    writer.write(connection.send(h11.Response(status_code=status, headers=head)) or b"")
    writer.write(connection.send(h11.Data(data=body)) or b"")
    writer.write(connection.send(h11.EndOfMessage()) or b"")
    await writer.drain()


async def _read_request(connection: h11.Connection, reader: asyncio.StreamReader) -> h11.Request:
    request: h11.Request | None = None
    size = 0
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(64 * 1024))
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            size += len(event.data)
            if size > _MAX_BODY:
                raise h11.RemoteProtocolError("body too large")
        elif isinstance(event, h11.EndOfMessage) and request is not None:
            return request
        else:
            raise ConnectionError("the client went away")


def _answer(face: LocalFace, request: h11.Request) -> tuple[int, str, bytes]:
    route = request.method, request.target.partition(b"?")[0]
    if route == (b"GET", b"/health"):
        return 200, "application/json", json.dumps(face.health()).encode()
    if route == (b"GET", b"/metrics"):
        return 200, "text/plain; version=0.0.4; charset=utf-8", face.metrics().encode()
    method, path = route
    if method == b"POST" and path in face.doors:
        given = dict(request.headers).get(b"authorization", b"")
        if not hmac.compare_digest(given, f"Bearer {face.secret}".encode()):
            return _error(401, "unauthenticated", "The secret of the state folder is needed.")
        face.doors[path]()
        return 202, "application/json", b'{"status": "accepted"}'
    known = [b"/health", b"/metrics", *face.doors]
    if path in known:
        return _error(405, "method_not_allowed", "Not with this method.")
    return _error(404, "route_not_found", f"Only {', '.join(name.decode() for name in known)} are here.")


def _error(status: int, code: str, message: str) -> tuple[int, str, bytes]:
    return status, "application/json", json.dumps({"error": code, "message": message}).encode()
