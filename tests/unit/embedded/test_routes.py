"""HTTP APIs' routing rules."""

from __future__ import annotations

import pytest

from callboard_control.embedded.routes import Function, Router


def function(name: str, *routes: tuple[str, str]) -> Function:
    return Function(name, lambda event, context: None, frozenset(routes))


ROUTER = Router(
    [
        function("any", ("GET", "/files/{path+}")),
        function("one", ("GET", "/tasks/{id}"), ("POST", "/tasks/{id}/start")),
        function("claim", ("POST", "/tasks/claim"), ("GET", "/tasks/claim")),
        function("log", ("GET", "/files/log")),
    ]
)


@pytest.mark.parametrize(
    ("method", "path", "name", "parameters"),
    [
        ("GET", "/tasks/t1", "one", {"id": "t1"}),
        ("GET", "/tasks/claim", "claim", {}),
        ("POST", "/tasks/claim/start", "one", {"id": "claim"}),
        ("GET", "/files/log", "log", {}),
        ("GET", "/files/a/b c", "any", {"path": "a/b c"}),
        ("GET", "/tasks/line\nbreak", "one", {"id": "line\nbreak"}),
    ],
)
def test_the_most_specific_route_wins(method: str, path: str, name: str, parameters: dict[str, str]) -> None:
    match = ROUTER.match(method, path)
    assert match
    assert (match.function.name, match.parameters) == (name, parameters)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/tasks"),
        ("GET", "/tasks/"),
        ("GET", "/tasks/a/b"),
        ("PUT", "/tasks/t1"),
        ("GET", "/TASKS/t1"),
        ("GET", ""),
    ],
)
def test_what_is_not_declared_is_not_routed(method: str, path: str) -> None:
    assert ROUTER.match(method, path) is None


def test_one_route_has_one_function() -> None:
    with pytest.raises(ValueError, match="GET /x is claimed by a and b"):
        Router([function("a", ("GET", "/x")), function("b", ("GET", "/x"))])
