"""The filters and the action a rule may have, as data.

A filter says which messages of a topic a subscription takes; an action changes the copy it takes.
`emulator/broker/rules.py` decides with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

PropertyValue = str | bytes | int | float | bool | datetime | timedelta | None

COMPATIBILITY_LEVEL = 20


@dataclass(frozen=True, slots=True)
class SqlFilter:
    """Takes the messages for which the expression is true; unknown counts as false."""

    expression: str = "1=1"
    parameters: Mapping[str, PropertyValue] = field(default_factory=dict)
    requires_preprocessing: bool = False


@dataclass(frozen=True, slots=True)
class TrueFilter:
    """Takes every message."""


@dataclass(frozen=True, slots=True)
class FalseFilter:
    """Takes no message."""


@dataclass(frozen=True, slots=True)
class CorrelationFilter:
    """Takes the messages whose properties equal every one given here; at least one is."""

    correlation_id: str | None = None
    message_id: str | None = None
    to: str | None = None
    reply_to: str | None = None
    label: str | None = None
    session_id: str | None = None
    reply_to_session_id: str | None = None
    content_type: str | None = None
    properties: Mapping[str, PropertyValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SqlRuleAction:
    """Statements (`SET`, `REMOVE`) applied to the copy of a message the rule took."""

    expression: str
    parameters: Mapping[str, PropertyValue] = field(default_factory=dict)
    requires_preprocessing: bool = False


RuleFilter = SqlFilter | TrueFilter | FalseFilter | CorrelationFilter
