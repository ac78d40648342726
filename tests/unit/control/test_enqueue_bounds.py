"""What a task may ask for at the ends of what can be asked: refused with a sentence, or kept and shown; never a task
that breaks the lists it is in."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.sim_world import Machine, World

pytestmark = pytest.mark.usefixtures("machine")

ENDS = [
    {"fire_at": "9999-12-31T23:59:59.9999999Z"},
    {"fire_at": "9999-12-31T23:59:59-14:00"},
    {"fire_at": "9998-12-31T23:59:59.9999999-23:59"},
    {"fire_at": "0001-01-01T00:00:00+14:00"},
    {"fire_at": "0002-01-01T00:00:00+23:59"},
    {"fire_at": 1e308},
    {"fire_at": -99999999999},
    {"timeout_s": 5e-324},
    {"timeout_s": 1e300},
    {"timeout_s": 1e125},
    {"timeout_s": 0.1 + 0.2},
    {"timeout_s": 9_999_999_999},
]


@pytest.mark.parametrize("asked", ENDS, ids=repr)
def test_what_is_asked_at_the_ends_is_refused_or_kept_and_never_breaks_a_list(
    world: World, asked: dict[str, Any]
) -> None:
    answer = world.call("POST", "/api/tasks", {"agent": "ada", "prompt": "x", **asked})
    assert answer.status in (201, 422), answer
    tasks = world.ok("GET", "/api/tasks")["items"]
    assert len(tasks) == (answer.status == 201)
    for task in tasks:
        world.ok("GET", f"/api/tasks/{task['id']}")
    assert world.ok("GET", "/api/doctor")["offences"] == []


def test_the_same_moment_in_another_zone_is_the_same_body(world: World) -> None:
    body = {"agent": "ada", "prompt": "x", "idempotency_key": "k"}
    first = world.ok("POST", "/api/tasks", {**body, "fire_at": "2030-01-01T00:00:00Z"})
    again = world.call("POST", "/api/tasks", {**body, "fire_at": "2030-01-01T01:00:00+01:00"})
    assert (again.status, again["id"]) == (200, first["id"])


def test_an_idempotency_key_is_its_agents_own(world: World, machine: Machine) -> None:
    world.agent("bob", machine)
    ids = {
        world.ok("POST", "/api/tasks", {"agent": who, "prompt": "x", "idempotency_key": "k"})["id"]
        for who in ("ada", "bob", "ADA", "bob")
    }
    assert len(ids) == 2
