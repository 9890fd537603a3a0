"""The present figures for a forecast: this month's prices and usage, and the traffic of a pair."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.db.models import Min, Sum

from dashboard.costs.prices import invoices_of, operations_price
from dashboard.fleet.usage.metered import SENDS, sent
from dashboard.fleet.usage.rates import HOUR, Expected
from dashboard.models import Charge, DailyCharge, Invoice, Pair
from dashboard.models.visibility import all_pairs
from pipeline.months import Month

IN_THE_PRIMARY = ("send", "ping", "receive", "syphon_send")
IN_THE_SECONDARY = ("send_backlog", "syphon_receive", "syphon_receive_empty", "syphon_settle")


@dataclass(frozen=True, slots=True)
class Used:
    """Operations so far in the Standard tiers, on the bill of a pair's primary.

    `secondary`: those on the bill of the secondary, if it has another subscription.
    """

    primary: int = 0
    secondary: int | None = None


@dataclass(frozen=True, slots=True)
class Traffic:
    """The sends of a pair, as they are expected for the next hours.

    If nothing was metered lately (`expected` is None), the average of the latest month with charges, from the day of
    the first send. Zero if nothing was metered. `used`: the operations on its bills this month.
    """

    month: str
    messages_per_hour: int
    message_bytes: int
    used: Used
    expected: Expected | None = None

    @property
    def words(self) -> str:
        """What the rate was derived from, after "as"."""
        return self.expected.words if self.expected else f"on average in {self.month}"


def traffic(pair: str, now: datetime, entity: str = "", ahead: timedelta = HOUR) -> Traffic:
    """The sends per hour of a pair or of one of its entities: of the time ahead if it is known, else of the newest
    computed month.
    """
    usual, live = _average(pair, now, entity), sent(now, pair, entity)
    if (expected := live.traffic.expected(now, ahead)) is None:
        return usual
    return replace(
        usual,
        messages_per_hour=round(expected.per_hour),
        message_bytes=live.message_bytes or usual.message_bytes,
        expected=expected,
    )


def _average(pair: str, now: datetime, entity: str) -> Traffic:
    with all_pairs():  # only the rows added up below are limited to the pairs that one sees
        newest = Invoice.objects.order_by("-month").select_related("run").first()
    if newest is None:
        return Traffic(f"{now:%Y-%m}", 0, 0, Used())
    sent = Charge.objects.filter(invoice__month=newest.month, kind__in=SENDS)
    if pair:
        sent = sent.filter(pair=pair)
    if entity:
        sent = sent.filter(entity=entity)
    sums = sent.aggregate(messages=Sum("messages"), bytes=Sum("bytes"))
    messages, size = sums["messages"] or 0, sums["bytes"] or 0
    hours = max(1, _hours(newest))
    is_running = newest.month == f"{now:%Y-%m}"
    return Traffic(
        month=newest.month,
        messages_per_hour=round(messages / hours),
        message_bytes=round(size / messages) if messages else 0,
        used=used_of(newest.month, pair) if is_running else Used(),
    )


def used_of(month: str, pair: str) -> Used:
    """The usage on the bills of the pair's two namespaces, one bill if they share it; without a pair, the largest
    usage.
    """
    bills = invoices_of(month)
    on_the_ladder = {bill.scope: int(operations_price(bill).used) for bill in bills}
    charges = Charge.objects.filter(invoice__in=bills, **({"pair": pair} if pair else {}))
    places = set(charges.values_list("kind", "invoice__scope"))
    primary = {scope for kind, scope in places if kind in IN_THE_PRIMARY}
    apart = {scope for kind, scope in places if kind in IN_THE_SECONDARY} - primary
    if pair and primary and apart:
        return Used(max(on_the_ladder[scope] for scope in primary), max(on_the_ladder[scope] for scope in apart))
    return Used(max((on_the_ladder[scope] for scope in primary | apart), default=0))


def _hours(invoice: Invoice) -> int:
    """The hours of the month from the day of its first send until the computation.

    Days before metering began would lower the average, and the outage would be underestimated.
    """
    computed_at = invoice.run.as_of
    month = Month.parse(invoice.month)
    with all_pairs():
        sent = DailyCharge.objects.filter(invoice__month=invoice.month, kind__in=SENDS, operations__gt=0)
    begun = sent.aggregate(day=Min("date"))["day"]
    since = month.start.replace(day=begun.day) if begun else month.start
    return int((min(computed_at, month.end) - since).total_seconds() // 3600)


@dataclass(frozen=True, slots=True)
class Configured:
    """The configured options of pairs that affect costs; without a pair, of all pairs together."""

    queues: int = 10
    ping_interval_s: int = 60


def configured(pair: str) -> Configured:
    """The options of one pair, or of all: the sum of backlog queues, and an interval with the same number of pings.

    Unknown options have their defaults.
    """
    rows = Pair.objects.filter(name=pair) if pair else Pair.objects.filter(is_configured=True)
    known = list(rows.values_list("backlog_queue_count", "ping_primary_interval_s"))
    if not known:
        return Configured()
    pings_a_second = sum(1 / interval for _, interval in known)
    return Configured(sum(count for count, _ in known), max(1, round(len(known) / pings_a_second)))
