"""What the parsers produce.

Before binding, a path's elements and a literal's name are as written (``#n``, ``:v``); binding replaces them by
attribute names and values, giving the same classes.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    arguments: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Compare:
    """`left` = <> < <= > >= `right`."""

    operator: str
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class Between:
    """`operand` BETWEEN `low` AND `high`, both included."""

    operand: Operand
    low: Operand
    high: Operand


@dataclass(frozen=True, slots=True)
class In:
    """`operand` IN (`options`)."""

    operand: Operand
    options: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Connective:
    """NOT of one, or AND / OR of `count` truth values that were computed before it."""

    word: str
    count: int


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left` + or - `right`, in a SET action."""

    operator: str
    left: Operand
    right: Operand


Operand = Path | Literal | Call
Test = Compare | Between | In | Call
# A condition in postfix order: tests, and after them what joins them. A list and not a tree, because DynamoDB accepts
# 300 levels of nesting and Python's stack does not.
Condition = tuple[Test | Connective, ...]


@dataclass(frozen=True, slots=True)
class Action:
    """One action of an update: SET, REMOVE, ADD or DELETE on `path`; REMOVE has no `value`."""

    verb: str
    path: Path
    value: Operand | Arithmetic | None = None


def paths(condition: Condition) -> Iterator[Path]:
    """Every document path a condition looks at."""
    for step in condition:
        match step:
            case Compare(_, left, right):
                yield from _paths((left, right))
            case Between(operand, low, high):
                yield from _paths((operand, low, high))
            case In(operand, options):
                yield from _paths((operand, *options))
            case Call():
                yield from _paths((step,))
            case Connective():
                pass


def _paths(operands: tuple[Operand, ...]) -> Iterator[Path]:
    for operand in operands:
        if isinstance(operand, Path):
            yield operand
        elif isinstance(operand, Call):
            yield from _paths(operand.arguments)
