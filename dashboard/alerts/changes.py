"""What a look at the conditions came to, and the rows of alerts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from django.db.models import QuerySet

from dashboard.alerts.conditions import Condition
from dashboard.models import Alert
from dashboard.site.fitting import fitted

CHANGING = ("title", "detail", "severity")
PAIR, KEY, ENTITY, TITLE = 63, 420, 300, 300
AT_ONCE = 2_000
"""Rows of one question or statement: a pair that fails over with ten thousand entities takes few of them."""
Item = TypeVar("Item")


@dataclass(slots=True)
class Changes:
    """Alerts that were opened and resolved; one that came and went between two looks is in both.

    One that became more severe is `replaced` by one that was opened.
    """

    opened: list[Alert] = field(default_factory=list)
    resolved: list[Alert] = field(default_factory=list)
    replaced: list[Alert] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.opened or self.resolved)


def open_alerts() -> QuerySet[Alert]:
    """Those that are not over."""
    return Alert.objects.filter(resolved_at__isnull=True)


def fit(condition: Condition) -> Condition:
    """The condition with texts that columns can hold."""
    return replace(
        condition,
        key=fitted(condition.key, KEY),
        pair=fitted(condition.pair, PAIR),
        entity=fitted(condition.entity, ENTITY),
        title=fitted(condition.title, TITLE),
        detail=fitted(condition.detail, None),
    )


def alert_of(condition: Condition, now: datetime) -> Alert:
    """A row that is not saved yet."""
    return Alert(
        key=condition.key,
        kind=condition.kind,
        severity=condition.severity,
        pair=condition.pair,
        entity=condition.entity,
        title=condition.title,
        detail=condition.detail,
        began_at=min(condition.began_at, now),
        opened_at=now,
    )


def save(alerts: Sequence[Alert], *columns: str) -> None:
    """Write these columns of alerts that are there already, in statements that do not grow with each of them."""
    Alert.objects.bulk_create(
        alerts, batch_size=AT_ONCE, update_conflicts=True, unique_fields=("pk",), update_fields=columns
    )


def parts(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """The items, as many at a time as go into one question."""
    for start in range(0, len(items), AT_ONCE):
        yield items[start : start + AT_ONCE]
