"""Service Bus SQL, read from text by recursive descent: one method per level of precedence."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from emulator.broker.filters import PropertyValue
from emulator.broker.sql import nodes
from emulator.broker.sql.lexer import Kind, SqlError, Token, tokens
from emulator.broker.sql.values import COMPARISONS

MAX_DEPTH = 24
MAX_STATEMENTS = 32

# The system properties of a message, in lower case. `Subject` is the newer name of `Label`.
SYSTEM_PROPERTIES = frozenset(
    name.lower()
    for name in (
        *("ContentType", "CorrelationId", "DeadLetterSource", "DeliveryCount", "EnqueuedSequenceNumber"),
        *("EnqueuedTimeUtc", "ExpiresAtUtc", "ForcePersistence", "Label", "LockedUntilUtc", "MessageId"),
        *("PartitionKey", "ReplyTo", "ReplyToSessionId", "ScheduledEnqueueTimeUtc", "SequenceNumber", "SessionId"),
        *("Size", "State", "Subject", "TimeToLive", "To", "ViaPartitionKey"),
    )
)
SETTABLE = frozenset(
    name.lower()
    for name in (
        *("ContentType", "CorrelationId", "Label", "MessageId", "PartitionKey", "ReplyTo", "ReplyToSessionId"),
        *("ScheduledEnqueueTimeUtc", "SessionId", "Subject", "TimeToLive", "To"),
    )
)


def parse_condition(expression: str, parameters: Mapping[str, PropertyValue] | None = None) -> nodes.Node:
    """Parse the condition of an SQL filter. Raises SqlError with the position."""
    parser = _Parser(expression, parameters or {})
    condition = parser.condition()
    parser.expect_end()
    return condition


def parse_action(expression: str, parameters: Mapping[str, PropertyValue] | None = None) -> tuple[nodes.Statement, ...]:
    """Parse the statements of a rule action. Raises SqlError."""
    parser = _Parser(expression, parameters or {})
    statements = parser.statements()
    parser.expect_end()
    return statements


class _Parser:
    def __init__(self, expression: str, parameters: Mapping[str, PropertyValue]) -> None:
        self._tokens = tokens(expression)
        self._at = 0
        self._depth = 0
        self._parameters = {name.lstrip("@").casefold(): value for name, value in parameters.items()}

    # --- tokens ----------------------------------------------------------------------------------------------------

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _advance(self) -> Token:
        token = self._next
        self._at += 1
        return token

    def _is(self, text: str, ahead: int = 0) -> bool:
        token = self._tokens[min(self._at + ahead, len(self._tokens) - 1)]
        return token.kind in (Kind.KEYWORD, Kind.SIGN) and token.text == text

    def _accept(self, text: str) -> bool:
        found = self._is(text)
        self._at += found
        return found

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self._unexpected(f"{text} is missing")

    def expect_end(self) -> None:
        if self._next.kind is not Kind.END:
            raise self._unexpected("the expression should have ended")

    def _unexpected(self, why: str) -> SqlError:
        token = self._next
        return SqlError(f"Syntax error at position {token.position} of the expression, at {token.text!r}: {why}.")

    def _nested(self, level: Callable[[], nodes.Node]) -> nodes.Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise SqlError(f"The expression is nested more than {MAX_DEPTH} levels deep.")
        node = level()
        self._depth -= 1
        return node

    # --- conditions ------------------------------------------------------------------------------------------------

    def condition(self) -> nodes.Node:
        operands = [self._conjunction()]
        while self._accept("OR"):
            operands.append(self._conjunction())
        return nodes.Or(tuple(operands)) if len(operands) > 1 else operands[0]

    def _conjunction(self) -> nodes.Node:
        operands = [self._negation()]
        while self._accept("AND"):
            operands.append(self._negation())
        return nodes.And(tuple(operands)) if len(operands) > 1 else operands[0]

    def _negation(self) -> nodes.Node:
        if self._accept("NOT"):
            return nodes.Not(self._nested(self._negation))
        return self._predicate()

    def _predicate(self) -> nodes.Node:
        if self._accept("EXISTS"):
            self._expect("(")
            target = self._property()
            self._expect(")")
            return nodes.Exists(target)
        left = self._sum()
        if self._next.kind is Kind.SIGN and self._next.text in COMPARISONS:
            return nodes.Comparison(self._advance().text, left, self._sum())
        if self._accept("IS"):
            negated = self._accept("NOT")
            self._expect("NULL")
            return _negated(nodes.IsNull(left), negated)
        negated = self._accept("NOT")
        if self._accept("IN"):
            return _negated(nodes.In(left, self._choices()), negated)
        if self._accept("LIKE"):
            pattern = self._sum()
            return _negated(nodes.Like(left, pattern, self._sum() if self._accept("ESCAPE") else None), negated)
        if negated:
            raise self._unexpected("IN or LIKE is missing after NOT")
        return left

    def _choices(self) -> tuple[nodes.Node, ...]:
        self._expect("(")
        choices = [self._sum()]
        while self._accept(","):
            choices.append(self._sum())
        self._expect(")")
        return tuple(choices)

    # --- values ----------------------------------------------------------------------------------------------------

    def _sum(self) -> nodes.Node:
        return self._calculation(("+", "-"), lambda: self._calculation(("*", "/", "%"), self._signed))

    def _calculation(self, signs: tuple[str, ...], operand: Callable[[], nodes.Node]) -> nodes.Node:
        first = operand()
        rest: list[tuple[str, nodes.Node]] = []
        while self._next.kind is Kind.SIGN and self._next.text in signs:
            rest.append((self._advance().text, operand()))
        return nodes.Calculation(first, tuple(rest)) if rest else first

    def _signed(self) -> nodes.Node:
        if self._accept("-"):
            return nodes.Negative(self._nested(self._signed))
        if self._accept("+"):
            return self._nested(self._signed)
        return self._operand()

    def _operand(self) -> nodes.Node:
        token = self._next
        if self._accept("("):
            inner = self._nested(self.condition)
            self._expect(")")
            return inner
        match token.kind:
            case Kind.TEXT:
                return nodes.Constant(self._advance().text)
            case Kind.INTEGER:
                return nodes.Constant(int(self._advance().text))
            case Kind.NUMBER:
                return nodes.Constant(float(self._advance().text))
            case Kind.PARAMETER:
                return self._parameter()
            case Kind.KEYWORD if token.text in _CONSTANTS:
                return nodes.Constant(_CONSTANTS[self._advance().text])
            case Kind.NAME if self._is("(", ahead=1):
                return self._function()
            case _:
                return self._property()

    def _parameter(self) -> nodes.Node:
        name = self._next.text[1:].casefold()
        if name not in self._parameters:
            raise self._unexpected("no value is given for this parameter")
        self._advance()
        return nodes.Constant(self._parameters[name])

    def _function(self) -> nodes.Node:
        name = self._next.text.lower()
        if name not in ("newid", "property", "p"):
            raise self._unexpected("the functions are newid(), property(name) and p(name)")
        self._at += 2
        if name == "newid":
            node: nodes.Node = nodes.NewId()
        else:
            node = nodes.NamedProperty(self._nested(self._sum))
        self._expect(")")
        return node

    def _property(self) -> nodes.Property:
        name = self._identifier()
        if self._is(".") and name.lower() in ("sys", "user"):
            self._advance()
            inner = self._next
            if name.lower() == "user":
                return nodes.UserProperty(self._identifier())
            name = self._identifier().lower()
            if name not in SYSTEM_PROPERTIES:
                raise SqlError(f"There is no system property {inner.text!r} (position {inner.position}).")
            return nodes.SystemProperty("label" if name == "subject" else name)
        return nodes.UserProperty(name)

    def _identifier(self) -> str:
        if self._next.kind not in (Kind.NAME, Kind.DELIMITED):
            raise self._unexpected("a property, a constant or a parenthesis is missing")
        return self._advance().text

    # --- actions ---------------------------------------------------------------------------------------------------

    def statements(self) -> tuple[nodes.Statement, ...]:
        found = [self._statement()]
        while self._next.kind is not Kind.END:
            found.append(self._statement())
            if len(found) > MAX_STATEMENTS:
                raise SqlError(f"An action has at most {MAX_STATEMENTS} statements.")
        return tuple(found)

    def _statement(self) -> nodes.Statement:
        if self._accept("SET"):
            target = self._settable()
            self._expect("=")
            statement: nodes.Statement = nodes.Assignment(target, self._sum())
        elif self._accept("REMOVE"):
            statement = nodes.Removal(self._settable())
        else:
            raise self._unexpected("SET or REMOVE is missing")
        _ = self._accept(";") or self._accept(",")
        return statement

    def _settable(self) -> nodes.Property:
        target = self._property()
        if isinstance(target, nodes.SystemProperty) and target.name not in SETTABLE:
            raise SqlError(f"The system property {target.name!r} cannot be changed by an action.")
        return target


_CONSTANTS: dict[str, bool | None] = {"TRUE": True, "FALSE": False, "NULL": None}


def _negated(node: nodes.Node, negated: bool) -> nodes.Node:
    return nodes.Not(node) if negated else node
