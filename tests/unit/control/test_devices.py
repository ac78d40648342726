"""Logging in by a code: one answer, one token, and no way to guess."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from callboard_control.identity import devices, limits
from callboard_control.identity.limits import Limiter, Rates
from callboard_control.store import table
from tests.fakes.meanwhile import Meanwhile
from tests.fakes.sim_world import Answer, Clock, World


def start(world: World, name: str = "laptop") -> dict[str, Any]:
    return dict(world.ok("POST", "/api/device/code", {"client_name": name}, ""))


def poll(world: World, started: dict[str, Any]) -> Answer:
    return world.call("POST", "/api/device/token", {"device_code": started["device_code"]}, "")


def decide(world: World, started: dict[str, Any], **more: Any) -> Answer:
    return world.call("POST", "/api/device/decide", {"user_code": started["user_code"], **more})


@pytest.fixture
def limited() -> Iterator[None]:
    limits.use(Limiter(Rates()))
    yield
    limits.use(None)


def test_a_machine_that_is_let_in_gets_a_token_that_is_the_persons_own(world: World) -> None:
    started = start(world)
    assert poll(world, started).error == "authorization_pending"
    asking = world.ok("POST", "/api/device/lookup", {"user_code": started["user_code"]})
    assert (asking["client_name"], asking["address"]) == ("laptop", "127.0.0.1")
    assert decide(world, started).status == 200
    got = poll(world, started)
    assert (got.status, got["token_type"], got["workspace_id"]) == (200, "Bearer", world.workspace_id)
    assert world.ok("GET", "/api/me", token=got["access_token"])["user_id"] == world.me["user_id"]
    assert "laptop" in [t["name"] for t in world.ok("GET", "/api/tokens")["items"]]


def test_a_device_code_gives_one_token_and_a_user_code_takes_one_answer(world: World) -> None:
    started = start(world)
    assert decide(world, started).status == 200
    assert decide(world, started).error == "user_code_not_found"
    assert poll(world, started).status == 200
    assert (poll(world, started).status, poll(world, started).error) == (400, "expired_token")


def test_a_refused_machine_is_told_so(world: World) -> None:
    started = start(world)
    decide(world, started, approve=False)
    assert (poll(world, started).status, poll(world, started).error) == (400, "expired_token")


def test_a_refusal_is_told_once_and_then_the_code_is_gone(world: World) -> None:
    started = start(world)
    decide(world, started, approve=False)
    assert poll(world, started).error == "access_denied"
    assert poll(world, started).error == "expired_token"


def test_codes_are_over_after_a_quarter_of_an_hour_approved_or_not(world: World, clock: Clock) -> None:
    first, second = start(world), start(world)
    decide(world, second)
    clock.forward(devices.EXPIRES_S)
    assert decide(world, first).error == "user_code_not_found"
    assert {poll(world, first).error, poll(world, second).error} == {"expired_token"}


def test_who_polls_too_often_is_slowed_down_and_who_does_not_is_not(world: World, clock: Clock) -> None:
    started = start(world)
    said = []
    for pause in (0, 5, 5, 1, 5, 10, 10):
        clock.forward(pause)
        said.append(poll(world, started).error)
    pending, slow = "authorization_pending", "slow_down"
    assert said == [pending, pending, pending, slow, slow, slow, slow]
    assert poll(world, started)["details"]["interval"] > devices.INTERVAL_S
    clock.forward(devices.SLOWEST_S)
    assert poll(world, started).error == pending


@pytest.mark.parametrize("typed", [str.lower, lambda c: c.replace("-", ""), lambda c: f" {c[:2]} {c[2:]}\n"])
def test_a_user_code_is_read_however_it_is_typed(world: World, typed: Any) -> None:
    started = start(world)
    assert world.call("POST", "/api/device/decide", {"user_code": typed(started["user_code"])}).status == 200


@pytest.mark.usefixtures("limited")
def test_guessing_user_codes_ends_after_ten_and_the_right_one_is_refused_then_too(world: World, clock: Clock) -> None:
    started = start(world)
    seen = [world.call("POST", "/api/device/lookup", {"user_code": f"WRONG{n}"}).status for n in range(12)]
    assert seen == [404] * 10 + [429] * 2
    assert decide(world, started).status == 429
    clock.forward(60)
    assert decide(world, started).status == 200


@pytest.mark.usefixtures("limited")
def test_an_address_begins_only_so_many_logins_a_minute(world: World) -> None:
    """The first login of all was the first of its minute's sixty."""
    seen = [world.call("POST", "/api/device/code", {}, "").status for _ in range(61)]
    assert seen == [200] * 59 + [429] * 2


def test_neither_code_is_in_the_table(world: World) -> None:
    started = start(world)
    rows = repr(world.engine.execute("Scan", {"TableName": "callboard"})["Items"])
    assert "laptop" in rows
    for code in (started["device_code"], started["user_code"], started["user_code"].replace("-", "")):
        assert code not in rows


def test_who_has_left_the_workspace_since_lets_nobody_in(world: World) -> None:
    code = world.ok("POST", "/api/invitations", {})["code"]
    guest = world.ok("POST", "/api/invitations/accept", {"code": code, "name": "Bob"}, "")
    started = start(world)
    world.ok("POST", "/api/device/decide", {"user_code": started["user_code"]}, guest["token"])
    world.ok("DELETE", f"/api/members/{guest['user_id']}")
    assert poll(world, started).error == "access_denied"


def test_the_token_of_a_login_by_code_ends_after_ninety_days(world: World, clock: Clock) -> None:
    started = start(world)
    decide(world, started)
    token = poll(world, started)["access_token"]
    clock.forward(89 * 24 * 3600)
    assert world.ok("POST", "/api/tokens/current/renew", token=token)["renewed"]
    clock.forward(89 * 24 * 3600)
    assert world.call("GET", "/api/me", token=token).status == 200
    clock.forward(2 * 24 * 3600)
    assert world.call("GET", "/api/me", token=token).status == 401


def test_who_let_whom_in_is_in_the_audit_log(world: World) -> None:
    started = start(world, "box 7")
    decide(world, started)
    poll(world, started)
    rows = world.ok("GET", "/api/audit")["items"]
    assert [(r["action"], r["thing"].split(":")[0]) for r in rows[:2]] == [
        ("token_created", "token"),
        ("login_approved", "device"),
    ]
    assert rows[0]["details"] == {"name": "box 7", "by": "device code"}


def test_where_nobody_has_logged_in_a_login_by_code_says_what_to_do_first() -> None:
    world = World(bootstrap=False)
    answer = world.call("POST", "/api/device/code", {}, "")
    assert (answer.status, answer.error) == (409, "nobody_here")
    world.close()


@pytest.mark.parametrize("host", ['evil"><script>', "a b", "x/y", ""])
def test_an_odd_host_header_is_not_repeated(world: World, host: str) -> None:
    started = world.ok("POST", "/api/device/code", {}, "", headers={"host": host})
    assert started["verification_uri"] == "/device"


def test_the_page_runs_and_repeats_nothing(world: World) -> None:
    answer = world.raw("GET", "/device", token="", query={"user_code": "<script>alert(1)</script>"})
    assert answer["statusCode"] == 200
    assert "script" not in answer["body"]
    assert "default-src 'none'" in answer["headers"]["Content-Security-Policy"]


def test_two_polls_at_once_get_one_token(clock: Clock) -> None:
    """The second finds the code deleted by the very transaction that made the first one's token."""
    meanwhile = Meanwhile()
    world = World(clock=clock, faults=meanwhile)
    started = start(world)
    decide(world, started)
    answers: list[Answer] = []
    meanwhile.before("TransactWriteItems", lambda: answers.append(poll(world, started)))
    answers.append(poll(world, started))
    assert sorted(answer.status for answer in answers) == [200, 400]
    world.close()
    table.reconnect()
