"""People who sign in at an issuer of JWTs, and what forgers, clocks and rotations do to that."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from callboard_control.identity.signin import AGAIN_MS, CLIENT, LEEWAY_S
from tests.fakes.issuer import CLIENT as CLIENT_ID
from tests.fakes.issuer import Issuer, running_issuer
from tests.fakes.sim_world import Answer, Clock, World

HOUR = 3600


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Issuer]:
    with running_issuer() as issuer:
        monkeypatch.setenv("CALLBOARD_SIGNIN_ISSUER", issuer.url)
        monkeypatch.setenv(CLIENT, CLIENT_ID)
        yield issuer


Token = Callable[..., str]


@pytest.fixture
def token(issuer: Issuer, clock: Clock) -> Token:
    """A token that is right, except for what is `changed`."""
    return lambda **changed: issuer.sign(issuer.claims(clock.seconds(), **changed))


def me(world: World, token: str, **headers: str) -> Answer:
    return world.call("GET", "/api/me", token=token, headers=headers)


def test_the_first_sign_in_makes_a_person_with_a_workspace_and_the_next_finds_them(world: World, token: Token) -> None:
    first = me(world, token())
    assert (first.status, first["name"], first["role"], first["workspace_name"]) == (200, "Ann", "owner", "home")
    assert first["workspace_id"] != world.workspace_id
    assert me(world, token(name="Renamed")).body == first.body
    assert me(world, token(sub="subject-2"))["user_id"] != first["user_id"]


def test_an_access_token_speaks_for_the_same_person_as_an_id_token(world: World, token: Token) -> None:
    access = token(token_use="access", aud=None, client_id=CLIENT_ID)
    assert me(world, access)["user_id"] == me(world, token())["user_id"]


@pytest.mark.parametrize(
    "changed",
    [
        {"aud": "another-client"},
        {"aud": [CLIENT_ID, "another"]},
        {"aud": None},
        {"aud": "", "client_id": CLIENT_ID},
        {"token_use": "access"},
        {"token_use": "access", "client_id": "another-client"},
        {"token_use": "refresh"},
        {"token_use": None},
        {"iss": "http://127.0.0.1:9"},
        {"iss": None},
        {"sub": None},
        {"exp": None},
        {"iat": None},
        {"exp": True},
        {"exp": "tomorrow"},
        {"exp": 0},
        {"nbf": 9_999_999_999},
    ],
    ids=str,
)
def test_a_token_for_another_place_or_time_is_refused(world: World, token: Token, changed: dict[str, Any]) -> None:
    answer = me(world, token(**changed))
    assert (answer.status, answer.error) == (401, "unauthenticated")


@pytest.mark.parametrize("apart", [-LEEWAY_S, -1, 0, 1, LEEWAY_S])
def test_clocks_may_be_a_minute_apart(world: World, clock: Clock, issuer: Issuer, apart: int) -> None:
    theirs = issuer.claims(clock.seconds() + apart)
    assert me(world, issuer.sign({**theirs, "nbf": theirs["iat"]})).status == 200


def test_a_token_ends_a_minute_after_its_time_and_begins_a_minute_before(
    world: World, clock: Clock, token: Token
) -> None:
    now = int(clock.seconds())
    assert me(world, token(iat=now + LEEWAY_S + 1)).status == 401
    ending = token(exp=now + 10)
    clock.forward(10 + LEEWAY_S - 1)
    assert me(world, ending).status == 200
    clock.forward(1)
    assert me(world, ending).status == 401


def test_no_signature_and_the_public_key_as_a_secret_are_no_signatures(
    world: World, clock: Clock, issuer: Issuer
) -> None:
    claims = issuer.claims(clock.seconds())
    for forged in (issuer.unsigned(claims), issuer.signed_with_the_public_key(claims)):
        assert me(world, forged).status == 401
    right = issuer.sign(claims)
    head, body, signature = right.split(".")
    for broken in (
        f"{head}.{body}.",
        f"{head}.{body}.{signature[:-4]}AAAA",
        f"{head}.{body[:-2]}.{signature}",
        "a.b.c",
    ):
        assert me(world, broken).status == 401
    assert me(world, right).status == 200


def test_another_issuers_key_under_a_known_id_is_refused(world: World, clock: Clock, issuer: Issuer) -> None:
    with running_issuer("somebody else's") as other:
        assert me(world, other.sign(issuer.claims(clock.seconds()), key_id="k1")).status == 401


def test_unknown_key_ids_do_not_make_us_ask_the_issuer_again_and_again(
    world: World, clock: Clock, issuer: Issuer, token: Token
) -> None:
    assert me(world, token()).status == 200
    forged = [issuer.sign(issuer.claims(clock.seconds()), key_id=f"x{n}") for n in range(20)]
    assert {me(world, one).status for one in forged} == {401}
    assert issuer.asked == 1
    clock.forward(AGAIN_MS / 1000)
    assert {me(world, one).status for one in forged} == {401}
    assert issuer.asked == 2


def test_a_rotated_key_is_found_within_a_minute(world: World, clock: Clock, issuer: Issuer, token: Token) -> None:
    old = token()
    assert me(world, old).status == 200
    issuer.rotate("k2")
    clock.forward(AGAIN_MS / 1000)
    assert me(world, token()).status == 200
    assert me(world, old).status == 401, "what the issuer has withdrawn is good no more"


def test_an_issuer_that_is_down_is_an_outage_and_no_refusal(world: World, clock: Clock, issuer: Issuer) -> None:
    issuer.down = True
    answer = me(world, issuer.sign(issuer.claims(clock.seconds())))
    assert (answer.status, answer.error) == (503, "unavailable")
    issuer.down = False
    clock.forward(5)
    assert me(world, issuer.sign(issuer.claims(clock.seconds()))).status == 200
    issuer.down = True
    clock.forward(5 * HOUR)
    assert me(world, issuer.sign(issuer.claims(clock.seconds()))).status == 200, "known keys outlast an outage"


@pytest.mark.parametrize(
    ("verified", "kept"), [(True, True), ("true", True), (False, False), ("false", False), (None, False)]
)
def test_an_address_is_kept_only_when_it_is_verified_and_decides_nothing(
    world: World, token: Token, verified: Any, kept: bool
) -> None:
    me(world, token(email_verified=verified))
    rows = repr(world.engine.execute("Scan", {"TableName": "callboard"})["Items"])
    assert ("ann@example.com" in rows) is kept
    other = me(world, token(sub="another", email_verified=True))
    assert other["user_id"] != me(world, token())["user_id"]


def test_who_has_signed_in_makes_a_token_joins_by_invitation_and_is_confined(world: World, token: Token) -> None:
    signed = token(name="Bob\u202eevil\n")
    mine = me(world, signed)
    made = world.ok("POST", "/api/tokens", {"name": "laptop"}, signed)
    assert world.ok("GET", "/api/me", token=made["token"])["user_id"] == mine["user_id"]
    assert mine["name"].isprintable()
    there = {"x-workspace-id": world.workspace_id}
    assert me(world, signed, **there).status == 404
    code = world.ok("POST", "/api/invitations", {})["code"]
    assert world.ok("POST", "/api/invitations/accept", {"code": code}, signed)["workspace_id"] == world.workspace_id
    assert me(world, signed, **there)["role"] == "member"


def test_who_was_taken_out_of_their_own_workspace_does_not_come_back_by_signing_in(world: World, token: Token) -> None:
    signed = token()
    user_id = me(world, signed)["user_id"]
    code = world.ok("POST", "/api/invitations", {}, signed)["code"]
    heir = world.ok("POST", "/api/invitations/accept", {"code": code, "name": "Heir"}, "")
    world.ok("PATCH", f"/api/members/{heir['user_id']}", {"role": "owner"}, signed)
    world.ok("DELETE", f"/api/members/{user_id}", token=heir["token"])
    assert me(world, signed).status == 404


def test_without_an_issuer_a_jwt_is_nothing(world: World, token: Token, monkeypatch: pytest.MonkeyPatch) -> None:
    signed = token()
    monkeypatch.delenv("CALLBOARD_SIGNIN_ISSUER")
    assert me(world, signed).status == 401


def test_only_a_jwt_that_is_shown_makes_a_function_import_what_verifies_it() -> None:
    """With what they import, PyJWT and cryptography would add a third to every cold start."""
    code = (
        "import sys, callboard_control.entrypoints.identity, callboard_control.entrypoints.claim\n"
        "print([m for m in ('jwt', 'cryptography', 'callboard_control.identity.signin') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True)
    assert shown.stdout.splitlines()[-1] == "[]"
