"""Compares computed charges with the bill and with Azure Monitor: ranges per meter and day, and unexplained rests.

Both counting rules are computed, and a bill between them is explained (docs/pricing.md, section 11).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from fractions import Fraction
from hashlib import sha256
from io import BytesIO
from uuid import uuid4

from django.db import transaction
from django.db.models import QuerySet
from django.db.models import Sum as SumOf

from dashboard.access.visibility import require_all
from dashboard.costs import measured_connections
from dashboard.costs.azure_metrics import read_metrics
from dashboard.costs.outages import NO_OPERATIONS
from dashboard.costs.statements import Parsed, Peak, StatementError, read_export
from dashboard.models import Adjustment, AuditEntry, BilledDay, Charge, ConnectionDay, DailyCharge, Invoice, Statement
from dashboard.models.charge import PUBLISHED, SETTLEMENTS
from dashboard.site.forms import LARGEST_BYTES
from dashboard.site.money import exact_text
from pairing.telemetry.metering import SETTLEMENT_KINDS
from pipeline.months import Month

READERS = {Statement.Source.EXPORT: read_export, Statement.Source.METRICS: read_metrics}
SENDS, DELIVERIES = ("send", "send_backlog", "ping", "syphon_send"), ("receive", "syphon_receive")
STEP_BYTES = 65_536
MOST_ELSEWHERE = 200
SYSTEM = "$system"
WHOLE, CENT = Fraction(1), Fraction(1, 100)
OPERATIONS = "operations"
OTHER_METERS = {
    "base": ("Base charge", "unit hours", ("base unit", "messaging unit")),
    "connections": ("Brokered connections", "connections", ("brokered connection",)),
    "bandwidth": ("Bandwidth between regions", "GB", ("data transfer",)),
}
"""By kind of charge that is not one of operations: label, unit, and words in the names of its meters."""


def take_statement(
    month: str, source: str, name: str, data: bytes, person: str, now: datetime, via: str = ""
) -> Statement:
    """Store a statement; it replaces the month's previous one of the same source. Audited.

    Raises StatementError, and Refused for somebody who does not see all pairs.
    """
    require_all()
    entry = AuditEntry(
        request_id=str(uuid4()),
        at=now,
        operator=person,
        verb=verb_of(source),
        pair="*",
        target=month,
        outcome="done",
        via=via,
    )
    try:
        parsed = READERS[Statement.Source(source)](BytesIO(data), month)
    except StatementError as error:
        entry.outcome, entry.detail = "refused", str(error)
        entry.save()
        raise
    digest = sha256(data).hexdigest()
    entry.detail = f"{name[:200]}: {parsed.rows:,} rows, SHA-256 {digest[:16]}…"
    with transaction.atomic():
        statement = _store(month, source, name, digest, parsed, person, now)
        entry.save()
    return statement


def verb_of(source: str) -> str:
    """The action in the audit trail."""
    return f"reconcile_{source if source in Statement.Source.values else Statement.Source.EXPORT}"


def read_bounded(file: object) -> bytes:
    """Read at most one byte more than the limit, so that the parser rejects larger files."""
    data: bytes = file.read(LARGEST_BYTES + 1)  # type: ignore[attr-defined]
    return data


def _store(month: str, source: str, name: str, digest: str, parsed: Parsed, person: str, now: datetime) -> Statement:
    described = {
        "name": name[:200],
        "digest": digest,
        "rows": parsed.rows,
        "skipped": dict(parsed.skipped),
        "currency": parsed.currency[:3],
        "uploaded_by": person,
        "uploaded_at": now,
    }
    statement, _ = Statement.objects.update_or_create(month=month, source=source, defaults=described)
    statement.days.all().delete()
    statement.connections.all().delete()
    days = [
        BilledDay(
            statement=statement,
            date=each.date,
            scope=each.scope[:200],
            namespace=each.namespace[:260],
            meter=each.meter,
            quantity=exact_text(each.quantity),
            cost="" if each.cost is None else exact_text(each.cost),
        )
        for each in parsed.sums
    ]
    BilledDay.objects.bulk_create(days, batch_size=1_000)
    ConnectionDay.objects.bulk_create(_connection_days(statement, parsed.peaks), batch_size=1_000)
    return statement


def _connection_days(statement: Statement, peaks: Iterable[Peak]) -> Iterator[ConnectionDay]:
    by_day: dict[tuple[date, str, str], list[int | None]] = defaultdict(lambda: [None] * 24)
    for peak in peaks:
        by_day[peak.date, peak.scope, peak.namespace][peak.hour.hour] = peak.connections
    for (day, scope, namespace), hours in by_day.items():
        place = {"scope": scope[:200], "namespace": namespace[:260]}
        yield ConnectionDay(statement=statement, date=day, peaks=hours, **place)


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The least and the most that was computed, and the figure of the bill or metric.

    `tolerance`: the rounding of exports, a whole unit of a quantity or a cent of money.
    """

    label: str
    least: Fraction
    most: Fraction
    billed: Fraction
    tolerance: Fraction = WHOLE

    @property
    def unexplained(self) -> Fraction:
        """The distance of the other figure from the range; negative below it."""
        return min(Fraction(0), self.billed - self.least) + max(Fraction(0), self.billed - self.most)

    @property
    def is_explained(self) -> bool:
        """Whether the figure lies inside the range, within the tolerance."""
        return abs(self.unexplained) <= self.tolerance


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """A meter of the bill: its quantity in `unit`, and its cost."""

    quantity: Range
    cost: Range
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """A month compared with its bill. `until`: the export's last day; `elsewhere`: what is billed for
    namespaces that are not metered here, the most expensive first, of `elsewhere_count` in all.

    `is_adjusted`: adjustments exist; they are included in the money, and have no quantity. `has_premium`: operations of
    Premium namespaces, which are on no bill, are left out.
    """

    until: date
    meters: Sequence[Meter]
    days: Sequence[Range]
    elsewhere: Sequence[tuple[str, str, Fraction, Fraction]]
    elsewhere_count: int
    currencies: tuple[str, str]
    is_adjusted: bool
    has_premium: bool

    @property
    def is_in_one_currency(self) -> bool:
        """Whether the money can be compared."""
        return self.currencies[0] == self.currencies[1]

    @property
    def cost(self) -> Range:
        """All compared meters together."""
        costs = [meter.cost for meter in self.meters]
        return Range(
            label="Together",
            least=sum((cost.least for cost in costs), Fraction(0)),
            most=sum((cost.most for cost in costs), Fraction(0)),
            billed=sum((cost.billed for cost in costs), Fraction(0)),
            tolerance=CENT,
        )


@dataclass(slots=True)
class _Computed:
    """The operations of the month that are billed, under one counting rule: by day, and together with their cost.

    Each quantity has a least and a most, as the share of Premium namespaces is not known by day.
    """

    days: dict[date, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    units: list[int] = field(default_factory=lambda: [0, 0])
    has_premium: bool = False
    cost: Fraction = Fraction(0)


def against_bill(month: str, currency: str) -> Against | None:
    """The month compared with its cost export; None without an export or a computed month."""
    statement = Statement.objects.filter(month=month, source=Statement.Source.EXPORT).first()
    known = _namespaces(month)
    if statement is None or not known:
        return None
    rows = list(statement.days.all())
    ours = _ours(month, rows, known)
    until = max(row.date for row in rows)
    computed = [_computed(month, rule, until) for rule in (PUBLISHED, SETTLEMENTS)]
    own = {row.pk for row in ours}
    elsewhere = _elsewhere(row for row in rows if row.pk not in own)
    return Against(
        until=until,
        meters=_meters(month, until, computed, ours),
        days=_days(computed, ours),
        elsewhere=elsewhere[:MOST_ELSEWHERE],
        elsewhere_count=len(elsewhere),
        currencies=(currency, statement.currency),
        is_adjusted=Adjustment.objects.filter(invoice__month=month).exists(),
        has_premium=any(found.has_premium for found in computed),
    )


def _namespaces(month: str) -> set[str]:
    """The namespaces with rows in the month's invoices, adjustments included."""
    names: set[str] = set()
    for model in (Charge, Adjustment):
        rows = model.objects.filter(invoice__month=month)
        names.update(rows.values_list("namespace", flat=True).distinct())
    return {name.lower() for name in names if name != SYSTEM}


def _ours(month: str, rows: Sequence[BilledDay], known: Container[str]) -> list[BilledDay]:
    """Rows of metered namespaces; rows of `$system`, and rows of a known meter that name no namespace, if their
    subscription is metered.
    """
    scopes = {scope.lower() for scope in Invoice.objects.filter(month=month).values_list("scope", flat=True)}
    scopes |= {row.scope for row in rows if row.namespace in known} | {""}
    return [
        row
        for row in rows
        if row.namespace in known
        or (row.scope in scopes and (row.namespace == SYSTEM or (not row.namespace and _kind_of(row))))
    ]


def _computed(month: str, rule: str, until: date) -> _Computed:
    """The operations until that day. Those of Premium namespaces are on no bill: they are left out.

    Sums by day are stored per billing scope, sums by kind also per namespace. If a kind was also made in namespaces of
    another tier, its billed operations of some days lie between two bounds; those of the month are exact.
    """
    found = _Computed()
    for invoice in Invoice.objects.filter(month=month, rule=rule).select_related("run"):
        days: dict[str, dict[date, int]] = defaultdict(dict)
        for row in invoice.days.all():
            days[row.kind][row.date] = row.billing_units
            if row.date <= until:
                found.cost += Fraction(row.exact)
        premium = _premium_units(invoice)
        found.has_premium |= any(premium.values())
        for kind, by_day in days.items():
            without, rest = premium.get(kind, 0), sum(by_day.values()) - premium.get(kind, 0)
            past = {day: units for day, units in by_day.items() if day <= until}
            for sums, units in [
                *((found.days[day], units) for day, units in past.items()),
                (found.units, sum(past.values())),
            ]:
                sums[0] += max(0, units - without)
                sums[1] += min(units, rest)
    return found


def _premium_units(invoice: Invoice) -> Mapping[str, int]:
    """The operations of its Premium namespaces by kind, which their messaging units include."""
    tiers: dict[str, str] = invoice.run.details.get("tiers", {})
    rows = invoice.charges.filter(namespace__in=[name for name, tier in tiers.items() if tier == "premium"])
    return dict(rows.order_by().values_list("kind").annotate(units=SumOf("billing_units")))


def _kind_of(row: BilledDay) -> str:
    """The kind of charge that its meter bills; empty if it bills none of those that are computed."""
    meter = row.meter.lower()
    if meter.endswith("messaging operations"):
        return OPERATIONS
    return next((kind for kind, (_, _, words) in OTHER_METERS.items() if any(word in meter for word in words)), "")


def _days(computed: Sequence[_Computed], rows: Iterable[BilledDay]) -> list[Range]:
    billed: dict[date, Fraction] = defaultdict(Fraction)
    for row in rows:
        if _kind_of(row) == OPERATIONS:
            billed[row.date] += Fraction(row.quantity)
    days = sorted({*billed, *(day for found in computed for day in found.days)})
    return [
        _range(day.isoformat(), [Fraction(units) for found in computed for units in found.days[day]], billed[day])
        for day in days
    ]


def _range(label: str, both: Sequence[Fraction], billed: Fraction) -> Range:
    return Range(label=label, least=min(both), most=max(both), billed=billed)


def _meters(month: str, until: date, computed: Sequence[_Computed], rows: Sequence[BilledDay]) -> list[Meter]:
    by_kind: dict[str, list[BilledDay]] = defaultdict(list)
    for row in rows:
        by_kind[_kind_of(row)].append(row)
    units = [Fraction(units) for found in computed for units in found.units]
    costs = [
        found.cost + _adjusted(month, rule).get("operations", Fraction(0))
        for rule, found in zip((PUBLISHED, SETTLEMENTS), computed, strict=True)
    ]
    adjusted = _adjusted(month, PUBLISHED)
    made = [_meter("Messaging operations", "operations", units, costs, by_kind[OPERATIONS])]
    charges = Charge.objects.filter(invoice__month=month, invoice__rule=PUBLISHED)
    for kind, (label, unit, _) in OTHER_METERS.items():
        found = charges.filter(kind=kind)
        # The base is billed by the hour: for the current month, count the days so far.
        share = Fraction(until.day, Month.parse(month).days) if kind == "base" else Fraction(1)
        quantity = sum((Fraction(each.quantity) for each in found), Fraction(0)) * share
        cost = sum((Fraction(each.exact) for each in found), adjusted.get(kind, Fraction(0))) * share
        billed, quantities, money = by_kind[kind], [quantity], [cost]
        if kind == "connections" and (compared := measured_connections.compare(month)):
            # Measured connections replace the computed upper bound: a bill between the two is explained.
            quantities.append(compared.measured)
            money.append(compared.measured_charge)
        if quantity or cost or billed:
            made.append(_meter(label, unit, quantities, money, billed))
    return made + [
        _meter(name, "units", [Fraction(0)], [Fraction(0)], [row for row in by_kind[""] if row.meter == name])
        for name in sorted({row.meter for row in by_kind[""]})
    ]


def _adjusted(month: str, rule: str) -> Mapping[str, Fraction]:
    """The adjustments of the month by kind; all operations together."""
    sums: dict[str, Fraction] = defaultdict(Fraction)
    for row in Adjustment.objects.filter(invoice__month=month, invoice__rule=rule):
        sums[row.kind if row.kind in NO_OPERATIONS else "operations"] += Fraction(row.cents, 100)
    return sums


def _meter(
    label: str, unit: str, quantities: Sequence[Fraction], costs: Sequence[Fraction], rows: Sequence[BilledDay]
) -> Meter:
    billed = sum((Fraction(row.quantity) for row in rows), Fraction(0))
    cost = sum((Fraction(row.cost or 0) for row in rows), Fraction(0))
    money = replace(_range(label, costs, cost), tolerance=CENT)
    return Meter(quantity=_range(label, quantities, billed), cost=money, unit=unit)


def _elsewhere(rows: Iterable[BilledDay]) -> list[tuple[str, str, Fraction, Fraction]]:
    sums: dict[tuple[str, str], list[Fraction]] = defaultdict(lambda: [Fraction(0), Fraction(0)])
    for row in rows:
        sums[row.namespace, row.meter][0] += Fraction(row.quantity)
        sums[row.namespace, row.meter][1] += Fraction(row.cost or 0)
    found = [(namespace, meter, quantity, cost) for (namespace, meter), (quantity, cost) in sums.items()]
    return sorted(found, key=lambda one: (-one[3], *one[:2]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Transfers of a namespace, and the bounds given by its metrics, on the days of the metrics.

    `computed`: the least and the most, if the namespace shares its billing scope's days with others; `range` has the
    values next to the bounds.
    """

    namespace: str
    since: date
    until: date
    computed: Range
    range: Range

    @property
    def finding(self) -> str:
        """What the comparison means. `billed` is the computed value here, and the bounds are those of the metrics."""
        if self.range.is_explained:
            return "within the bounds"
        return (
            "fewer than the metrics prove: some operations are not metered"
            if self.range.unexplained < 0
            else "unexplained"
        )


def against_metrics(month: str) -> list[Seen]:
    """Compare the transfers of each namespace with the bounds of its metrics, on their days (inferred, section 11)."""
    statement = Statement.objects.filter(month=month, source=Statement.Source.METRICS).first()
    if statement is None:
        return []
    totals: dict[str, dict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    days: dict[str, list[date]] = defaultdict(list)
    for row in statement.days.all():
        totals[row.namespace][row.meter] += Fraction(row.quantity)
        days[row.namespace].append(row.date)
    return [
        seen
        for namespace, metrics in sorted(totals.items())
        for seen in _seen(month, namespace, metrics, min(days[namespace]), max(days[namespace]))
    ]


def _seen(month: str, namespace: str, metrics: Mapping[str, Fraction], since: date, until: date) -> Iterator[Seen]:
    bounds = (
        ("Sent, in operations", SENDS, ("IncomingMessages",), "IncomingBytes"),
        ("Delivered, in operations", DELIVERIES, ("OutgoingMessages",), "OutgoingBytes"),
        ("Settled, approximately", SETTLEMENT_KINDS, ("CompleteMessage", "AbandonMessage"), ""),
    )
    for label, kinds, names, steps in bounds:
        if any(name in metrics for name in names):
            low, high = _transfers(month, namespace, kinds, since, until)
            yield Seen(
                namespace=namespace,
                since=since,
                until=until,
                computed=Range(label=label, least=low, most=high, billed=low),
                range=_between(label, metrics, names, steps, low, high),
            )


def _between(
    label: str, metrics: Mapping[str, Fraction], names: Sequence[str], steps: str, low: Fraction, high: Fraction
) -> Range:
    least = sum((metrics.get(name, Fraction(0)) for name in names), Fraction(0))
    most = least + metrics.get(steps, Fraction(0)) / STEP_BYTES
    return Range(label=label, least=least, most=most, billed=min(max(least, low), high))


def _transfers(month: str, namespace: str, kinds: Sequence[str], since: date, until: date) -> tuple[Fraction, Fraction]:
    """The least and the most transfers of these kinds by the namespace on those days.

    Sums by day are stored per billing scope, sums by kind also per namespace. If a namespace shares a kind with others
    of its scope, the operations of the scope on other days need not be the namespace's.
    """
    charges = Charge.objects.filter(invoice__month=month, invoice__rule=SETTLEMENTS, kind__in=kinds)
    days = DailyCharge.objects.filter(date__range=(since, until))
    low = high = 0
    for invoice, kind in set(charges.filter(namespace__iexact=namespace).values_list("invoice", "kind")):
        of_scope = charges.filter(invoice=invoice, kind=kind)
        own, all_of_it = _units(of_scope.filter(namespace__iexact=namespace)), _units(of_scope)
        within = _units(days.filter(invoice=invoice, kind=kind))
        low += max(0, own - (all_of_it - within))
        high += min(own, within)
    return Fraction(low), Fraction(high)


def _units(rows: QuerySet[Charge] | QuerySet[DailyCharge]) -> int:
    return int(rows.aggregate(units=SumOf("billing_units"))["units"] or 0)
