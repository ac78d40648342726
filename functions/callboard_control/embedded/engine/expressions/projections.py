"""The part of an item that a list of document paths names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from callboard_control.embedded.engine.expressions.conditions import lookup
from callboard_control.embedded.engine.expressions.syntax import Path
from callboard_control.embedded.engine.values import Item, Value

_Tree = dict[str | int, Any]  # path element → subtree, or the value where a path ends


def project(item: Mapping[str, Value], paths: Iterable[Path]) -> Item:
    """The named parts in their maps and lists; chosen list elements close up, in index order."""
    tree: _Tree = {}
    for path in paths:
        value = lookup(item, path.elements)
        if value is None:
            continue
        node = tree
        for element in path.elements[:-1]:
            node = node.setdefault(element, _Branch())
        node[path.elements[-1]] = value
    return {str(name): _built(part) for name, part in tree.items()}


class _Branch(dict[str | int, Any]):
    """An inner node, told from a value by its class: a value is a plain dict."""


def _built(part: _Tree | Value) -> Value:
    if not isinstance(part, _Branch):
        return part  # type: ignore[return-value]  # not a branch, so a value
    if isinstance(next(iter(part)), int):
        return {"L": [_built(part[index]) for index in sorted(part)]}  # type: ignore[type-var]  # all are ints: overlap check
    return {"M": {str(name): _built(inner) for name, inner in part.items()}}
