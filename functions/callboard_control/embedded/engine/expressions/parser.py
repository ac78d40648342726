"""Tokens → condition, update and projection trees, by recursive descent.

Precedence in conditions, tightest first: comparison, BETWEEN and IN; NOT; AND; OR. Keywords are case-insensitive,
function names are not. Trees are cached by expression text: names and values are bound per request."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from callboard_control.embedded.engine.errors import EngineError
from callboard_control.embedded.engine.expressions import reserved, syntax
from callboard_control.embedded.engine.expressions.lexer import Token, invalid, syntax_error, tokenize
from callboard_control.embedded.engine.expressions.syntax import Node

MAX_BYTES = 4096
MAX_OPERATORS = 300
MAX_OPERANDS = 100
# Parentheses within parentheses. DynamoDB's own bound is its 300 operators; ours keeps the parser off Python's stack
# limit.
MAX_DEPTH = 100
_KEYWORDS = frozenset({"AND", "OR", "NOT", "BETWEEN", "IN"})
_SECTIONS = ("SET", "REMOVE", "ADD", "DELETE")
_Rule = Callable[[], Node]
_COMPARATORS = frozenset({"=", "<>", "<", "<=", ">", ">="})


@lru_cache(maxsize=1024)
def parse_condition(kind: str, text: str) -> Node:
    """The tree of a condition, filter or key condition; `kind` is the parameter's name, for errors."""
    parser = _Parser(kind, text)
    node = parser.boolean(parser.disjunction())
    parser.expect_end()
    return node


@lru_cache(maxsize=1024)
def parse_update(kind: str, text: str) -> tuple[syntax.Action, ...]:
    """The actions of an update expression, in the order written."""
    return _Parser(kind, text).update()


@lru_cache(maxsize=1024)
def parse_projection(kind: str, text: str) -> tuple[syntax.Path, ...]:
    """The paths of a projection expression."""
    parser = _Parser(kind, text)
    paths = [parser.path()]
    while parser.accept(","):
        paths.append(parser.path())
    parser.expect_end()
    return tuple(paths)


class _Parser:
    def __init__(self, kind: str, text: str) -> None:
        self._kind = kind
        self._text = text
        size = len(text.encode(errors="replace"))
        if size > MAX_BYTES:
            raise self._invalid(f"Expression size has exceeded the maximum allowed size; expression size: {size}")
        if not text.strip(" \t\r\n"):
            raise self._invalid("The expression can not be empty;")
        self._tokens = tokenize(kind, text)
        self._at = 0
        self._depth = 0
        self._operators = 0
        self._grouped: Node | None = None  # the node the last closed parenthesis held

    # Conditions

    def disjunction(self) -> Node:
        return self._series("OR", self._conjunction, syntax.Or)

    def _conjunction(self) -> Node:
        return self._series("AND", self._negation, syntax.And)

    def _series(self, word: str, part: _Rule, join: type[syntax.And] | type[syntax.Or]) -> Node:
        first = part()
        if not self._at_word(word):
            return first
        terms = [self.boolean(first)]
        while self._accept_word(word):
            self._count_operator()
            terms.append(self.boolean(part()))
        return join(tuple(terms))

    def _negation(self) -> Node:
        negated = 0
        while self._accept_word("NOT"):
            self._count_operator()
            negated += 1
        node = self._comparison()
        if negated:
            node = self.boolean(node)
            self._grouped = None  # parentheses after a NOT are not redundant
            return syntax.Not(node) if negated % 2 else node
        return node

    def _comparison(self) -> Node:
        left = self._operand_or_group()
        if not isinstance(left, syntax.Operand):
            return left
        token = self._peek()
        if token.text in _COMPARATORS:
            self._next()
            self._count_operator()
            return syntax.Compare(token.text, self._value(left), self._value(self._operand()))
        if self._accept_word("BETWEEN"):
            self._count_operator()
            low = self._value(self._operand())
            if not self._accept_word("AND"):
                raise self._unexpected()
            return syntax.Between(self._value(left), low, self._value(self._operand()))
        if self._accept_word("IN"):
            self._count_operator()
            return self._membership(self._value(left))
        return left

    def _membership(self, left: Node) -> Node:
        self._expect("(")
        options = tuple(self._value(option) for option in self._arguments(self._operand))
        if len(options) + 1 > MAX_OPERANDS:
            problem = (
                "Incorrect number of operands for operator or function; operator or function: IN, number of operands: "
            )
            raise self._invalid(problem + str(len(options) + 1))
        return syntax.In(left, options)

    def _operand_or_group(self) -> Node:
        if self._peek().text != "(":
            return self._bare_operand()
        return self._group(self.disjunction)

    def _operand(self) -> Node:
        node = self._group(self._operand) if self._peek().text == "(" else self._bare_operand()
        if not isinstance(node, syntax.Operand):
            raise self._unexpected()
        return node

    def _group(self, inside: _Rule) -> Node:
        """Whatever `inside` reads between parentheses; a second pair around the same thing is refused."""
        self._enter()
        self._expect("(")
        self._grouped = None
        node = inside()
        if self._grouped is node:
            raise self._invalid("The expression has redundant parentheses;")
        self._expect(")")
        self._depth -= 1
        self._grouped = node
        return node

    def boolean(self, node: Node) -> Node:
        """`node` where a truth value is due: a condition or a call of a function that answers true or false."""
        if isinstance(node, syntax.Call):
            if node.name == "size":
                raise self._misused(node.name)
            return node
        if isinstance(node, syntax.Operand):
            raise self._unexpected()
        return node

    def _value(self, node: Node) -> Node:
        if isinstance(node, syntax.Call) and node.name != "size":
            raise self._misused(node.name)
        return node

    def _misused(self, name: str) -> EngineError:
        known = ("attribute_exists", "attribute_not_exists", "attribute_type", "begins_with", "contains", "size")
        if name not in known:
            return self._invalid(f"Invalid function name; function: {name}")
        return self._invalid(f"The function is not allowed to be used this way in an expression; function: {name}")

    # Operands, in conditions and updates

    def _bare_operand(self) -> Node:
        token = self._peek()
        if token.kind == "valueref":
            return syntax.Literal(self._next().text)
        if token.kind == "name" and self._tokens[self._at + 1].text == "(" and not self._is_keyword(token):
            return self._call()
        return self.path()

    def _call(self) -> syntax.Call:
        self._enter()
        name = self._next().text
        self._count_operator()
        self._expect("(")
        arguments = tuple(self._arguments(self._operand))
        self._depth -= 1
        return syntax.Call(name, arguments)

    def _arguments(self, rule: _Rule) -> list[Node]:
        arguments = [rule()]
        while self.accept(","):
            arguments.append(rule())
        self._expect(")")
        return arguments

    def path(self) -> syntax.Path:
        elements: list[str | int] = [self._attribute()]
        while True:
            if self.accept("."):
                elements.append(self._attribute())
            elif self.accept("["):
                elements.append(self._index())
                self._expect("]")
            else:
                break
        if len(elements) > 32:
            raise self._invalid(f"The document path has too many nesting elements; nesting levels: {len(elements)}")
        return syntax.Path(tuple(elements))

    def _attribute(self) -> str:
        token = self._peek()
        if token.kind == "nameref":
            return self._next().text
        if token.kind != "name" or self._is_keyword(token):
            raise self._unexpected()
        if token.text.upper() in reserved.WORDS:
            raise self._invalid(f"Attribute name is a reserved keyword; reserved keyword: {token.text}")
        return self._next().text

    def _index(self) -> int:
        token = self._peek()
        if token.kind != "index":
            raise self._unexpected()
        if len(token.text) > 9:
            raise self._invalid(f"List index is not within the allowable range; index: [{token.text}]")
        return int(self._next().text)

    # Updates

    def update(self) -> tuple[syntax.Action, ...]:
        actions: list[syntax.Action] = []
        seen: set[str] = set()
        while self._peek().kind != "end":
            verb = self._peek().text.upper()
            if self._peek().kind != "name" or verb not in _SECTIONS:
                raise self._unexpected()
            self._next()
            if verb in seen:
                raise self._invalid(f'The "{verb}" section can only be used once in an update expression;')
            seen.add(verb)
            actions.append(self._action(verb))
            while self.accept(","):
                actions.append(self._action(verb))
        return tuple(actions)

    def _action(self, verb: str) -> syntax.Action:
        self._count_operator()
        path = self.path()
        if verb == "REMOVE":
            return syntax.Action(verb, path)
        if verb == "SET":
            self._expect("=")
            return syntax.Action(verb, path, self._assigned())
        token = self._peek()
        if token.kind != "valueref":
            raise self._unexpected()
        return syntax.Action(verb, path, syntax.Literal(self._next().text))

    def _assigned(self) -> Node:
        left = self._group(self._assigned) if self._peek().text == "(" else self._bare_operand()
        token = self._peek()
        if token.text not in ("+", "-") or not isinstance(left, syntax.Operand):
            return left
        self._next()
        self._count_operator()
        return syntax.Arithmetic(token.text, left, self._operand())

    # Tokens

    def _peek(self) -> Token:
        return self._tokens[self._at]

    def _next(self) -> Token:
        self._at += 1
        return self._tokens[self._at - 1]

    def accept(self, symbol: str) -> bool:
        token = self._peek()
        if token.kind != "symbol" or token.text != symbol:
            return False
        self._at += 1
        return True

    def _expect(self, symbol: str) -> None:
        if not self.accept(symbol):
            raise self._unexpected()

    def expect_end(self) -> None:
        if self._peek().kind != "end":
            raise self._unexpected()

    def _at_word(self, word: str) -> bool:
        token = self._peek()
        return token.kind == "name" and token.text.upper() == word

    def _accept_word(self, word: str) -> bool:
        if not self._at_word(word):
            return False
        self._at += 1
        return True

    def _is_keyword(self, token: Token) -> bool:
        words = _SECTIONS if self._kind == "UpdateExpression" else _KEYWORDS
        return token.text.upper() in words

    # Limits and errors

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._invalid(f"The expression is nested more than {MAX_DEPTH} levels deep")

    def _count_operator(self) -> None:
        self._operators += 1
        if self._operators > MAX_OPERATORS:
            raise self._invalid(
                "The expression contains too many operators and functions; "
                f"maximum number of operators and functions: {MAX_OPERATORS}"
            )

    def _unexpected(self) -> EngineError:
        return syntax_error(self._kind, self._text, self._tokens, self._at)

    def _invalid(self, problem: str) -> EngineError:
        return invalid(self._kind, problem)
