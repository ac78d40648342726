"""Tokens → the postfix steps of a condition.

Precedence, tightest first: comparison, BETWEEN and IN; NOT; AND; OR. Keywords are case-insensitive, function names are
not. Parentheses are kept on a stack of our own: DynamoDB accepts 300 levels.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from callboard_control.embedded.engine.errors import EngineError
from callboard_control.embedded.engine.expressions import syntax
from callboard_control.embedded.engine.expressions.reader import Reader
from callboard_control.embedded.engine.expressions.syntax import Connective, Operand, Test

KEYWORDS = frozenset({"AND", "OR", "NOT", "BETWEEN", "IN"})
FUNCTIONS = {
    "attribute_exists": 1,
    "attribute_not_exists": 1,
    "attribute_type": 2,
    "begins_with": 2,
    "contains": 2,
    "size": 1,
}
_COMPARATORS = frozenset({"=", "<>", "<", "<=", ">", ">="})
_MAX_OPERANDS = 100
_OPERAND = syntax.Path | syntax.Literal | syntax.Call
_Steps = list[Test | Connective]
_Found = Operand | Test | _Steps


@dataclass(slots=True)
class _Level:
    """What was read between one pair of parentheses so far.

    `conjunction` holds the terms joined by AND since the last OR, `disjunction` the finished conjunctions; each is the
    list of its steps. `nots` counts the NOTs before the term that is read next.
    """

    disjunction: list[_Steps] = field(default_factory=list)
    conjunction: list[_Steps] = field(default_factory=list)
    nots: int = 0

    def untouched(self) -> bool:
        """Whether nothing was added yet: the parentheses hold one thing alone."""
        return not (self.disjunction or self.conjunction or self.nots)

    def add(self, steps: _Steps) -> None:
        if self.nots % 2:
            steps.append(Connective("NOT", 1))
        self.nots = 0
        self.conjunction.append(steps)

    def close_conjunction(self) -> None:
        self.disjunction.append(_joined("AND", self.conjunction))
        self.conjunction = []

    def steps(self) -> _Steps:
        self.close_conjunction()
        return _joined("OR", self.disjunction)


def _joined(word: str, parts: list[_Steps]) -> _Steps:
    if len(parts) == 1:
        return parts[0]
    return [*(step for part in parts for step in part), Connective(word, len(parts))]


class ConditionParser(Reader):
    """Reads one condition."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(kind, text, keywords=KEYWORDS)

    def condition(self) -> syntax.Condition:
        """The whole expression's steps."""
        levels = [_Level()]
        while True:
            self._open(levels)
            term = self._close(levels, self._comparison(self.bare_operand()))
            self._add(levels[-1], term)
            if self.accept_word("AND"):
                self.count_operator()
            elif self.accept_word("OR"):
                self.count_operator()
                levels[-1].close_conjunction()
            else:
                break
        if len(levels) > 1:
            raise self.unexpected()
        self.expect_end()
        return tuple(levels[0].steps())

    def _open(self, levels: list[_Level]) -> None:
        """NOTs and opening parentheses before a term."""
        while True:
            if self.accept_word("NOT"):
                self.count_operator()
                levels[-1].nots += 1
            elif self.accept("("):
                levels.append(_Level())
            else:
                return

    def _close(self, levels: list[_Level], found: _Found) -> _Found:
        """Closing parentheses after a term: what they enclose is the new term."""
        enclosed = False
        while len(levels) > 1 and self.accept(")"):
            level = levels.pop()
            if not level.untouched():
                self._add(level, found)
                found, enclosed = level.steps(), True
                continue
            if enclosed:
                raise self.invalid("The expression has redundant parentheses;")
            enclosed = True
            if isinstance(found, _OPERAND):
                compared = self._comparison(found)
                enclosed = compared is found
                found = compared
        return found

    def _add(self, level: _Level, found: _Found) -> None:
        level.add(found if isinstance(found, list) else [self._test(found)])

    def _test(self, found: Operand | Test) -> Test:
        """`found` where a truth value is due: a comparison or a call of a function that answers true or false."""
        if isinstance(found, syntax.Call):
            if found.name == "size":
                raise self._misused(found.name)
            return found
        if isinstance(found, syntax.Path | syntax.Literal):
            raise self.unexpected()
        return found

    def _comparison(self, left: Operand) -> Operand | Test:
        """The comparison that `left` begins, or `left` itself."""
        token = self.peek()
        if token.kind == "symbol" and token.text in _COMPARATORS:
            self.next()
            self.count_operator()
            return syntax.Compare(token.text, self._value(left), self._value(self.operand()))
        if self.accept_word("BETWEEN"):
            self.count_operator()
            low = self._value(self.operand())
            if not self.accept_word("AND"):
                raise self.unexpected()
            return syntax.Between(self._value(left), low, self._value(self.operand()))
        if self.accept_word("IN"):
            self.count_operator()
            return self._membership(self._value(left))
        return left

    def _membership(self, left: Operand) -> Test:
        self.expect("(")
        options = tuple(self._value(option) for option in self.operands())
        if len(options) + 1 > _MAX_OPERANDS:
            raise self.invalid(
                "Incorrect number of operands for operator or function; operator or function: IN, "
                f"number of operands: {len(options) + 1}"
            )
        return syntax.In(left, options)

    def _value(self, operand: Operand) -> Operand:
        if isinstance(operand, syntax.Call) and operand.name != "size":
            raise self._misused(operand.name)
        return operand

    def _misused(self, name: str) -> EngineError:
        if name not in FUNCTIONS:
            return self.invalid(f"Invalid function name; function: {name}")
        return self.invalid(f"The function is not allowed to be used this way in an expression; function: {name}")
