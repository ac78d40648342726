"""The front door: an ASGI application that does for one machine what API Gateway does for the cloud.

A request becomes a true HTTP-API-v2 event, the function that owns its route is called with it in a thread, and what it
returns becomes the answer. No CORS: the API is for programs with a token, not for pages of other origins.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import replace
from typing import Any

from callboard_control.embedded.answers import Answer, MalformedAnswer, answer_of, error
from callboard_control.embedded.calls import Call, LocalContext, current_call
from callboard_control.embedded.events import Request, event_of
from callboard_control.embedded.lanes import Lane, LaneFull
from callboard_control.embedded.metrics import CONTENT_TYPE, Metrics
from callboard_control.embedded.routes import GATEWAY_TIMEOUT_S, Function, Match, Router

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MAX_BODY_BYTES = 10 * 1024 * 1024
"""HTTP APIs' limit."""
MAX_DISCARDED_BYTES = 64 * 1024 * 1024
"""A body that is too large is read to its end up to here, so that its sender, still writing, gets to read the 413."""
OWN = frozenset({"GET /health", "GET /metrics", "GET /readyz"})
"""What the gateway answers itself, without a token."""
HURRIED_S = 5.0
"""What a held call is given when there is no room to hold it: too little to wait, enough to claim what is there."""

log = logging.getLogger("callboard.gateway")


class Front:
    """Serves `functions`. `ready` raises while the store does not answer."""

    def __init__(
        self,
        functions: Iterable[Function],
        *,
        ready: Callable[[], None] = lambda: None,
        metrics: Metrics | None = None,
        held_threads: int = 512,
        threads: int = 16,
    ) -> None:
        self._router = Router(functions)
        self._ready = ready
        self.metrics = metrics or Metrics()
        self.held = Lane("held", held_threads)
        self.lane = Lane("calls", threads, backlog=1024)
        self.metrics.gauge(
            "calls_running",
            "Handlers running now, by lane; held are the long polls.",
            lambda: {(("lane", lane.name),): float(lane.busy) for lane in (self.held, self.lane)},
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.monotonic()
        request = _request(scope)
        match = self._router.match(request.method, request.path)
        try:
            answer = await self._answer(request, match, scope, receive)
        except _HungUp:
            return
        own = f"{request.method} {request.path}"
        route = match.route_key if match else own if own in OWN else "none"
        self.metrics.request(route, answer.status, time.monotonic() - began)
        await _send(send, answer, request.request_id)

    async def _answer(self, request: Request, match: Match | None, scope: Scope, receive: Receive) -> Answer:
        body = await _read(scope, receive)
        if body is None:
            message = f"A request body may have {MAX_BODY_BYTES} bytes at most."
            return error(413, "body_too_large", message, request.request_id, {"limit_bytes": MAX_BODY_BYTES})
        if match is None:
            return await self._own(request)
        return await self._invoke(request, match, body, receive)

    async def _own(self, request: Request) -> Answer:
        """What the gateway answers itself."""
        match f"{request.method} {request.path}":
            case "GET /health":
                return _plain(200, json.dumps({"status": "ok"}), "application/json")
            case "GET /metrics":
                return _plain(200, self.metrics.text(), CONTENT_TYPE)
            case "GET /readyz":
                return await self._readiness(request)
        methods = self._router.methods(request.path)
        hint = f"; it answers {', '.join(methods)}" if methods else ""
        message = f"There is no {request.method} {request.path}{hint}."
        return error(404, "not_found", message, request.request_id, {"methods": methods} if methods else None)

    async def _readiness(self, request: Request) -> Answer:
        try:
            await asyncio.wrap_future(self.lane.submit(self._ready))
        except Exception:  # whatever the store raises, the answer is the same: not ready
            log.exception("the store does not answer")
            return error(503, "not_ready", "The store does not answer.", request.request_id)
        return _plain(200, json.dumps({"status": "ready"}), "application/json")

    async def _invoke(self, request: Request, match: Match, body: bytes, receive: Receive) -> Answer:
        event = event_of(replace(request, body=body), match)
        try:
            call, future = self._start(match.function, event, request.request_id)
        except LaneFull:
            busy = error(503, "busy", "Too many requests wait already; try again in a second.", request.request_id)
            return replace(busy, headers=(*busy.headers, ("retry-after", "1")))
        watch = asyncio.create_task(_watch(receive, call)) if match.function.held else None
        try:
            answered, _ = await asyncio.wait({future}, timeout=GATEWAY_TIMEOUT_S)
        finally:
            if watch:
                watch.cancel()
        if not answered:
            future.add_done_callback(_forget)
            log.error("%s ran longer than %.0f s (request %s)", match.route_key, GATEWAY_TIMEOUT_S, request.request_id)
            return error(503, "timeout", "Service Unavailable", request.request_id)
        return _answered(future, match, request.request_id)

    def _start(self, function: Function, event: dict[str, Any], request_id: str) -> tuple[Call, asyncio.Future[Any]]:
        """Hand the call to a thread. A held one that finds its lane full is hurried through the other one."""
        call = Call(request_id, function.timeout_s)
        if function.held:
            try:
                return call, asyncio.wrap_future(self.held.submit(_runner(function, event, call)))
            except LaneFull:
                call = Call(request_id, HURRIED_S)
        return call, asyncio.wrap_future(self.lane.submit(_runner(function, event, call)))


class _HungUp(Exception):
    """The client closed the connection before its request was complete: nobody is left to answer."""


def _runner(function: Function, event: dict[str, Any], call: Call) -> Callable[[], Any]:
    def run() -> Any:
        current_call.set(call)
        return function.handler(event, LocalContext(f"callboard-{function.name}", call))

    return run


def _answered(future: asyncio.Future[Any], match: Match, request_id: str) -> Answer:
    try:
        return answer_of(future.result())
    except MalformedAnswer as wrong:
        log.error("%s returned no valid answer (request %s): %s", match.route_key, request_id, wrong)
    except Exception:  # any failure of a handler is this answer: says nothing outside, everything in the log
        log.exception("%s failed (request %s)", match.route_key, request_id)
    return error(500, "internal_error", "Internal Server Error", request_id)


def _forget(future: asyncio.Future[Any]) -> None:
    """Take the exception of a call that nobody waits for any more; asyncio would report it as never retrieved."""
    if not future.cancelled():
        future.exception()


def _request(scope: Scope) -> Request:
    client = scope.get("client") or ("", 0)
    server = scope.get("server") or ("", 80)
    return Request(
        method=scope["method"],
        raw_path=scope.get("raw_path") or scope["path"].encode(),
        query=scope.get("query_string", b""),
        headers=tuple((bytes(name), bytes(value)) for name, value in scope["headers"]),
        client=client[0],
        http_version=scope.get("http_version", "1.1"),
        port=server[1] or 80,
    )


async def _read(scope: Scope, receive: Receive) -> bytes | None:
    """The whole body; None when it is over the limit."""
    parts: list[bytes] = []
    size = 0
    more = True
    while more and size <= MAX_DISCARDED_BYTES:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _HungUp
        part = message.get("body", b"")
        size += len(part)
        if size <= MAX_BODY_BYTES:
            parts.append(part)
        more = message.get("more_body", False)
    return b"".join(parts) if size <= MAX_BODY_BYTES else None


async def _watch(receive: Receive, call: Call) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    call.abandon()


def _plain(status: int, text: str, content_type: str) -> Answer:
    return Answer(status, (("content-type", content_type),), text.encode())


async def _send(send: Send, answer: Answer, request_id: str) -> None:
    headers = [
        (name.encode("latin-1", "replace"), value.encode("latin-1", "replace"))
        for name, value in (*answer.headers, ("apigw-requestid", request_id))
    ]
    if answer.status not in (204, 304):  # these have neither body nor length
        headers.append((b"content-length", str(len(answer.body)).encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
