"""What all expressions share: walking the tokens, paths, operands, limits and errors."""

from __future__ import annotations

from callboard_control.embedded.engine.errors import EngineError
from callboard_control.embedded.engine.expressions import lexer, reserved, syntax
from callboard_control.embedded.engine.expressions.lexer import Token
from callboard_control.embedded.engine.expressions.syntax import Operand

MAX_BYTES = 4096
MAX_OPERATORS = 300
MAX_REFERENCE = 255
_MAX_PATH = 32
_MAX_INDEX_DIGITS = 9
# Functions within functions. Deeper than two is an error with DynamoDB too, though with other words.
_MAX_CALLS = 32


class Reader:
    """The tokens of one expression, read from left to right.

    `kind` is the parameter's name, for errors; `keywords` are the words that are no attribute names in this kind of
    expression. Raises ValidationException for an empty or too long expression and for bytes that are no token.
    """

    def __init__(self, kind: str, text: str, *, keywords: frozenset[str] = frozenset()) -> None:
        self._kind = kind
        self._text = text
        self._keywords = keywords
        size = len(text.encode(errors="replace"))
        if size > MAX_BYTES:
            raise self.invalid(f"Expression size has exceeded the maximum allowed size; expression size: {size}")
        if not text.strip(" \t\r\n"):
            raise self.invalid("The expression can not be empty;")
        self._tokens = lexer.tokenize(kind, text)
        self._at = 0
        self._operators = 0
        self._calls = 0

    # Tokens

    def peek(self) -> Token:
        """The next token."""
        return self._tokens[self._at]

    def next(self) -> Token:
        """The next token, taken."""
        self._at += 1
        return self._tokens[self._at - 1]

    def accept(self, symbol: str) -> bool:
        """Take the next token if it is this symbol."""
        token = self.peek()
        if token.kind != "symbol" or token.text != symbol:
            return False
        self._at += 1
        return True

    def accept_word(self, word: str) -> bool:
        """Take the next token if it is this keyword, in any case."""
        token = self.peek()
        if token.kind != "name" or token.text.upper() != word:
            return False
        self._at += 1
        return True

    def expect(self, symbol: str) -> None:
        """Take this symbol or fail."""
        if not self.accept(symbol):
            raise self.unexpected()

    def expect_end(self) -> None:
        """Fail unless everything was read."""
        if self.peek().kind != "end":
            raise self.unexpected()

    # Operands

    def operand(self) -> Operand:
        """A path, a value or a function call, perhaps in parentheses."""
        if not self.accept("("):
            return self.bare_operand()
        if self.accept("("):
            raise self.invalid("The expression has redundant parentheses;")
        operand = self.bare_operand()
        self.expect(")")
        return operand

    def bare_operand(self) -> Operand:
        """A path, a value or a function call."""
        token = self.peek()
        if token.kind == "valueref":
            return syntax.Literal(self._reference())
        if token.kind == "name" and self._tokens[self._at + 1].text == "(" and not self._is_keyword(token):
            return self._call()
        return self.path()

    def operands(self) -> tuple[Operand, ...]:
        """One or more operands up to the closing parenthesis."""
        found = [self.operand()]
        while self.accept(","):
            found.append(self.operand())
        self.expect(")")
        return tuple(found)

    def path(self) -> syntax.Path:
        """A document path."""
        elements: list[str | int] = [self._attribute()]
        while True:
            if self.accept("."):
                elements.append(self._attribute())
            elif self.accept("["):
                elements.append(self._index())
                self.expect("]")
            else:
                break
        if len(elements) > _MAX_PATH:
            raise self.invalid(f"The document path has too many nesting elements; nesting levels: {len(elements)}")
        return syntax.Path(tuple(elements))

    def _call(self) -> syntax.Call:
        name = self.next().text
        self._calls += 1
        if self._calls > _MAX_CALLS:
            raise self.invalid(f"The function is not allowed to be used this way in an expression; function: {name}")
        self.expect("(")
        call = syntax.Call(name, self.operands())
        self._calls -= 1
        return call

    def _attribute(self) -> str:
        token = self.peek()
        if token.kind == "nameref":
            return self._reference()
        if token.kind != "name" or self._is_keyword(token):
            raise self.unexpected()
        if token.text.upper() in reserved.WORDS:
            raise self.invalid(f"Attribute name is a reserved keyword; reserved keyword: {token.text}")
        return self.next().text

    def _reference(self) -> str:
        text = self.next().text
        if len(text) > MAX_REFERENCE:
            raise self.invalid(f"A reference has at most {MAX_REFERENCE} characters; reference: {text[:32]}…")
        return text

    def _index(self) -> int:
        token = self.peek()
        if token.kind != "index":
            raise self.unexpected()
        if len(token.text) > _MAX_INDEX_DIGITS:
            raise self.invalid(f"List index is not within the allowable range; index: [{token.text}]")
        return int(self.next().text)

    def _is_keyword(self, token: Token) -> bool:
        return token.text.upper() in self._keywords

    # Limits and errors

    def count_operator(self) -> None:
        """Count an operator; functions and parentheses are not counted (seen on DynamoDB)."""
        self._operators += 1
        if self._operators > MAX_OPERATORS:
            raise self.invalid(f"The expression contains too many operators; operator count: {self._operators}")

    def unexpected(self) -> EngineError:
        """The syntax error at the next token."""
        return lexer.syntax_error(self._kind, self._text, self._tokens, self._at)

    def invalid(self, problem: str) -> EngineError:
        """An error about this expression."""
        return lexer.invalid(self._kind, problem)
