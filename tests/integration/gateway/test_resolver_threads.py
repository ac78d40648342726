"""The resolver under threads: each call reads its own request, and middlewares run once."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response

from callboard_control.resolver import Resolver
from tests.fakes.http_events import http_event

ROUNDS = 64


def app_of(resolver: type[APIGatewayHttpResolver], passed: list[str]) -> APIGatewayHttpResolver:
    app = resolver(enable_validation=True)

    def authenticate(app: Any, next_middleware: Callable[[Any], Response[Any]]) -> Response[Any]:
        app.append_context(actor=app.current_event.headers["authorization"])
        passed.append(app.context["actor"])
        return next_middleware(app)

    app.use(middlewares=[authenticate])

    @app.get("/api/things/<thing_id>")
    def get_thing(thing_id: str) -> dict[str, str]:
        time.sleep(0.005)  # the route waits for its store, as every real one does
        return {"thing": thing_id, "header": app.current_event.headers["authorization"], "actor": app.context["actor"]}

    return app


def race(app: APIGatewayHttpResolver) -> list[dict[str, str]]:
    gate = threading.Barrier(ROUNDS)

    def call(number: int) -> dict[str, str]:
        event = http_event("GET", f"/api/things/t{number}", headers={"authorization": f"Bearer {number}"})
        gate.wait()
        answer = app.resolve(event, None)  # type: ignore[arg-type]
        assert answer["statusCode"] == 200, answer
        return dict(json.loads(answer["body"]))

    with ThreadPoolExecutor(ROUNDS) as pool:
        return list(pool.map(call, range(ROUNDS)))


def test_concurrent_calls_read_their_own_headers_and_context() -> None:
    answers = race(app_of(Resolver, []))
    expected = [{"thing": f"t{n}", "header": f"Bearer {n}", "actor": f"Bearer {n}"} for n in range(ROUNDS)]
    assert answers == expected


@pytest.mark.parametrize("attempt", range(5))
def test_a_route_first_called_many_times_at_once_runs_its_middlewares_once_a_call(attempt: int) -> None:
    passed: list[str] = []
    race(app_of(Resolver, passed))
    assert sorted(passed) == sorted(f"Bearer {n}" for n in range(ROUNDS))


def test_context_set_outside_a_call_is_seen_inside_and_survives_it() -> None:
    app = Resolver()
    app.append_context(greeting="hello")

    @app.get("/greet")
    def greet() -> dict[str, str]:
        return {"greeting": app.context["greeting"]}

    for _ in range(2):
        answer = app.resolve(http_event("GET", "/greet"), None)  # type: ignore[arg-type]
        assert json.loads(answer["body"]) == {"greeting": "hello"}
