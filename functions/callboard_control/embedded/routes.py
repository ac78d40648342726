"""Which function answers a request: HTTP APIs' routing, on the table of routes the resolvers declare.

Paths are matched after percent-decoding and case-sensitively; a fixed segment wins over `{name}`, and `{name}` over the
greedy `{name+}`. There is no rule for trailing slashes: ``/api/tasks/`` is not ``/api/tasks``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Handler = Callable[[dict[str, Any], Any], Any]
"""A Lambda handler: event and context in, an answer that can be written as JSON out."""

GATEWAY_TIMEOUT_S = 30.0
"""HTTP APIs cut every integration at 30 s; it cannot be raised."""


@dataclass(frozen=True, slots=True)
class Function:
    """One Lambda. `held`: its calls may wait for work (a long poll) and are kept apart from the others."""

    name: str
    handler: Handler
    routes: frozenset[tuple[str, str]]
    timeout_s: float = 29.0
    held: bool = False


@dataclass(frozen=True, slots=True)
class Match:
    function: Function
    route_key: str
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Route:
    method: str
    pattern: re.Pattern[str]
    rank: tuple[int, ...]
    key: str
    function: Function


class Router:
    def __init__(self, functions: Iterable[Function]) -> None:
        """
        Raises:
            ValueError: two functions claim the same route.
        """
        routes: dict[str, _Route] = {}
        for function in functions:
            for method, path in function.routes:
                key = f"{method} {path}"
                if key in routes:
                    raise ValueError(f"{key} is claimed by {routes[key].function.name} and {function.name}")
                routes[key] = _Route(method, _pattern(path), _rank(path), key, function)
        self._routes = sorted(routes.values(), key=lambda route: route.rank)

    def match(self, method: str, path: str) -> Match | None:
        """The function for `method` and the decoded `path`. HTTP APIs answer a wrong method like an unknown path."""
        for route in self._routes:
            if route.method == method and (found := route.pattern.fullmatch(path)):
                return Match(route.function, route.key, found.groupdict())
        return None

    def methods(self, path: str) -> list[str]:
        """The methods that exist for `path`, to say so in a 404."""
        return sorted({route.method for route in self._routes if route.pattern.fullmatch(path)})


def _pattern(path: str) -> re.Pattern[str]:
    parts = []
    for segment in path.split("/"):
        if segment.startswith("{") and segment.endswith("+}"):
            parts.append(f"(?P<{segment[1:-2]}>.+)")
        elif segment.startswith("{") and segment.endswith("}"):
            parts.append(f"(?P<{segment[1:-1]}>[^/]+)")
        else:
            parts.append(re.escape(segment))
    return re.compile("/".join(parts), re.DOTALL)


def _rank(path: str) -> tuple[int, ...]:
    """Sorts the more specific first, segment by segment."""
    return tuple(2 if part.endswith("+}") else 1 if part.startswith("{") else 0 for part in path.split("/"))
