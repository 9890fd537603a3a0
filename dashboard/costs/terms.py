"""The terms of a month: counting rule, allocation, hours and price list, as operators chose them.

What was chosen for a month, or for all months, holds for every run: that of the night, that of the page and that of a
shell. A closed month keeps the terms and the price rows with which it was closed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from django.db import transaction

from dashboard.access.visibility import require_all
from dashboard.costs.jobs import JobFailed
from dashboard.models import AuditEntry, ClosedMonth, CostTerms, Invoice
from dashboard.models.cost_terms import ALL_MONTHS
from dashboard.models.visibility import all_pairs

CHOSEN = ("rule", "allocation", "hours_in_month", "prices", "region")
OF_A_RESULT = ("allocation", "hours_in_month")
"""The chosen terms that a result names as they were chosen. It has the charges under each counting rule."""
NAMES = {"hours_in_month": "hours in the month", "prices": "price list"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a month is computed. Empty `prices`: PRICES_FILE, else the sample; no `hours_in_month`: the calendar's."""

    rule: str = "published"
    allocation: str = "time"
    hours_in_month: int | None = None
    prices: str = ""
    region: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedTerms:
    """The terms with which a month was closed, with its price rows."""

    rule: str
    allocation: str
    hours_in_month: int | None
    rows: Sequence[Mapping[str, str]]
    is_sample: bool

    def write_prices(self, folder: Path) -> str:
        """Write the price rows as a price list; returns its path, empty if the rows are not known."""
        if not self.rows:
            return ""
        path = folder / "prices-of-closed-month.json"
        path.write_text(json.dumps({"Items": [_item(row) for row in self.rows]}), encoding="utf-8")
        return str(path)

    @property
    def region(self) -> str:
        return next((row["region"] for row in self.rows if row.get("region")), "")


def _item(row: Mapping[str, str]) -> dict[str, str]:
    return {
        "meterName": row["meter"],
        "skuName": row["meter"].split()[0],
        "unitOfMeasure": row["unit"],
        "tierMinimumUnits": row["from"],
        "retailPrice": row["price"],
        "currencyCode": row["currency"],
        "armRegionName": row.get("region", ""),
        "effectiveStartDate": row.get("valid_from", ""),
    }


def terms_of(month: str) -> Terms:
    """The terms of the month: each as chosen for it, else as chosen for all months, else the default."""
    return replace(Terms(), **chosen_terms(month))


def next_terms(month: str) -> Terms | ClosedTerms:
    """The terms of the month's next run, also for somebody who does not see all pairs."""
    with all_pairs():
        return closed_terms(month) or terms_of(month)


def chosen_terms(month: str) -> dict[str, Any]:
    """The terms that somebody chose for the month or for all months, by name."""
    found: dict[str, Any] = {}
    rows = {row.month: row for row in CostTerms.objects.filter(month__in=(ALL_MONTHS, month))}
    for row in filter(None, (rows.get(ALL_MONTHS), rows.get(month))):
        found |= {name: value for name in CHOSEN if (value := getattr(row, name))}
    return found


def refuse_other_than_chosen(month: str, computed: Mapping[str, Any], rows: Sequence[Mapping[str, str]] | None) -> None:
    """Refuses a result that was computed with other terms than those chosen for the month. Raises JobFailed.

    Where nobody chose, the result may have any. `computed`: its terms by name, the price list as the rows that it has
    for the month; `rows`: those of the chosen list.
    """
    chosen = {name: value for name, value in chosen_terms(month).items() if name != "rule"}
    arguments = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in chosen.items())
    other = [name for name in OF_A_RESULT if name in chosen and computed[name] != chosen[name]]
    if other:
        found, wanted = (_in_words(other, terms) for terms in (computed, chosen))
        raise JobFailed(
            f"The result was computed with {found}, but the terms chosen for {month} are {wanted}: "
            f"run the job again with {arguments}."
        )
    if rows is not None and computed["prices"] != rows:
        raise JobFailed(
            f"The result was computed with other prices than those of the price list and region chosen for {month}: "
            f"run the job again with {arguments}."
        )


def closed_terms(month: str) -> ClosedTerms | None:
    """The terms with which the month was closed; None if it is open, or was closed without any invoice."""
    closed = Invoice.objects.filter(month=month, closed_at__isnull=False).select_related("run").order_by("run_id")
    invoice = closed.first()
    if invoice is None:
        return None
    details = invoice.run.details
    return ClosedTerms(
        rule=invoice.run.rule,
        allocation=invoice.allocation,
        hours_in_month=details.get("hours_in_month"),
        rows=details.get("prices") or [],
        is_sample=bool(details.get("sample_prices")),
    )


def refuse_other_terms(month: str, closed: ClosedTerms, given: Mapping[str, Any]) -> None:
    """Refuses terms of a closed month that differ from those with which it was closed. Raises JobFailed.

    `given`: the terms by name, empty where none was given; the price list as the rows that it has for the month.
    """
    kept = {
        "rule": closed.rule,
        "allocation": closed.allocation,
        "hours_in_month": closed.hours_in_month,
        "prices": closed.rows,
        "region": closed.region.lower(),
    }
    found = {**given, "region": given.get("region", "").lower()}  # the pipeline ignores its case too
    other = [name for name, value in found.items() if value not in ("", None) and kept[name] != value]
    if other:
        names = ", ".join(NAMES.get(name, name) for name in other)
        raise JobFailed(f"{month} is closed and keeps its terms, but others were given: {names}.")


def _in_words(names: Sequence[str], terms: Mapping[str, Any]) -> str:
    return ", ".join(f"{NAMES.get(name, name)} {terms[name]}" for name in names)


@transaction.atomic
def set_terms(month: str, chosen: Mapping[str, Any], person: str, now: datetime) -> bool:
    """Record what was chosen for a month or for all (`*`); an empty value takes the choice back. Audited.

    Returns whether anything changed. Raises JobFailed for a closed month, and Refused for somebody who does not see all
    pairs.
    """
    require_all()
    if ClosedMonth.objects.filter(month=month).exists():
        raise JobFailed(f"{month} is closed and keeps its terms.")
    known = CostTerms.objects.filter(month=month).first() or CostTerms(month=month)
    changed = {name: value for name, value in chosen.items() if (getattr(known, name) or None) != (value or None)}
    if not changed:
        return False
    fields = {name: value or (None if name == "hours_in_month" else "") for name, value in changed.items()}
    CostTerms.objects.update_or_create(month=month, defaults=fields | {"set_by": person, "set_at": now})
    detail = ", ".join(f"{NAMES.get(name, name)}: {value or 'as for all months'}" for name, value in changed.items())
    AuditEntry(
        request_id=str(uuid4()),
        at=now,
        operator=person,
        verb="set_cost_terms",
        pair="*",
        target=month,
        outcome="done",
        detail=detail,
    ).save()
    return True
