"""Writes docs/reference/openapi.json: what every entry point declares, as one document, in a stable order.

.venv/bin/python infra/openapi.py            # a test says when it is not up to date
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

from callboard_control import entrypoints
from callboard_wire.bodies import ErrorBody

TARGET = Path(__file__).resolve().parents[1] / "docs" / "reference" / "openapi.json"
REFUSED = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorBody"}}}}
ANSWERS = {
    "4XX": {
        "description": "Refused; `error` is the code to decide by. 429: docs/reference/rate-limits.md.",
        "headers": {
            "Retry-After": {"schema": {"type": "integer"}, "description": "With a 429: seconds to wait."},
            "RateLimit-Limit": {"schema": {"type": "integer"}, "description": "Calls a minute."},
            "RateLimit-Remaining": {"schema": {"type": "integer"}, "description": "Left of this minute."},
            "RateLimit-Reset": {"schema": {"type": "integer"}, "description": "Seconds until the next minute."},
        },
        **REFUSED,
    },
    "503": {
        "description": "Try the same call again in a moment.",
        "headers": {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}},
        **REFUSED,
    },
}
OPEN = {"/api/bootstrap", "/api/invitations/accept", "/device", "/api/device/code", "/api/device/token"}
"""No token is needed: what is in the body is the proof."""
POWERTOOLS_OWN = {"HTTPValidationError", "ValidationError", "ResponseValidationError"}
"""Its shape of a refusal, which is never sent: `_http.py` answers with ours."""


def document() -> dict[str, Any]:
    """The whole API, for a caller with a token of any kind."""
    paths: dict[str, dict[str, Any]] = {}
    schemas: dict[str, Any] = {"ErrorBody": ErrorBody.model_json_schema()}
    for name in entrypoints.HTTP:
        declared = _declared(name)
        for path, operations in declared["paths"].items():
            paths.setdefault(path, {}).update({verb: _operation(path, name, op) for verb, op in operations.items()})
        for title, schema in declared["components"]["schemas"].items():
            if schemas.setdefault(title, schema) != schema and title not in POWERTOOLS_OWN:
                raise ValueError(f"two entry points mean different things by {title}")
    return {
        "openapi": "3.1.0",
        "info": {"title": "Callboard", "version": "1", "description": "The control plane's HTTP API."},
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": {path: dict(sorted(paths[path].items())) for path in sorted(paths)},
        "components": {
            "schemas": {name: schemas[name] for name in sorted(schemas.keys() - POWERTOOLS_OWN)},
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "`mul_` person, `mdt_` machine, `mat_` task.",
                }
            },
        },
    }


def _declared(name: str) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Powertools warns of its own default version
        schema = entrypoints.load(name).app.get_openapi_schema(title=name, version="1")
    found: dict[str, Any] = json.loads(schema.model_dump_json(by_alias=True, exclude_none=True))
    return found


def _operation(path: str, entrypoint: str, operation: dict[str, Any]) -> dict[str, Any]:
    done = {code: answer for code, answer in operation["responses"].items() if code.startswith("2")}
    summary = operation["operationId"].partition("_api_")[0].replace("_", " ")
    said = {**operation, "tags": [entrypoint], "summary": summary, "responses": {**done, **ANSWERS}}
    return {**said, "security": []} if path in OPEN else said


def text() -> str:
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text())
    print(f"{TARGET.name}: {sum(len(p) for p in document()['paths'].values())} operations")
