"""The filters and the action a rule may have, as data.

A filter selects messages of a topic for a subscription; an action changes the selected copy.
`emulator/broker/rules.py` evaluates them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

PropertyValue = str | bytes | int | float | bool | datetime | timedelta | None

COMPATIBILITY_LEVEL = 20


@dataclass(frozen=True, slots=True)
class SqlFilter:
    """Matches messages for which the expression is true; unknown counts as false."""

    expression: str = "1=1"
    parameters: Mapping[str, PropertyValue] = field(default_factory=dict)
    requires_preprocessing: bool = False


@dataclass(frozen=True, slots=True)
class TrueFilter:
    """Matches every message."""


@dataclass(frozen=True, slots=True)
class FalseFilter:
    """Matches no message."""


@dataclass(frozen=True, slots=True)
class CorrelationFilter:
    """Matches messages whose properties equal all those given here; at least one must be given."""

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
    """Statements (`SET`, `REMOVE`) applied to the copy of a matching message."""

    expression: str
    parameters: Mapping[str, PropertyValue] = field(default_factory=dict)
    requires_preprocessing: bool = False


RuleFilter = SqlFilter | TrueFilter | FalseFilter | CorrelationFilter
