"""What every HTTP entry point shares: the resolver, who calls, and how a refusal becomes an answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError, ServiceError
from aws_lambda_powertools.event_handler.openapi.exceptions import RequestValidationError

from callboard_control.actor import Actor, Daemon
from callboard_control.entrypoints import _visit
from callboard_control.entrypoints._json import read_json
from callboard_control.errors import ApiError, TooManyRequests
from callboard_control.fleet import machines
from callboard_control.identity.authenticate import authenticate
from callboard_control.resolver import Resolver
from callboard_control.store.errors import StoreError
from callboard_wire.bodies import ErrorBody

Handler = Callable[[dict[str, Any], Any], dict[str, Any]]
logger = Logger(service="callboard")
_HOST = re.compile(r"[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:[0-9]{1,5})?")


def new_app(read: Callable[[str], Any] = read_json) -> Resolver:
    """A resolver that validates bodies against their models and answers every refusal in one shape."""
    app = Resolver(enable_validation=True, json_body_deserializer=read)

    @app.exception_handler(ApiError)
    def refused(e: ApiError) -> Response[str]:
        response = answer(app, e.status, e.code, e.message, e.details)
        if isinstance(e, TooManyRequests):
            response.headers.update(_visit.refusal(e))
        return response

    @app.exception_handler(RequestValidationError)
    def invalid(e: RequestValidationError) -> Response[str]:
        problems = [_problem(p) for p in e.errors()]
        broken = any(p["type"] == "json_invalid" for p in problems)
        status, code = (400, "invalid_json") if broken else (422, "validation_failed")
        first = "; ".join(f"{p['field']}: {p['message']}" for p in problems[:3])
        return answer(app, status, code, f"The request does not fit: {first}", {"problems": problems})

    @app.exception_handler(UnicodeDecodeError)
    def not_text(_: UnicodeDecodeError) -> Response[str]:
        return answer(app, 400, "invalid_json", "The body is not UTF-8 text.")

    @app.exception_handler(StoreError)
    def unavailable(e: StoreError) -> Response[str]:
        logger.exception("store", extra={"path": app.current_event.path, "request_id": request_id(app)})
        message = "The store cannot answer now; try again in a moment. Why is logged under the request id."
        response = answer(app, 503, "unavailable", message)
        response.headers["Retry-After"] = "1"
        return response

    @app.exception_handler(NotFoundError)
    def no_route(_: NotFoundError) -> Response[str]:
        event = app.current_event
        return answer(app, 404, "route_not_found", f"There is no {event.http_method} {event.path}.")

    @app.exception_handler(ServiceError)
    def service(e: ServiceError) -> Response[str]:
        return answer(app, e.status_code, HTTPStatus(e.status_code).phrase.lower().replace(" ", "_"), str(e.msg))

    @app.exception_handler(Exception)
    def unexpected(_: Exception) -> Response[str]:
        logger.exception("unexpected", extra={"path": app.current_event.path, "request_id": request_id(app)})
        return answer(app, 500, "internal_error", "Something went wrong here. It is logged under the request id.")

    return app


def _problem(error: dict[str, Any]) -> dict[str, str]:
    """Where and what, without the input: it may be a secret."""
    if error["type"] == "json_invalid":
        return {"field": "body", "message": f"it is no JSON we read: {error['ctx']['error']}", "type": "json_invalid"}
    where = ".".join(str(part) for part in error.get("loc", ()) if part != "body") or "body"
    return {"field": where, "message": str(error.get("msg", "")), "type": str(error.get("type", ""))}


def request_id(app: Resolver) -> str:
    return app.current_event.request_context.request_id or ""


def answer(app: Resolver, status: int, code: str, message: str, details: dict[str, Any] | None = None) -> Response[str]:
    body = ErrorBody(error=code, message=message, request_id=request_id(app), details=details or {})
    return Response(
        status_code=status,
        content_type="application/json",
        body=body.model_dump_json(),
        headers={"X-Request-Id": body.request_id},
    )


def address(app: Resolver) -> str:
    """Where the current call comes from, as the front door saw it."""
    return str(app.current_event.request_context.http.source_ip or "")


def base_url(app: Resolver) -> str:
    """The address the caller reached this control plane by; "" when they sent a host that is none."""
    headers = app.current_event.headers
    host, scheme = headers.get("host", ""), headers.get("x-forwarded-proto", "https")
    return f"{scheme}://{host}" if _HOST.fullmatch(host) and scheme in ("http", "https") else ""


def guest() -> None:
    """The current call makes somebody known, so it counts for its address. Raises `TooManyRequests`."""
    _visit.guest()


def caller(app: Resolver) -> Actor:
    """The actor of the current call. Raises `Unauthenticated`, `TooManyRequests`."""
    headers = app.current_event.headers
    actor = authenticate(headers.get("authorization"), headers.get("x-workspace-id"))
    _visit.admit()
    return actor


def daemon(app: Resolver, **thing: str | None) -> Daemon:
    """The daemon of the current call, noted as alive. `thing` (daemon_id, runtime_id or task_id) says which machine a
    person's token speaks for."""
    return machines.touch(machines.daemon_for(caller(app), **thing))


def daemon_of(app: Resolver, runtime_id: str, **thing: str | None) -> Daemon:
    """As `daemon`, where the path names a runtime: it must be the caller's own."""
    return machines.own_runtime(daemon(app, runtime_id=runtime_id, **thing), runtime_id)


def as_handler(app: Resolver) -> Handler:
    """The Lambda handler of an entry point: every call of every route goes through it, and is counted on its way.

    Bodies are JSON whatever their sender calls them: `curl -d` says form for everything, and Powertools would read a
    form, or fail on a type it does not know.
    """

    def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
        visit = _visit.enter(event)
        try:
            _visit.check(visit)
        except TooManyRequests as e:
            return _turned_away(event, e)
        headers = {
            name: value for name, value in (event.get("headers") or {}).items() if name.lower() != "content-type"
        }
        token = _visit.current.set(visit)
        try:
            answered = app.resolve(event | {"headers": headers | {"content-type": "application/json"}}, context)
        finally:
            _visit.current.reset(token)
        return _visit.leave(visit, answered)

    return handler


def _turned_away(event: dict[str, Any], error: TooManyRequests) -> dict[str, Any]:
    request_id = (event.get("requestContext") or {}).get("requestId", "")
    body = ErrorBody(error=error.code, message=error.message, request_id=request_id, details=error.details)
    return {
        "statusCode": error.status,
        "headers": {"content-type": "application/json", "X-Request-Id": request_id, **_visit.refusal(error)},
        "body": body.model_dump_json(),
        "isBase64Encoded": False,
    }
