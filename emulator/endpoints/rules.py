"""Rules of subscriptions as the `$management` node reads and writes them."""

from __future__ import annotations

from typing import Any

from amqp10.types import Described, Timestamp, ULong
from emulator.broker.descriptions import RuleDescription
from emulator.broker.errors import ArgumentError
from emulator.broker.filters import CorrelationFilter, FalseFilter, RuleFilter, SqlFilter, SqlRuleAction, TrueFilter
from emulator.broker.properties import from_amqp, to_amqp
from emulator.broker.rules import Rule

_RULE_DESCRIPTION = ULong(0x13700000004)
_EMPTY_ACTION, _SQL_ACTION = ULong(0x13700000005), ULong(0x13700000006)
_SQL_FILTER, _TRUE_FILTER, _FALSE_FILTER = ULong(0x1370000006), ULong(0x1370000007), ULong(0x1370000008)
_CORRELATION_FILTER = ULong(0x1370000009)
_COMPATIBILITY_LEVEL = 20

# The fields of a correlation filter in the order of its list, by their names in a map.
_CORRELATION = {
    "correlation-id": "correlation_id",
    "message-id": "message_id",
    "to": "to",
    "reply-to": "reply_to",
    "label": "label",
    "session-id": "session_id",
    "reply-to-session-id": "reply_to_session_id",
    "content-type": "content_type",
}


def read_rule(name: str, description: Any) -> RuleDescription:
    """The rule that a map of `add-rule` describes. Raises ArgumentError."""
    if not isinstance(description, dict):
        raise ArgumentError("The field 'rule-description' is missing or invalid.")
    action = description.get("sql-rule-action")
    return RuleDescription(
        name, _read_filter(description), None if action is None else SqlRuleAction(_expression(action))
    )


def _read_filter(description: dict[Any, Any]) -> RuleFilter:
    sql, correlation = description.get("sql-filter"), description.get("correlation-filter")
    if sql is not None:
        return SqlFilter(_expression(sql))
    if not isinstance(correlation, dict):
        raise ArgumentError("A rule needs a sql-filter or a correlation-filter.")
    fields = {field: _text(correlation.get(name)) for name, field in _CORRELATION.items()}
    properties = correlation.get("properties") or {}
    if not isinstance(properties, dict):
        raise ArgumentError("The properties of a correlation filter must be a map.")
    return CorrelationFilter(**fields, properties={str(key): from_amqp(value) for key, value in properties.items()})


def _expression(value: Any) -> str:
    expression = value.get("expression") if isinstance(value, dict) else None
    if not isinstance(expression, str):
        raise ArgumentError("A SQL filter or action needs an expression.")
    return str(expression)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def rule_value(rule: Rule) -> Described:
    """A rule as `enumerate-rules` returns it."""
    action = rule.description.action
    written = (
        Described(_EMPTY_ACTION, [])
        if action is None
        else Described(_SQL_ACTION, [action.expression, _COMPATIBILITY_LEVEL])
    )
    created_at = Timestamp(int(rule.created_at * 1000))
    return Described(_RULE_DESCRIPTION, [_filter_value(rule.description.filter), written, rule.name, created_at])


def _filter_value(rule_filter: RuleFilter) -> Described:
    match rule_filter:
        case SqlFilter(expression):
            return Described(_SQL_FILTER, [expression, _COMPATIBILITY_LEVEL])
        case CorrelationFilter():
            fields = [getattr(rule_filter, field) for field in _CORRELATION.values()]
            properties = {key: to_amqp(value) for key, value in rule_filter.properties.items()}
            return Described(_CORRELATION_FILTER, [*fields, properties])
        case FalseFilter():
            return Described(_FALSE_FILTER, [])
        case TrueFilter():
            return Described(_TRUE_FILTER, [])
