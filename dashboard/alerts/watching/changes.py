"""The changes of alerts after an evaluation of the conditions, and their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from django.db.models import QuerySet

from dashboard.models import Alert

CHANGING = ("title", "detail", "severity")
TEXTS = ("key", "pair", "entity", "title", "detail")
AT_ONCE = 2_000
"""Rows per query or statement, so that a pair with ten thousand failed-over entities needs few of them."""
Item = TypeVar("Item")


@dataclass(slots=True)
class Changes:
    """Opened and resolved alerts; one that started and ended between two evaluations is in both.

    An alert that became more severe is replaced by an opened one, and is not reported as resolved.
    """

    opened: list[Alert] = field(default_factory=list)
    resolved: list[Alert] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.opened or self.resolved)


def open_alerts() -> QuerySet[Alert]:
    """The open alerts."""
    return Alert.objects.filter(resolved_at__isnull=True)


def save(alerts: Sequence[Alert], *columns: str) -> None:
    """Update these columns of existing alerts, in statements of bounded size."""
    Alert.objects.bulk_create(
        alerts, batch_size=AT_ONCE, update_conflicts=True, unique_fields=("pk",), update_fields=columns
    )


def parts(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """The items in chunks for one query each."""
    for start in range(0, len(items), AT_ONCE):
        yield items[start : start + AT_ONCE]
