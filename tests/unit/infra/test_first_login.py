"""The first person of a deployed stack, made by whoever may write to its table."""

from __future__ import annotations

import pytest

from infra import first_login
from tests.fakes.sim_world import World


def test_the_first_person_is_made_once_and_let_back_in_whenever_asked(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(bootstrap=False)

    def made(code: int, **options: bool) -> str:
        assert first_login.make("Ann", "home", **options) == code
        return capsys.readouterr().out.strip()

    first = world.ok("GET", "/api/me", token=made(0))
    assert made(1) == "", "once for a table"
    for _ in range(2):
        assert world.ok("GET", "/api/me", token=made(0, back_in=True))["user_id"] == first["user_id"]
    assert made(1) == ""
    world.close()
