"""Parsed expressions. Each node computes its value for a message; None is unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

from emulator.broker.sql.values import FilterError, Value, calculate, compare, is_like, negate


class Subject(Protocol):
    """A message as an expression sees it. Names are compared without case."""

    def user(self, name: str) -> Value:
        """The application property, None if there is none."""

    def has_user(self, name: str) -> bool:
        """Whether the message has this application property, possibly with the value null."""

    def system(self, name: str) -> Value:
        """The system property, None if the message does not have it."""


class Node(Protocol):
    """Part of an expression."""

    def value(self, subject: Subject) -> Value:
        """The value for this message. Raises FilterError."""


def _truth(value: Value) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise FilterError("A condition is needed where the expression gives a value.")


@dataclass(frozen=True, slots=True)
class Constant:
    constant: Any

    def value(self, subject: Subject) -> Value:
        return self.constant


@dataclass(frozen=True, slots=True)
class UserProperty:
    name: str

    def value(self, subject: Subject) -> Value:
        return subject.user(self.name)

    def exists(self, subject: Subject) -> bool:
        return subject.has_user(self.name)


@dataclass(frozen=True, slots=True)
class SystemProperty:
    name: str

    def value(self, subject: Subject) -> Value:
        return subject.system(self.name)

    def exists(self, subject: Subject) -> bool:
        return subject.system(self.name) is not None


Property = UserProperty | SystemProperty


@dataclass(frozen=True, slots=True)
class NamedProperty:
    """`property(name)`: the name is an expression."""

    name: Node

    def value(self, subject: Subject) -> Value:
        name = self.name.value(subject)
        if name is not None and not isinstance(name, str):
            raise FilterError("The name of a property must be a text.")
        return None if name is None else subject.user(name)


@dataclass(frozen=True, slots=True)
class NewId:
    """`newid()`: a new GUID at each evaluation."""

    def value(self, subject: Subject) -> Value:
        return uuid4()


@dataclass(frozen=True, slots=True)
class Negative:
    operand: Node

    def value(self, subject: Subject) -> Value:
        return negate(self.operand.value(subject))


@dataclass(frozen=True, slots=True)
class Calculation:
    """Operands of one precedence, from left to right."""

    first: Node
    rest: tuple[tuple[str, Node], ...]

    def value(self, subject: Subject) -> Value:
        result = self.first.value(subject)
        for sign, operand in self.rest:
            result = calculate(sign, result, operand.value(subject))
        return result


@dataclass(frozen=True, slots=True)
class Comparison:
    sign: str
    left: Node
    right: Node

    def value(self, subject: Subject) -> bool | None:
        return compare(self.sign, self.left.value(subject), self.right.value(subject))


@dataclass(frozen=True, slots=True)
class IsNull:
    operand: Node

    def value(self, subject: Subject) -> bool:
        return self.operand.value(subject) is None


@dataclass(frozen=True, slots=True)
class Exists:
    operand: Property

    def value(self, subject: Subject) -> bool:
        return self.operand.exists(subject)


@dataclass(frozen=True, slots=True)
class In:
    operand: Node
    choices: tuple[Node, ...]

    def value(self, subject: Subject) -> bool | None:
        wanted = self.operand.value(subject)
        if wanted is None:
            return None
        unknown = False
        for choice in self.choices:
            found = compare("=", wanted, choice.value(subject))
            if found:
                return True
            unknown = unknown or found is None
        return None if unknown else False


@dataclass(frozen=True, slots=True)
class Like:
    operand: Node
    pattern: Node
    escape: Node | None

    def value(self, subject: Subject) -> bool | None:
        escape = self.escape.value(subject) if self.escape else None
        if self.escape and escape is None:
            return None
        return is_like(self.operand.value(subject), self.pattern.value(subject), escape)


@dataclass(frozen=True, slots=True)
class Not:
    operand: Node

    def value(self, subject: Subject) -> bool | None:
        truth = _truth(self.operand.value(subject))
        return None if truth is None else not truth


@dataclass(frozen=True, slots=True)
class And:
    operands: tuple[Node, ...]

    def value(self, subject: Subject) -> bool | None:
        result: bool | None = True
        for operand in self.operands:
            truth = _truth(operand.value(subject))
            if truth is False:
                return False
            result = None if truth is None else result
        return result


@dataclass(frozen=True, slots=True)
class Or:
    operands: tuple[Node, ...]

    def value(self, subject: Subject) -> bool | None:
        result: bool | None = False
        for operand in self.operands:
            truth = _truth(operand.value(subject))
            if truth is True:
                return True
            result = None if truth is None else result
        return result


@dataclass(frozen=True, slots=True)
class Assignment:
    """`SET property = expression`."""

    target: Property
    expression: Node


@dataclass(frozen=True, slots=True)
class Removal:
    """`REMOVE property`."""

    target: Property


Statement = Assignment | Removal
