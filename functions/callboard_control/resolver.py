"""Powertools' HTTP resolver, made safe to call from many threads at once.

In Lambda a process serves one request at a time, and Powertools leans on that: `current_event` and `lambda_context` are
attributes of a *class* shared by every resolver of the process, `context` is one dict an instance, and a route's chain
of middlewares is built without a lock on its first call. In the gateway's threads one request would read another's
`Authorization` header (seen: 64 of 64 concurrent requests), and a route first called twice at once would run its
middlewares twice for as long as the process lives. Here each call has its own state, and chains are built under a lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver

if TYPE_CHECKING:
    from aws_lambda_powertools.event_handler.api_gateway import ResponseBuilder, Route
    from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEventV2
    from aws_lambda_powertools.utilities.data_classes.common import BaseProxyEvent
    from aws_lambda_powertools.utilities.typing import LambdaContext


@dataclass(slots=True)
class _State:
    event: Any = None
    lambda_context: Any = None
    context: dict[str, Any] = field(default_factory=dict)
    frames: list[str] = field(default_factory=list)


class Resolver(APIGatewayHttpResolver):
    """`APIGatewayHttpResolver` with the same face: declare routes on it, read `current_event` in them."""

    def __init__(self, **options: Any) -> None:
        self._outside = _State()  # what is read and set outside any call
        self._calls: ContextVar[_State | None] = ContextVar("callboard_call", default=None)
        self._building = Lock()
        super().__init__(**options)

    def declared(self) -> frozenset[tuple[str, str]]:
        """The routes declared on it, as API Gateway writes them: ``("GET", "/api/tasks/{task_id}")``."""
        routes = self._static_routes + self._dynamic_routes
        return frozenset((route.method, route.openapi_path) for route in routes)

    def resolve(self, event: Mapping[str, Any], context: LambdaContext) -> dict[str, Any]:
        proxied = self._to_proxy_event(dict(event))
        token = self._calls.set(_State(proxied, context, dict(self._outside.context)))
        try:
            return super().resolve(event, context)
        finally:
            self._calls.reset(token)

    def _call_route(self, route: Route, route_arguments: dict[str, str]) -> ResponseBuilder[Any]:
        if not route._middleware_stack_built:
            with self._building:
                if not route._middleware_stack_built:
                    route._build_middleware_stack(router_middlewares=self._router_middlewares, app=self)
        return super()._call_route(route, route_arguments)

    @property
    def _state(self) -> _State:
        return self._calls.get() or self._outside

    # Powertools declares these four as attributes; as properties they keep its face and each call its own values.
    @property
    def current_event(self) -> APIGatewayProxyEventV2:
        return self._state.event  # type: ignore[no-any-return]

    @current_event.setter
    def current_event(self, value: BaseProxyEvent) -> None:
        self._state.event = value

    @property
    def lambda_context(self) -> LambdaContext:
        return self._state.lambda_context  # type: ignore[no-any-return]

    @lambda_context.setter
    def lambda_context(self, value: LambdaContext) -> None:
        self._state.lambda_context = value

    @property
    def context(self) -> dict[str, Any]:
        return self._state.context

    @context.setter
    def context(self, value: dict[str, Any]) -> None:
        self._state.context = value

    @property
    def processed_stack_frames(self) -> list[str]:
        return self._state.frames

    @processed_stack_frames.setter
    def processed_stack_frames(self, value: list[str]) -> None:
        self._state.frames = value
