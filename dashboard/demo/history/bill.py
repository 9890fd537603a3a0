"""A sample bill of a simulated month: a cost export as Azure would write it. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import date
from decimal import Decimal

from dashboard.demo.history.metered import connections, late_rows, rows_by_day
from dashboard.demo.history.plan import History
from dashboard.demo.history.scenery import LIVE_PAIR, SUBSCRIPTION

HEAD = (
    "Date,MeterCategory,MeterName,Quantity,UnitOfMeasure,CostInBillingCurrency,BillingCurrency,ResourceId,"
    "SubscriptionId,ChargeType"
)
NOT_BILLED = ("settle", "syphon_settle")
BASE_PER_HOUR = Decimal("0.013441")
TIERS = ((0, Decimal(0)), (13_000_000, Decimal(80)), (100_000_000, Decimal(50)))
"""From how many operations of a month on a million costs this much: the demo's price list."""
UNEXPLAINED_DAY, UNEXPLAINED = 9, 1.004
"""On one day the bill has a few operations more than were metered, so that there is something to find."""
_RESOURCE = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/demo/providers/Microsoft.ServiceBus/namespaces/"


def sample_bill(past: History, month: str) -> bytes:
    """The cost export of the month, late deliveries included."""
    lines, so_far = [HEAD], 0
    for day, peak in peaks_by_day(past, month):
        lines.append(_line(day, "Standard Brokered Connection", f"{peak:.10f}", "1", Decimal(0)))
    for day, operations in billed_operations(past, month):
        billed = round(operations * UNEXPLAINED) if day.day == UNEXPLAINED_DAY else operations
        cost = price(so_far + billed) - price(so_far)
        so_far += billed
        millions = Decimal(billed) / 1_000_000
        lines.append(_line(day, "Standard Messaging Operations", f"{millions:f}", "1M", cost))
        lines.append(_line(day, "Standard Base Unit", "24", "1 Hour", 24 * BASE_PER_HOUR))
    return "\n".join([*lines, ""]).encode()


def billed_operations(past: History, month: str) -> Sequence[tuple[date, int]]:
    """The billed operations of each day of the month."""
    late = late_rows(past, month)
    found = []
    for day, rows in rows_by_day(past).items():
        if f"{day:%Y-%m}" == month:
            every = [*rows, *(row for row in late if row.minute.date() == day)]
            found.append((day, sum(row.operations for row in every if row.kind not in NOT_BILLED)))
    return found


def peaks_by_day(past: History, month: str) -> Sequence[tuple[date, Decimal]]:
    """The connections of each day of the month: hourly peaks, divided by the hours of the month."""
    found: dict[date, int] = defaultdict(int)
    for hour, _, peak in connections(past):
        if f"{hour:%Y-%m}" == month:
            found[hour.date()] += peak
    hours = 24 * len(found)
    return [(day, Decimal(peaks) / hours) for day, peaks in sorted(found.items())]


def price(operations: int) -> Decimal:
    """What a month with that many operations costs."""
    ends = [*(begin for begin, _ in TIERS[1:]), operations]
    parts = zip(TIERS, ends, strict=True)
    return sum((max(0, min(operations, end) - begin) * each / 1_000_000 for (begin, each), end in parts), Decimal(0))


def _line(day: date, meter: str, quantity: str, unit: str, cost: Decimal) -> str:
    resource = f"{_RESOURCE}{LIVE_PAIR}"
    return f"{day},Service Bus,{meter},{quantity},{unit},{cost:.8f},USD,{resource},{SUBSCRIPTION},Usage"
