"""A month whose charges and traffic are known, for tests that compare the figures of pages."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from dashboard.fleet.usage import metered
from dashboard.models import Charge, ChargeRun, DailyCharge, Invoice
from dashboard.models.charge import PUBLISHED
from pairing.telemetry.metering import UsageRecord

CHARGED = (
    ("send", 124, "1.24"),
    ("receive", 4, "0.04"),
    ("send_backlog", 1, "0.0061"),
    ("syphon_send", 0, "0.0032"),
    ("syphon_receive_empty", 40, "0.4"),
)
"""Kinds of operations, their cents, and their exact charge: those of a day may be less than a cent."""


PRICES = [{"meter": "Standard Messaging Operations", "unit": "1M", "from": "0", "price": "0.8", "currency": "EUR"}]


def compute_the_month() -> None:
    """A month that was computed before anything happened: what the page of costs says of the present is live."""
    now = datetime.now(UTC)
    month = f"{now:%Y-%m}"
    run = ChargeRun.objects.create(
        month=month, status="succeeded", started_at=now, heard_at=now, finished_at=now,
        details={
            "counts": dict.fromkeys(("read", "accepted", "copies", "quarantined"), 0),
            "prices": PRICES, "sample_prices": False,
        },
    )  # fmt: skip
    invoice = Invoice.objects.create(
        run=run, month=month, scope="contoso", rule=PUBLISHED, allocation="time", currency="EUR", cents=169,
        exact="1.6933", units=1_000_000, tiers=[1_000_000],
    )  # fmt: skip
    for kind, cents, exact in CHARGED:
        counts = {"operations": 1_234_567, "billing_units": 1_234_567}
        Charge.objects.create(
            invoice=invoice, pair="contoso", namespace="contoso", entity="orders", kind=kind, included_units=0,
            quantity="1", exact=exact, cents=cents, **counts,
        )  # fmt: skip
        for day, units, share in ((1, 617_283, Decimal("0.75")), (2, 617_284, Decimal("0.25"))):
            DailyCharge.objects.create(
                invoice=invoice, date=now.date().replace(day=day), kind=kind, exact=str(share * Decimal(exact)),
                operations=units, billing_units=units,
            )  # fmt: skip


def traffic_before() -> None:
    """What the application has sent in the minutes before: what a forecast is made from."""
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    metered.store(
        [
            UsageRecord(
                f"before-{ago}", now - timedelta(minutes=ago), "contoso", "contoso", "contoso", "orders", "send",
                "before", 1, 600, 6_000, 60_000_000, 6_000,
            )
            for ago in range(4, 20)
        ],
        now,
    )  # fmt: skip
