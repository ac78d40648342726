"""What the parsers produce.

Before binding, a path's elements and a literal's name are as written (``#n``, ``:v``); binding replaces them by
attribute names and values, giving the same classes."""

from __future__ import annotations

from dataclasses import dataclass

from callboard_control.embedded.engine.values import Value

PathElements = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Path:
    """A document path: attribute names and list indexes."""

    elements: PathElements

    def __str__(self) -> str:
        shown = (f"[{element}]" if isinstance(element, int) else element for element in self.elements)
        return f"[{', '.join(shown)}]"


@dataclass(frozen=True, slots=True)
class Literal:
    """A value out of ExpressionAttributeValues; `value` is None until it is bound."""

    name: str
    value: Value | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A function call."""

    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Compare:
    """`left` = <> < <= > >= `right`."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Between:
    """`operand` BETWEEN `low` AND `high`, both included."""

    operand: Node
    low: Node
    high: Node


@dataclass(frozen=True, slots=True)
class In:
    """`operand` IN (`options`)."""

    operand: Node
    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """NOT `term`."""

    term: Node


@dataclass(frozen=True, slots=True)
class And:
    """All of `terms`."""

    terms: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Any of `terms`."""

    terms: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left` + or - `right`, in a SET action."""

    operator: str
    left: Node
    right: Node


Node = Path | Literal | Call | Compare | Between | In | Not | And | Or | Arithmetic
Operand = (Path, Literal, Call)


@dataclass(frozen=True, slots=True)
class Action:
    """One action of an update: SET, REMOVE, ADD or DELETE on `path`; REMOVE has no `value`."""

    verb: str
    path: Path
    value: Node | None = None
