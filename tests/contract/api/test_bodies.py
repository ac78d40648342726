"""Bodies that no client of ours would send, on every route that reads one: a refusal in the one shape, never a 500."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from callboard_control import entrypoints
from callboard_control.entrypoints._json import MAX_DEPTH
from tests.contract.api.stage import Stage

ROUTES = sorted(
    (verb, path)
    for name in entrypoints.HTTP
    for verb, path in entrypoints.load(name).app.declared()
    if verb in ("POST", "PUT", "PATCH")
)
NO_JSON = {
    "nothing closed, lists": "[" * 100_000,
    "nothing closed, objects": '{"a":' * 100_000,
    "nested deeper than anything can write": '{"settings":' + "[" * 5000 + "]" * 5000 + "}",
    "one level too deep": "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
    "a number of 5000 digits": '{"priority": ' + "9" * 5000 + "}",
    "a number beyond any float": '{"wait": 1e400}',
    "not a number": '{"wait": NaN}',
    "infinity": '{"wait": -Infinity}',
    "half an object": '{"agent": ',
    "a byte order mark": "\ufeff{}",
    "half a surrogate pair": r'{"a": ["\uD83D\uDE00 \ud83d"]}',
    "half a surrogate pair as a name": r'{"\udc00": 1}',
}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    stage = Stage(tmp_path_factory.mktemp("stage"))
    yield stage
    stage.close()


@pytest.mark.parametrize("actor", ["nob", "own"])
@pytest.mark.parametrize("body", NO_JSON.values(), ids=NO_JSON)
def test_what_is_no_json_is_a_400_on_every_route_that_reads_a_body(stage: Stage, body: str, actor: str) -> None:
    read = 0
    for verb, path in ROUTES:
        answer = stage.world.call(verb, re.sub(r"\{\w+\}", "unknown", path), body, stage.tokens[actor])
        assert answer.status < 500, (verb, path, answer)
        read += (answer.status, answer.error) == (400, "invalid_json")
    assert read > len(ROUTES) / 2


def test_a_body_as_deep_as_allowed_is_read_stored_and_shown(stage: Stage) -> None:
    depth = MAX_DEPTH - 3  # the body, `repos` and its entry
    nested = "[" * depth + "]" * depth
    answer = stage.world.call("PATCH", "/api/workspaces/current", f'{{"repos": [{{"a": {nested}}}]}}')
    assert answer.status == 200, answer
    assert stage.world.call("GET", "/api/workspaces")["items"]
    stage.world.ok("PATCH", "/api/workspaces/current", {"repos": []})


@pytest.mark.parametrize(
    "content_type",
    [
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "multipart/form-data; boundary=x",
        "text/plain",
        "application/json; charset=utf-16",
        "APPLICATION/JSON",
        "",
        "\x00",
    ],
)
def test_a_body_is_json_whatever_its_sender_calls_it(stage: Stage, content_type: str) -> None:
    """`curl -d` says form for everything it sends."""
    answer = stage.world.call("POST", "/api/workspaces", {"name": "w"}, headers={"content-type": content_type})
    assert answer.status == 200, answer
    broken = stage.world.call("POST", "/api/workspaces", "name=w", headers={"content-type": content_type})
    assert (broken.status, broken.error) == (400, "invalid_json")


def test_an_id_of_any_length_is_not_repeated_whole(stage: Stage) -> None:
    body = {"runtime_ids": ["z" * 1_000_000], "max_tasks": 1}
    answer = stage.world.call("POST", "/api/daemon/tasks/claim", body)
    assert answer.status == 404
    assert len(str(answer.body)) < 1000
