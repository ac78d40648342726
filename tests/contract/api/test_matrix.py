"""The matrix of `matrix.py`, cell by cell, on the real handlers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from callboard_control import entrypoints
from tests.contract.api.matrix import ACTORS, MATRIX, SENT, Row
from tests.contract.api.stage import HUSH, Stage

NEIGHBOURS = [actor for actor in ACTORS if actor.endswith("*")]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    stage = Stage(tmp_path_factory.mktemp("stage"))
    yield stage
    stage.close()


def test_every_declared_route_has_a_row_and_every_row_a_route() -> None:
    declared = {route for name in entrypoints.HTTP for route in entrypoints.load(name).app.declared()}
    assert {(row.method, row.path) for row in MATRIX} == declared
    assert set(SENT) <= {row.name for row in MATRIX}
    assert len(MATRIX) == len({row.name for row in MATRIX})


@pytest.mark.parametrize("row", MATRIX, ids=lambda row: row.name)
def test_everybody_gets_the_status_of_the_table(stage: Stage, row: Row) -> None:
    answers = {actor: stage.call(actor, row) for actor in ACTORS}
    assert {actor: answer.status for actor, answer in answers.items()} == row.statuses
    for actor, answer in answers.items():
        if answer.status >= 400:
            assert set(answer.body) == {"error", "message", "request_id", "details"}, actor
        if actor in NEIGHBOURS and row.sent.needs != "no_guests" and "accept" not in row.path:
            assert HUSH not in str(answer.body), actor
            if "{workspace_id}" not in row.path:  # which the caller named itself
                assert stage.world.workspace_id not in str(answer.body), actor
        if actor == "dm2":
            assert HUSH not in str(answer.body), "no other machine sees anything of the task or gets it"


@pytest.mark.parametrize("row", MATRIX, ids=lambda row: row.name)
def test_asking_for_a_workspace_one_is_not_in_finds_nothing(stage: Stage, row: Row) -> None:
    """A header chooses among a person's own workspaces; an agent's and a machine's are in their tokens."""
    asked = {"x-workspace-id": stage.world.workspace_id}
    for actor in NEIGHBOURS:
        with_header = stage.call(actor, row, asked).status
        person = actor in ("ow*", "me*") and row.statuses["nob"] == 401
        assert with_header == (404 if person else row.statuses[actor]), actor


@pytest.mark.parametrize("claimed", ["x-agent-id", "x-task-id", "x-actor-source", "x-user-id", "x-actor-role"])
def test_what_a_client_says_of_itself_makes_nobody_anything(stage: Stage, claimed: str) -> None:
    stage.prepare("task")
    said = {claimed: "owner"}
    assert stage.world.call("GET", "/api/audit", token=stage.tokens["mem"], headers=said).status == 403
    assert stage.world.call("GET", "/api/me", token="", headers=said).status == 401
    assert stage.world.ok("GET", "/api/me", token=stage.tokens["agt"], headers=said)["actor"] == "agent"
