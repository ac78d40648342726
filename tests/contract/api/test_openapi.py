"""docs/reference/openapi.json says what the resolvers declare."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callboard_control import entrypoints
from infra import openapi


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return json.loads(openapi.TARGET.read_text())  # type: ignore[no-any-return]


def test_the_committed_document_is_up_to_date() -> None:
    assert openapi.TARGET.read_text() == openapi.text(), "run: .venv/bin/python infra/openapi.py"


def test_every_declared_route_is_in_it_and_no_other(document: dict[str, Any]) -> None:
    declared = {route for name in entrypoints.HTTP for route in entrypoints.load(name).app.declared()}
    assert {(verb.upper(), path) for path, verbs in document["paths"].items() for verb in verbs} == declared


def test_every_operation_documents_its_success_and_our_one_shape_of_a_refusal(document: dict[str, Any]) -> None:
    for path, verbs in document["paths"].items():
        for verb, operation in verbs.items():
            answers = operation["responses"]
            assert set(answers) - {"200", "201"} == {"4XX", "503"}, (verb, path)
            for refusal in ("4XX", "503"):
                schema = answers[refusal]["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/ErrorBody"}


def test_every_operation_has_a_name_of_its_own(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for verbs in document["paths"].values() for operation in verbs.values()]
    assert len(names) == len(set(names)) > 50
