"""The entry points without a gateway: an httpx transport that calls each handler with the event its route gets."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import httpx

from callboard_control.embedded.answers import Answer, answer_of
from callboard_control.embedded.calls import Call, LocalContext
from callboard_control.embedded.events import Request, event_of
from callboard_control.embedded.routes import Function, Router
from callboard_control.entrypoints import HTTP


def http_functions() -> list[Function]:
    modules = {name: import_module(path) for name, path in HTTP.items()}
    return [Function(name, module.handler, module.app.declared()) for name, module in modules.items()]


class EntryPoints:
    """What stands behind the front door. `entered` is told the name of the function that is about to be called."""

    def __init__(self, entered: Callable[[str], None] = lambda name: None) -> None:
        self._router = Router(http_functions())
        self._entered = entered

    def answer(self, asked: Request) -> Answer:
        match = self._router.match(asked.method, asked.path)
        assert match, f"no route for {asked.method} {asked.path}"
        self._entered(match.function.name)
        call = Call(asked.request_id, match.function.timeout_s)
        return answer_of(match.function.handler(event_of(asked, match), LocalContext(match.function.name, call)))


class Handlers(httpx.BaseTransport):
    """An HTTP client's way to them."""

    def __init__(self, entered: Callable[[str], None] = lambda name: None) -> None:
        self._entry_points = EntryPoints(entered)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        asked = Request(
            method=request.method,
            raw_path=request.url.raw_path.partition(b"?")[0],
            query=request.url.query,
            headers=tuple(request.headers.raw),
            body=request.read(),
        )
        answer = self._entry_points.answer(asked)
        return httpx.Response(answer.status, headers=list(answer.headers), content=answer.body)
