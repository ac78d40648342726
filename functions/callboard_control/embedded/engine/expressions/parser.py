"""Tokens → conditions, updates and projections. Cached by expression text: names and values are bound per request."""

from __future__ import annotations

from functools import lru_cache

from callboard_control.embedded.engine.expressions import syntax
from callboard_control.embedded.engine.expressions.condition_parser import ConditionParser
from callboard_control.embedded.engine.expressions.reader import Reader
from callboard_control.embedded.engine.expressions.syntax import Arithmetic, Operand

_SECTIONS = frozenset({"SET", "REMOVE", "ADD", "DELETE"})


@lru_cache(maxsize=1024)
def parse_condition(kind: str, text: str) -> syntax.Condition:
    """The steps of a condition, filter or key condition; `kind` is the parameter's name, for errors."""
    return ConditionParser(kind, text).condition()


@lru_cache(maxsize=1024)
def parse_update(kind: str, text: str) -> tuple[syntax.Action, ...]:
    """The actions of an update expression, in the order written."""
    return _UpdateParser(kind, text, keywords=_SECTIONS).update()


@lru_cache(maxsize=1024)
def parse_projection(kind: str, text: str) -> tuple[syntax.Path, ...]:
    """The paths of a projection expression."""
    reader = Reader(kind, text)
    paths = [reader.path()]
    while reader.accept(","):
        paths.append(reader.path())
    reader.expect_end()
    return tuple(paths)


class _UpdateParser(Reader):
    def update(self) -> tuple[syntax.Action, ...]:
        actions: list[syntax.Action] = []
        seen: set[str] = set()
        while self.peek().kind != "end":
            verb = self.peek().text.upper()
            if self.peek().kind != "name" or verb not in _SECTIONS:
                raise self.unexpected()
            self.next()
            if verb in seen:
                raise self.invalid(f'The "{verb}" section can only be used once in an update expression;')
            seen.add(verb)
            actions.append(self._action(verb))
            while self.accept(","):
                actions.append(self._action(verb))
        return tuple(actions)

    def _action(self, verb: str) -> syntax.Action:
        path = self.path()
        if verb == "REMOVE":
            return syntax.Action(verb, path)
        if verb == "SET":
            self.expect("=")
            return syntax.Action(verb, path, self._assigned())
        token = self.peek()
        if token.kind != "valueref":
            raise self.unexpected()
        return syntax.Action(verb, path, syntax.Literal(self.next().text))

    def _assigned(self) -> Operand | Arithmetic:
        """What is set: an operand, or one sum or difference, perhaps in parentheses."""
        grouped = self.accept("(")
        left = self.operand()
        if grouped and self.accept(")"):
            grouped = False  # it was the operand that stood in parentheses
        value: Operand | Arithmetic = left
        token = self.peek()
        if token.text in ("+", "-"):
            self.next()
            self.count_operator()
            value = Arithmetic(token.text, left, self.operand())
        if grouped:
            self.expect(")")
        return value
