"""The tokens of Service Bus SQL: identifiers in three forms, constants, parameters and operators."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from emulator.broker.descriptions import DescriptionError

MAX_EXPRESSION = 1024

KEYWORDS = frozenset(["AND", "OR", "NOT", "LIKE", "ESCAPE", "IN", "IS", "NULL", "EXISTS", "TRUE", "FALSE"])
ACTIONS = frozenset(["SET", "REMOVE"])

_INT64 = range(-(2**63), 2**63)


class SqlError(DescriptionError):
    """A syntax error; the text gives its position."""


class Kind(Enum):
    """The kinds of tokens."""

    KEYWORD = auto()
    NAME = auto()
    DELIMITED = auto()
    PARAMETER = auto()
    TEXT = auto()
    INTEGER = auto()
    NUMBER = auto()
    SIGN = auto()
    END = auto()


@dataclass(frozen=True, slots=True)
class Token:
    """One token: `text` is unquoted, keywords are in capitals, `position` counts from 1."""

    kind: Kind
    text: str
    position: int


_WORDS = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<NUMBER>\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)"
    r"|(?P<INTEGER>\d+)"
    r"|(?P<NAME>[^\W\d_]\w*)"
    r"|(?P<PARAMETER>@\w+)"
    r"|(?P<TEXT>'(?:[^']|'')*')"
    r"|(?P<DELIMITED>\[(?:[^\]]|\]\])+\]|\"(?:[^\"]|\"\")+\")"
    r"|(?P<SIGN><>|!=|>=|<=|[=<>+\-*/%().,;])"
)


def tokens(expression: str) -> list[Token]:
    """Return the tokens of the expression, with END as the last. Raises SqlError."""
    if len(expression) > MAX_EXPRESSION:
        raise SqlError(f"The expression is longer than {MAX_EXPRESSION} characters.")
    return [*_tokens(expression), Token(Kind.END, "the end", len(expression) + 1)]


def _tokens(expression: str) -> Iterator[Token]:
    position = 0
    while position < len(expression):
        found = _WORDS.match(expression, position)
        if found is None or found.lastgroup is None:
            raise SqlError(f"Unexpected {expression[position]!r} at position {position + 1} of the expression.")
        if found.lastgroup != "space":
            yield _token(Kind[found.lastgroup], found.group(), position + 1)
        position = found.end()


def _token(kind: Kind, text: str, position: int) -> Token:
    match kind:
        case Kind.NAME if text.upper() in KEYWORDS or text.upper() in ACTIONS:
            return Token(Kind.KEYWORD, text.upper(), position)
        case Kind.TEXT:
            return Token(kind, text[1:-1].replace("''", "'"), position)
        case Kind.DELIMITED:
            closing = text[-1]
            return Token(kind, text[1:-1].replace(closing * 2, closing), position)
        case Kind.INTEGER if len(text) > 19 or int(text) not in _INT64:
            raise SqlError(f"The number at position {position} of the expression is too large.")
        case _:
            return Token(kind, text, position)
