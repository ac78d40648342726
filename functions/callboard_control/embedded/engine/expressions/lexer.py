"""Expression text → tokens."""

from __future__ import annotations

import re
from typing import NamedTuple

from callboard_control.embedded.engine.errors import EngineError, validation

# A bare name starts with a letter; after # or : digits and underscores may come first (seen on DynamoDB).
_TOKEN = re.compile(
    r"[ \t\r\n]+"
    r"|(?P<name>[A-Za-z][A-Za-z0-9_]*)"
    r"|(?P<nameref>\#[A-Za-z0-9_]+)"
    r"|(?P<valueref>:[A-Za-z0-9_]+)"
    r"|(?P<index>[0-9]+)"
    r"|(?P<symbol><>|<=|>=|[=<>()\[\],.+-])"
)
END = "<EOF>"


class Token(NamedTuple):
    """`kind` is name, nameref, valueref, index, symbol or end; `start` and `stop` are offsets in the text."""

    kind: str
    text: str
    start: int
    stop: int


def tokenize(kind: str, text: str) -> list[Token]:
    """Return the tokens of `text`, the last one being the end; `kind` names the parameter in the error raised."""
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            bad = Token("bad", text[position], position, position + 1)
            raise syntax_error(kind, text, [*tokens, bad], len(tokens))
        if match.lastgroup is not None:
            tokens.append(Token(match.lastgroup, match[0], position, match.end()))
        position = match.end()
    tokens.append(Token("end", END, len(text), len(text)))
    return tokens


def syntax_error(kind: str, text: str, tokens: list[Token], at: int) -> EngineError:
    """DynamoDB's syntax error: the token that does not fit, and the text from the one before to the one after it."""
    first = tokens[max(at - 1, 0)]
    last = tokens[min(at + 1, len(tokens) - 1)]
    near = text[first.start : last.stop]
    return invalid(kind, f'Syntax error; token: "{tokens[at].text}", near: "{near}"')


def invalid(kind: str, problem: str) -> EngineError:
    """A ValidationException about the expression parameter `kind`."""
    return validation(f"Invalid {kind}: {problem}")
