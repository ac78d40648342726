"""Rate limits: exact where it matters, free where it does not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from callboard_control.embedded.engine.faults import Fault
from callboard_control.entrypoints import load
from callboard_control.errors import TooManyRequests
from callboard_control.identity import limits
from callboard_control.identity.limits import Limiter, Rate, Rates
from callboard_control.store import table
from tests.fakes.http_events import http_event
from tests.fakes.sim_world import Clock, World

MINUTE = 60


def rates(token: int = 1000, address: int = 1000, login: int = 1000) -> Rates:
    return Rates(Rate("token", token), Rate("address", address), Rate("login", login))


@pytest.fixture(autouse=True)
def _the_usual_limits_afterwards() -> Iterator[None]:
    yield
    limits.use(None)


class Store:
    """Stands in the engine's way: notes what is asked of it, and takes no writes while `down`."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.down = False

    def fault(self, operation: str, request: Mapping[str, Any]) -> Fault | None:
        self.asked.append(operation)
        return Fault.UNAVAILABLE if self.down and operation == "UpdateItem" else None

    def wrote(self, table: str, index: str) -> None:
        pass

    def index_lag(self, table: str, index: str, ages: Sequence[float]) -> int:
        return 0


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def world(clock: Clock, store: Store) -> Iterator[World]:
    world = World(clock=clock, faults=store)
    yield world
    world.close()
    table.reconnect()


@contextmanager
def calls_of(store: Store) -> Iterator[list[str]]:
    """The operations that reach the store meanwhile."""
    store.asked = []
    yield store.asked
    store.asked = []


def passed(limiter: Limiter, rate: Rate, calls: int, whom: str = "x") -> int:
    done = 0
    for _ in range(calls):
        try:
            limiter.count(rate, whom)
            done += 1
        except TooManyRequests:
            pass
    return done


def test_far_from_the_limit_the_store_is_not_asked(world: World, store: Store) -> None:
    limiter = Limiter(rates(token=1000))
    with calls_of(store) as calls:
        assert passed(limiter, limiter.rates.token, 49) == 49
        assert calls == []
        limiter.count(limiter.rates.token, "x")
        assert calls == ["UpdateItem"], "one write for a step of a twentieth"


def test_a_route_costs_the_same_store_calls_with_limits_as_without(world: World, store: Store) -> None:
    costs = []
    for one in (rates(0, 0, 0), rates()):
        limits.use(Limiter(one))
        world.ok("GET", "/api/me")
        with calls_of(store) as calls:
            world.ok("GET", "/api/agents")
        costs.append(calls)
    assert costs[0] == costs[1]


@pytest.mark.parametrize(("limit", "processes"), [(1, 3), (10, 4), (39, 5)])
def test_a_small_limit_is_exact_over_all_processes(world: World, limit: int, processes: int) -> None:
    rate = Rate("login", limit)
    fleet = [Limiter(rates()) for _ in range(processes)]
    done = sum(passed(limiter, rate, 1) for _ in range(limit) for limiter in fleet)
    assert done == limit


def test_beyond_a_large_limit_at_most_a_step_a_process_is_let_through(world: World) -> None:
    rate = Rate("token", 1000)
    fleet = [Limiter(rates()) for _ in range(4)]
    done = sum(passed(limiter, rate, 1) for _ in range(1000) for limiter in fleet)
    assert 1000 <= done <= 1000 + 4 * 50


def test_whoever_is_beyond_the_limit_is_refused_from_memory_until_the_window_ends(
    world: World, clock: Clock, store: Store
) -> None:
    limiter = Limiter(rates())
    rate = Rate("login", 3)
    assert passed(limiter, rate, 5) == 3
    with calls_of(store) as calls:
        assert passed(limiter, rate, 100) == 0
    assert calls == []
    assert passed(limiter, rate, 1, whom="another") == 1
    clock.forward(MINUTE)
    assert passed(limiter, rate, 5) == 3


def test_an_outage_of_the_store_refuses_nobody_and_the_process_still_counts(world: World, store: Store) -> None:
    store.down = True
    limiter = Limiter(rates())
    assert passed(limiter, Rate("login", 3), 5) == 3


def test_an_event_without_headers_is_a_call_by_nobody(world: World) -> None:
    event = {**http_event("GET", "/api/me"), "headers": None}
    answer = load("identity").handler(event, None)
    assert (answer["statusCode"], json.loads(answer["body"])["error"]) == (401, "unauthenticated")


def test_a_refusal_says_how_long_to_wait_in_body_and_headers(world: World) -> None:
    limits.use(Limiter(rates(token=2)))
    assert [world.call("GET", "/api/me").status for _ in range(3)] == [200, 200, 429]
    answer = world.raw("GET", "/api/me")
    assert answer["statusCode"] == 429
    wait = int(answer["headers"]["Retry-After"])
    assert 1 <= wait <= 60
    sent = {name: value for name, value in answer["headers"].items() if name.startswith("RateLimit")}
    assert sent == {"RateLimit-Limit": "2", "RateLimit-Remaining": "0", "RateLimit-Reset": str(wait)}
    refused = world.call("GET", "/api/me")
    assert refused.error == "too_many_requests"
    assert refused["details"] == {"rate": "token", "limit": 2, "retry_after_s": wait}
    assert set(refused.body) == {"error", "message", "request_id", "details"}


def test_every_answer_says_where_its_token_stands(world: World) -> None:
    limits.use(Limiter(rates(token=1000)))
    left = [world.raw("GET", "/api/me")["headers"]["RateLimit-Remaining"] for _ in range(2)]
    assert left == ["999", "998"]


def test_tokens_have_a_limit_each(world: World) -> None:
    limits.use(Limiter(rates(token=2)))
    other = world.ok("POST", "/api/tokens", {"name": "ci"})["token"]
    assert world.call("GET", "/api/me").status == 200
    assert world.call("GET", "/api/me").status == 429
    assert world.call("GET", "/api/me", token=other).status == 200


@pytest.mark.parametrize("written", ["bearer {}", "Bearer  {}", "BEARER {} ", "  Bearer {}"])
def test_a_token_is_one_however_its_header_is_written(world: World, written: str) -> None:
    limits.use(Limiter(rates(token=2)))
    assert [world.call("GET", "/api/me").status for _ in range(3)] == [200, 200, 429]
    other_way = {"authorization": written.format(world.token)}
    assert world.call("GET", "/api/me", token="", headers=other_way).status == 429


def test_bad_tokens_shut_their_address_out_before_anything_is_read_but_not_who_was_let_in(
    world: World, store: Store
) -> None:
    limits.use(Limiter(rates(address=5)))
    assert world.call("GET", "/api/me").status == 200
    for n in range(5):
        assert world.call("GET", "/api/me", token=f"mul_{n}_" + "0" * 40).status == 401
    with calls_of(store) as calls:
        assert world.call("GET", "/api/me", token="mul_5_" + "0" * 40).status == 429
        assert world.call("GET", "/api/me", token="").status == 429
    assert calls == []
    assert world.call("GET", "/api/me").status == 200


def test_bodies_that_do_not_fit_count_for_the_address_too(world: World) -> None:
    limits.use(Limiter(rates(address=3)))
    assert [world.call("POST", "/api/bootstrap", "{", "").status for _ in range(4)] == [400, 400, 400, 429]


def test_an_ipv6_caller_has_one_limit_for_all_its_addresses(world: World) -> None:
    limits.use(Limiter(rates(address=2)))
    seen = [world.raw("GET", "/api/me", token="", address=f"2001:db8::{n}")["statusCode"] for n in range(4)]
    assert seen == [401, 401, 429, 429]
    assert world.raw("GET", "/api/me", token="", address="2001:db8:1::1")["statusCode"] == 401


def test_an_ipv4_caller_at_a_door_for_both_is_still_one(world: World) -> None:
    limits.use(Limiter(rates(address=1)))
    seen = [world.raw("GET", "/api/me", token="", address=f"::ffff:10.0.0.{n}")["statusCode"] for n in (1, 1, 2)]
    assert seen == [401, 429, 401]


def test_made_up_tokens_push_nobodys_count_out_of_the_memory(world: World) -> None:
    limiter = Limiter(rates())
    passed(limiter, Rate("login", 3), 3)
    for n in range(limits.REMEMBERED + 50):
        limiter.check(limiter.rates.token, str(n))
    assert passed(limiter, Rate("login", 3), 1) == 0


def test_a_flood_of_callers_does_not_fill_the_memory(world: World) -> None:
    limiter = Limiter(rates())
    for n in range(limits.REMEMBERED + 50):
        limiter.count(Rate("address", 1000), str(n))
        limiter.remember(str(n))
    assert limiter.remembers(str(limits.REMEMBERED + 49))
    assert not limiter.remembers("0")


@pytest.mark.parametrize(("text", "limit"), [("", 6000), ("0", 0), (" 50 ", 50)])
def test_limits_are_set_by_the_environment(monkeypatch: pytest.MonkeyPatch, text: str, limit: int) -> None:
    monkeypatch.setenv("CALLBOARD_RATE_TOKEN", text)
    assert Rates.from_environment().token.limit == limit


@pytest.mark.parametrize("text", ["-1", "many", "1e3", "1" * 10, "٣"])
def test_a_limit_that_is_no_number_is_named(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("CALLBOARD_RATE_LOGIN", text)
    with pytest.raises(ValueError, match=re.escape("CALLBOARD_RATE_LOGIN")):
        Rates.from_environment()
