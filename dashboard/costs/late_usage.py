"""Usage that came late: past days of which records were written, until a run has priced them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime

from django.db import transaction
from django.db.models import Max

from dashboard.models import ChargeRun, LateUsage


@transaction.atomic
def note_late_days(days: Iterable[date], now: datetime) -> None:
    """Note that records of these days were written at `now`; days that are not over need no note."""
    for day in sorted(day for day in set(days) if day < now.date()):
        LateUsage.objects.update_or_create(day=day, defaults={"noted_at": now})


def months_with_late_usage() -> list[str]:
    """The months of the noted days, the earliest first."""
    return sorted({f"{day:%Y-%m}" for day in LateUsage.objects.values_list("day", flat=True)})


def late_days(month: str, before: datetime | None = None) -> list[date]:
    """The noted days of the month, where given only those that were noted before a time."""
    noted = LateUsage.objects.filter(day__startswith=month)
    return [*(noted.filter(noted_at__lt=before) if before else noted).values_list("day", flat=True)]


def last_computed() -> dict[str, datetime]:
    """When the last successful run of each month began to read USAGE_DIR; only such a run names the late days."""
    runs = ChargeRun.objects.filter(status=ChargeRun.Status.SUCCEEDED, details__has_key="late_days")
    return dict(runs.order_by().values_list("month").annotate(began=Max("started_at")))


def forget_late_days(month: str, began: datetime) -> None:
    """A run that began at `began` has priced what was noted before."""
    LateUsage.objects.filter(day__startswith=month, noted_at__lt=began).delete()
