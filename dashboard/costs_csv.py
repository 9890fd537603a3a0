"""The charges as CSV: the columns of docs/contract.md, section 5."""

import csv
from collections.abc import Iterator
from typing import Protocol

from dashboard.models import Adjustment, Charge
from dashboard.money import money

COLUMNS = (
    "month",
    "scope",
    "namespace",
    "entity",
    "kind",
    "operations",
    "billing_units",
    "included_units",
    "charge",
    "currency",
)


class Writable(Protocol):
    """What csv can write to."""

    def write(self, text: str, /) -> object: ...


def write_csv(out: Writable, month: str, rule: str) -> None:
    """Writes the month's rows under one rule; their `charge` sums to the invoices to the cent.

    Adjustments of a closed month follow as rows of their own, without operations.
    """
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    writer.writerows(charge_rows(month, rule))


def charge_rows(month: str, rule: str) -> Iterator[tuple[str | int, ...]]:
    """The rows, in the order of COLUMNS."""
    charges = Charge.objects.filter(invoice__month=month, invoice__rule=rule).select_related("invoice")
    for charge in charges.order_by("invoice__scope", "namespace", "entity", "kind").iterator():
        invoice = charge.invoice
        names = (invoice.month, invoice.scope, charge.namespace, charge.entity, charge.kind)
        counts = (charge.operations, charge.billing_units, charge.included_units)
        yield (*names, *counts, money(charge.cents), invoice.currency)
    adjustments = Adjustment.objects.filter(invoice__month=month, invoice__rule=rule).select_related("invoice")
    for row in adjustments.iterator():
        names = (row.invoice.month, row.invoice.scope, row.namespace, row.entity, row.kind)
        yield (*names, 0, 0, 0, money(row.cents), row.invoice.currency)
