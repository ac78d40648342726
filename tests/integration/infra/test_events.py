"""The sample messages in events/: what `sam local invoke -e` gets is what the functions take."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callboard_control.embedded.calls import Call, LocalContext
from callboard_control.embedded.engine import Engine, attach_connection
from callboard_control.entrypoints import ENTRYPOINTS, HTTP, load
from callboard_control.store import table
from callboard_wire.bodies import ErrorBody
from callboard_wire.failures import FailureReason

SAMPLES = sorted((Path(__file__).parents[3] / "events").glob("*.json"))


def sample(path: Path) -> tuple[str, dict[str, Any]]:
    """Entry point's name (the part of the file's name before the first dot) and the event."""
    return path.name.partition(".")[0], json.loads(path.read_text())


@pytest.fixture(autouse=True)
def empty_table() -> Iterator[None]:
    engine = Engine(":memory:")
    attach_connection(engine, table.connection())
    table.ensure()
    yield
    engine.close()


def test_every_entry_point_has_a_sample() -> None:
    assert {sample(path)[0] for path in SAMPLES} == set(ENTRYPOINTS)


@pytest.mark.parametrize("path", [path for path in SAMPLES if sample(path)[0] in HTTP], ids=lambda path: path.stem)
def test_a_sample_is_routed_and_its_body_accepted(path: Path) -> None:
    """On an empty table nobody's token is known: that is the only thing these requests are refused for."""
    name, event = sample(path)
    method, _, route = event["routeKey"].partition(" ")
    assert (method, route) in load(name).app.declared()
    answer = load(name).handler(event, LocalContext(name, Call("r", 29)))
    error = ErrorBody.model_validate_json(answer["body"])
    assert error.error == ("bootstrap_refused" if path.stem == "identity.bootstrap" else "unauthenticated"), answer


def test_the_tick_sample_sweeps() -> None:
    [path] = [path for path in SAMPLES if sample(path)[0] == "tick"]
    assert load("tick").handler(sample(path)[1], LocalContext("tick", Call("t", 55)))["requeued"] == 0


def test_the_failure_sample_names_a_known_reason() -> None:
    [path] = [path for path in SAMPLES if path.stem == "complete.fail"]
    assert FailureReason(json.loads(sample(path)[1]["body"])["failure_reason"])
