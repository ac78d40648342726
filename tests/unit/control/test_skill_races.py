"""What happens to a skill's parts when things meet, or break off in the middle: what is in force is always whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from callboard_control.embedded.engine.faults import Fault
from tests.fakes.meanwhile import Meanwhile
from tests.fakes.sim_world import World
from tests.unit.control.test_skills import HEAD, claimed, give, make, parts_of, resolve, whole

BY_NAME = {"x-client-capabilities": "skill-bundles-v1"}


@pytest.fixture
def meanwhile() -> Meanwhile:
    return Meanwhile()


@pytest.fixture
def world(meanwhile: Meanwhile) -> Iterator[World]:
    world = World(faults=meanwhile)
    yield world
    world.close()


def put(world: World, skill: Any, text: str) -> Any:
    return world.call("PUT", f"/api/skills/{skill['id']}", {"content": text})


def of_parts(request: Mapping[str, Any]) -> bool:
    """Whether a request is about a bundle's parts."""
    return "B#" in str(request)


def test_a_look_at_a_skill_that_is_just_being_changed_sees_the_new_one_whole(
    world: World, meanwhile: Meanwhile
) -> None:
    """Between the item and its parts somebody changes it, and the parts looked for are deleted."""
    skill = make(world, files=[{"path": "a", "content": "1"}])
    meanwhile.before("BatchGetItem", lambda: put(world, skill, "new"), when=of_parts)
    shown = whole(world, skill)
    assert (shown["content"], shown["files"][0]["content"]) == ("new", "1")


def test_a_skill_deleted_under_a_look_is_not_there(world: World, meanwhile: Meanwhile) -> None:
    skill = make(world)
    path = f"/api/skills/{skill['id']}"
    meanwhile.before("BatchGetItem", lambda: world.ok("DELETE", path), when=of_parts)
    assert world.call("GET", path).error == "skill_not_found"


def test_the_slower_of_two_changes_is_refused_and_takes_nothing_from_the_faster(
    world: World, meanwhile: Meanwhile
) -> None:
    """Also where both would write the very same content: the loser must not tidy up what the winner has in force."""
    for text in ("other", "same"):
        skill = make(world, text)
        meanwhile.before("TransactWriteItems", lambda s=skill: put(world, s, "same"))
        late = put(world, skill, text)
        assert (late.status, late.error) == (409, "skill_changed")
        assert whole(world, skill)["content"] == "same"
        assert put(world, skill, "last").status == 200
        assert len(parts_of(skill["id"])) == 1, "what the loser had written is gone with the next change"


def test_a_change_back_and_forth_under_a_slower_one_is_noticed(world: World, meanwhile: Meanwhile) -> None:
    """The hash is what it was, the parts are others: only the revision tells."""
    skill = make(world)

    def there_and_back() -> None:
        assert put(world, skill, "there").status == 200
        assert put(world, skill, HEAD.format("review")).status == 200

    meanwhile.before("TransactWriteItems", there_and_back)
    assert put(world, skill, "late").error == "skill_changed"
    assert whole(world, skill)["content"] == HEAD.format("review")


@pytest.mark.parametrize("operation", ["PutItem", "TransactWriteItems"])
def test_a_change_that_breaks_off_leaves_the_old_state_in_force(
    world: World, meanwhile: Meanwhile, operation: str
) -> None:
    skill = make(world)
    for _ in range(3):  # the store's client tries three times
        meanwhile.before(operation, lambda: Fault.UNAVAILABLE)
    assert put(world, skill, "new").status == 503
    assert whole(world, skill)["content"] == HEAD.format("review")
    assert put(world, skill, "newer").status == 200
    assert whole(world, skill)["content"] == "newer"
    assert put(world, skill, "newest").status == 200
    assert len(parts_of(skill["id"])) == 1, "nothing of the one that broke off"


def test_a_change_that_cannot_tidy_up_is_done_all_the_same(world: World, meanwhile: Meanwhile) -> None:
    skill = make(world)
    for _ in range(3):
        meanwhile.before("DeleteItem", lambda: Fault.UNAVAILABLE)
    assert put(world, skill, "new").status == 200
    assert len(parts_of(skill["id"])) == 2
    assert put(world, skill, "newer").status == 200
    assert len(parts_of(skill["id"])) == 1


def test_two_skills_of_one_name_at_once_are_one(world: World, meanwhile: Meanwhile) -> None:
    meanwhile.before("TransactWriteItems", lambda: make(world, "review"))
    assert world.call("POST", "/api/skills", {"content": HEAD.format("review")}).error == "name_taken"
    [skill] = world.ok("GET", "/api/skills")["items"]
    assert whole(world, skill)["content"] == HEAD.format("review")


def test_a_skill_changed_under_a_daemons_question_is_answered_whole(world: World, meanwhile: Meanwhile) -> None:
    machine = world.machine()
    world.agent("ada", machine)
    skill = make(world)
    give(world, skill)
    held = claimed(world, machine, **BY_NAME)
    meanwhile.before("BatchGetItem", lambda: put(world, skill, "new"), when=of_parts)
    [bundle] = resolve(held, *held.payload["agent"]["skill_refs"])["bundles"]
    assert bundle["content"] == "new"


def test_an_old_daemons_claim_under_a_change_has_the_new_state(world: World, meanwhile: Meanwhile) -> None:
    machine = world.machine()
    world.agent("ada", machine)
    skill = make(world)
    give(world, skill)
    meanwhile.before("BatchGetItem", lambda: put(world, skill, "new"), when=of_parts)
    [sent] = claimed(world, machine).payload["agent"]["skills"]
    assert (sent["name"], sent["content"]) == ("review", "new")


def test_a_skill_given_while_another_is_taken_away_is_not_lost(world: World, meanwhile: Meanwhile) -> None:
    world.agent("ada", world.machine())
    one, two = make(world, "one"), make(world, "two")
    give(world, one)
    path = "/api/agents/ada/skills"
    meanwhile.before("TransactWriteItems", lambda: world.ok("DELETE", f"{path}/{one['id']}"))
    added = world.ok("POST", f"{path}/add", {"skill_ids": [two["id"]]})
    assert [skill["name"] for skill in added["skills"]] == ["two"]
    assert world.ok("GET", path) == added
