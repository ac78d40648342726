"""The part of an item that a list of document paths names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from callboard_control.embedded.engine.expressions.conditions import lookup
from callboard_control.embedded.engine.expressions.syntax import Path
from callboard_control.embedded.engine.values import Item, Value


@dataclass(slots=True)
class _Branch:
    """The chosen parts of a map (by name) or of a list (by index)."""

    parts: dict[str | int, _Branch | Value] = field(default_factory=dict)

    def built(self) -> Value:
        if isinstance(next(iter(self.parts)), int):
            ordered = sorted(self.parts.items(), key=lambda part: int(part[0]))
            return {"L": [_built(part) for _, part in ordered]}
        return {"M": {str(name): _built(part) for name, part in self.parts.items()}}


def project(item: Mapping[str, Value], paths: Iterable[Path]) -> Item:
    """The named parts in their maps and lists; chosen list elements close up, in index order.

    `paths` must not overlap or conflict (`checks.check_overlap`).
    """
    root = _Branch()
    for path in paths:
        value = lookup(item, path.elements)
        if value is None:
            continue
        node = root
        for element in path.elements[:-1]:
            inner = node.parts.setdefault(element, _Branch())
            if not isinstance(inner, _Branch):
                raise AssertionError(f"{path} overlaps another path")
            node = inner
        node.parts[path.elements[-1]] = value
    return {str(name): _built(part) for name, part in root.parts.items()}


def _built(part: _Branch | Value) -> Value:
    return part.built() if isinstance(part, _Branch) else part
