"""The rules of a subscription: which messages match, and how actions change the copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, assert_never

from amqp10.types import DecodeError
from emulator.broker.descriptions import RuleDescription, validate_rule
from emulator.broker.filters import CorrelationFilter, FalseFilter, RuleFilter, SqlFilter, SqlRuleAction, TrueFilter
from emulator.broker.message import Message
from emulator.broker.properties import MessageProperties, to_amqp
from emulator.broker.sql import (
    Assignment,
    FilterError,
    Statement,
    SystemProperty,
    Value,
    convert_like,
    parse_action,
    parse_condition,
    same,
    to_text,
)

RULE_NAME = "RuleName"
MAX_GROWTH = 64 * 1024

Condition = Callable[[MessageProperties], bool]

# System properties an action can set, and their names in the message. Setting the partition key or the scheduled time
# has no effect on a copy that is already in its subscription (docs/emulator.md).
_STANDARD = {
    "contenttype": "content_type",
    "correlationid": "correlation_id",
    "label": "subject",
    "messageid": "message_id",
    "replyto": "reply_to",
    "replytosessionid": "reply_to_group_id",
    "sessionid": "group_id",
    "to": "to",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """A compiled rule. `created_at` in seconds since the epoch."""

    description: RuleDescription
    created_at: float
    matches: Condition
    statements: tuple[Statement, ...]

    @property
    def name(self) -> str:
        return self.description.name

    def copy(self, properties: MessageProperties) -> Message:
        """The message after this rule's action, with the property RuleName. Raises FilterError."""
        draft = _Draft(properties)
        for statement in self.statements:
            draft.apply(statement)
        return draft.message(self.name)


def compile_rule(description: RuleDescription, now: float) -> Rule:
    """Compile a rule. Raises DescriptionError for an invalid name, filter or action."""
    validate_rule(description)
    return Rule(description, now, _condition(description.filter), _statements(description.action))


def copies(rules: Sequence[Rule], properties: MessageProperties) -> tuple[list[Message], list[FilterError]]:
    """The copies a subscription with these rules gets of a message, and the errors of rules that failed.

    All matching rules without an action produce one copy together, each matching rule with an action one of its own.
    """
    messages: list[Message] = []
    failed: list[FilterError] = []
    is_copied_unchanged = False
    for rule in rules:
        if is_copied_unchanged and not rule.statements:
            continue
        try:
            if rule.matches(properties):
                messages.append(rule.copy(properties) if rule.statements else properties.message)
                is_copied_unchanged = is_copied_unchanged or not rule.statements
        except FilterError as error:
            failed.append(error)
    return messages, failed


def _condition(rule_filter: RuleFilter) -> Condition:
    match rule_filter:
        case TrueFilter():
            return lambda properties: True
        case FalseFilter():
            return lambda properties: False
        case SqlFilter():
            return _sql_condition(rule_filter)
        case CorrelationFilter():
            return _correlation(rule_filter)
        case _:
            assert_never(rule_filter)


def _sql_condition(rule_filter: SqlFilter) -> Condition:
    node = parse_condition(rule_filter.expression, rule_filter.parameters)

    def matches(properties: MessageProperties) -> bool:
        value = node.value(properties)
        if value is not None and not isinstance(value, bool):
            raise FilterError("The filter's expression is not a condition.")
        return value is True

    return matches


def _correlation(rule_filter: CorrelationFilter) -> Condition:
    system = [
        (name, wanted) for name, field in _CORRELATED.items() if (wanted := getattr(rule_filter, field)) is not None
    ]
    user = list(rule_filter.properties.items())

    def matches(properties: MessageProperties) -> bool:
        return all(properties.system(name) == wanted for name, wanted in system) and all(
            same(properties.user(name), wanted) for name, wanted in user
        )

    return matches


_CORRELATED = {
    "correlationid": "correlation_id",
    "messageid": "message_id",
    "to": "to",
    "replyto": "reply_to",
    "label": "label",
    "sessionid": "session_id",
    "replytosessionid": "reply_to_session_id",
    "contenttype": "content_type",
}


def _statements(action: SqlRuleAction | None) -> tuple[Statement, ...]:
    return () if action is None else parse_action(action.expression, action.parameters)


class _Draft:
    """A copy that is being modified: each statement sees the changes of those before it."""

    def __init__(self, properties: MessageProperties) -> None:
        self._original = properties
        self._user: dict[str, tuple[str, Value]] = {}
        self._removed: dict[str, str] = {}
        self._system: dict[str, Value] = {}

    def user(self, name: str) -> Value:
        key = name.casefold()
        if key in self._user:
            return self._user[key][1]
        return None if key in self._removed else self._original.user(name)

    def has_user(self, name: str) -> bool:
        key = name.casefold()
        return key in self._user or (key not in self._removed and self._original.has_user(name))

    def system(self, name: str) -> Value:
        return self._system[name] if name in self._system else self._original.system(name)

    def apply(self, statement: Statement) -> None:
        target = statement.target
        value = statement.expression.value(self) if isinstance(statement, Assignment) else None
        if isinstance(target, SystemProperty):
            self._system[target.name] = value
        elif isinstance(statement, Assignment):
            self._set(target.name, value)
        else:
            self._user.pop(target.name.casefold(), None)
            self._removed[target.name.casefold()] = self._original.spelling(target.name)

    def _set(self, name: str, value: Value) -> None:
        converted = convert_like(value, self.user(name))
        self._removed.pop(name.casefold(), None)
        self._user[name.casefold()] = (self._original.spelling(name), converted)

    def message(self, rule: str) -> Message:
        changed = {spelling: to_amqp(value) for spelling, value in self._user.values()}
        removed = frozenset(self._removed.values())
        try:
            message = self._original.message.with_application_properties(changed | {RULE_NAME: rule}, removed)
        except (TypeError, OverflowError, DecodeError) as error:
            raise FilterError(f"A property cannot hold the value it is set to: {error}.") from None
        message = self._with_system(message)
        if message.size - self._original.message.size > MAX_GROWTH:
            raise FilterError(f"The action makes the message more than {MAX_GROWTH} bytes larger.")
        return message

    def _with_system(self, message: Message) -> Message:
        standard = {_STANDARD[name]: _as_text(value) for name, value in self._system.items() if name in _STANDARD}
        if standard:
            message = message.with_properties(**standard)
        if "timetolive" in self._system:
            message = _with_time_to_live(message, self._system["timetolive"])
        return message


def _as_text(value: Value) -> str | None:
    return None if value is None else to_text(value)


def _with_time_to_live(message: Message, value: Any) -> Message:
    if value is None:
        return replace(message, ttl_s=None, header_ttl_ms=None)
    if not isinstance(value, timedelta) or value <= timedelta(0):
        raise FilterError("The time to live must be a duration above zero.")
    seconds = value.total_seconds()
    return replace(message, ttl_s=seconds, header_ttl_ms=min(int(seconds * 1000), 2**32 - 1))
