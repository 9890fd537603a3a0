"""Computed against billed, and against what Azure Monitor saw: per meter and day, as ranges, the rest unexplained.

Both counting rules are computed, and a bill between them is explained (docs/pricing.md, section 11).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from fractions import Fraction
from hashlib import sha256
from io import BytesIO
from uuid import uuid4

from django.db import transaction
from django.db.models import Sum as SumOf

from dashboard.models import AuditEntry, BilledDay, Charge, DailyCharge, Statement
from dashboard.models.charge import PUBLISHED, SETTLEMENTS
from dashboard.money import exact_text
from dashboard.statements import LARGEST_BYTES, Parsed, StatementError, read_export, read_metrics

READERS = {Statement.Source.EXPORT: read_export, Statement.Source.METRICS: read_metrics}
SENDS, DELIVERIES = ("send", "send_backlog", "ping", "syphon_send"), ("receive", "syphon_receive")
SETTLES = ("settle", "syphon_settle")
STEP_BYTES = 65_536


def take_statement(month: str, source: str, name: str, data: bytes, person: str, now: datetime) -> Statement:
    """Puts the file's sums in the place of the month's last ones of that source; raises StatementError. Audited."""
    entry = AuditEntry(
        request_id=str(uuid4()),
        at=now,
        operator=person,
        verb=f"reconcile_{source}",
        pair="*",
        target=month,
        outcome="done",
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


def read_bounded(file: object) -> bytes:
    """The file's bytes, one more than allowed at most: then its reader refuses it."""
    data: bytes = file.read(LARGEST_BYTES + 1)  # type: ignore[attr-defined]
    return data


def _store(month: str, source: str, name: str, digest: str, parsed: Parsed, person: str, now: datetime) -> Statement:
    Statement.objects.filter(month=month, source=source).delete()
    statement = Statement.objects.create(
        month=month,
        source=source,
        name=name[:200],
        digest=digest,
        rows=parsed.rows,
        skipped=dict(parsed.skipped),
        currency=parsed.currency[:3],
        uploaded_by=person,
        uploaded_at=now,
    )
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
    return statement


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """What was computed, at least and at most, and what somebody else says it was."""

    label: str
    least: Fraction
    most: Fraction
    billed: Fraction

    @property
    def unexplained(self) -> Fraction:
        """How far the other figure lies outside the range; negative below it."""
        return min(Fraction(0), self.billed - self.least) + max(Fraction(0), self.billed - self.most)

    @property
    def is_explained(self) -> bool:
        """Whether it lies inside, but for a whole unit: exports cut their decimals."""
        return abs(self.unexplained) <= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """A meter of the bill: its quantity in `unit`, and its money."""

    quantity: Range
    cost: Range
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """A month beside its bill. `until`: the export's last day; `elsewhere`: of namespaces nobody meters here."""

    until: date
    meters: Sequence[Meter]
    days: Sequence[Range]
    elsewhere: Sequence[tuple[str, str, Fraction, Fraction]]
    currencies: tuple[str, str]

    @property
    def cost(self) -> Range:
        """All compared meters together."""
        costs = [meter.cost for meter in self.meters]
        return Range(
            label="Together",
            least=sum((cost.least for cost in costs), Fraction(0)),
            most=sum((cost.most for cost in costs), Fraction(0)),
            billed=sum((cost.billed for cost in costs), Fraction(0)),
        )


@dataclass(slots=True)
class _Computed:
    """The month as the pipeline has it, by counting rule."""

    units: dict[str, dict[date, Fraction]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(Fraction)))
    costs: dict[str, dict[date, Fraction]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(Fraction)))


def against_bill(month: str, currency: str) -> Against | None:
    """The month beside its cost export; None where none was given, or nothing was computed."""
    statement = Statement.objects.filter(month=month, source=Statement.Source.EXPORT).first()
    charges = Charge.objects.filter(invoice__month=month)
    if statement is None or not charges.exists():
        return None
    known = {name.lower() for name in charges.values_list("namespace", flat=True).distinct()}
    rows = list(statement.days.all())
    ours = [row for row in rows if not row.namespace or row.namespace in known or row.namespace == "$system"]
    until = max(row.date for row in rows)
    computed = _computed(month, until)
    return Against(
        until=until,
        meters=_meters(month, until, computed, ours),
        days=_days(computed, ours),
        elsewhere=_elsewhere([row for row in rows if row not in ours]),
        currencies=(currency, statement.currency),
    )


def _computed(month: str, until: date) -> _Computed:
    found = _Computed()
    for row in DailyCharge.objects.filter(invoice__month=month, date__lte=until).select_related("invoice"):
        found.units[row.invoice.rule][row.date] += row.billing_units
        found.costs[row.invoice.rule][row.date] += Fraction(row.exact)
    return found


def _is_operations(row: BilledDay) -> bool:
    return row.meter.lower().endswith("messaging operations")


def _days(computed: _Computed, rows: Iterable[BilledDay]) -> list[Range]:
    billed: dict[date, Fraction] = defaultdict(Fraction)
    for row in rows:
        if _is_operations(row):
            billed[row.date] += Fraction(row.quantity)
    days = sorted({*billed, *(day for by_day in computed.units.values() for day in by_day)})
    return [
        _range(day.isoformat(), [computed.units[rule][day] for rule in (PUBLISHED, SETTLEMENTS)], billed[day])
        for day in days
    ]


def _range(label: str, both: Sequence[Fraction], billed: Fraction) -> Range:
    return Range(label=label, least=min(both), most=max(both), billed=billed)


def _meters(month: str, until: date, computed: _Computed, rows: Sequence[BilledDay]) -> list[Meter]:
    units = [sum(computed.units[rule].values(), Fraction(0)) for rule in (PUBLISHED, SETTLEMENTS)]
    costs = [sum(computed.costs[rule].values(), Fraction(0)) for rule in (PUBLISHED, SETTLEMENTS)]
    operations = [row for row in rows if _is_operations(row)]
    made = [_meter("Messaging operations", "operations", units, costs, operations)]
    charges = Charge.objects.filter(invoice__month=month, invoice__rule=PUBLISHED)
    for kind, label, unit, scale, words in (
        ("base", "Base charge", "unit hours", Fraction(1), ("base unit", "messaging unit")),
        ("connections", "Brokered connections", "connections", Fraction(1), ("brokered connection",)),
        ("bandwidth", "Bandwidth between regions", "GB", Fraction(1), ("data transfer",)),
    ):
        found = charges.filter(kind=kind)
        # The base is paid by the hour: of a month that runs, what the days so far come to.
        share = Fraction(until.day, _days_of(month)) if kind == "base" else Fraction(1)
        quantity = sum((Fraction(each.quantity) for each in found), Fraction(0)) * share * scale
        cost = sum((Fraction(each.exact) for each in found), Fraction(0)) * share
        billed = [row for row in rows if any(word in row.meter.lower() for word in words)]
        if quantity or billed:
            made.append(_meter(label, unit, [quantity], [cost], billed))
    return made


def _days_of(month: str) -> int:
    year, number = map(int, month.split("-"))
    return (date(year + number // 12, number % 12 + 1, 1) - date(year, number, 1)).days


def _meter(
    label: str, unit: str, quantities: Sequence[Fraction], costs: Sequence[Fraction], rows: Sequence[BilledDay]
) -> Meter:
    billed = sum((Fraction(row.quantity) for row in rows), Fraction(0))
    cost = sum((Fraction(row.cost or 0) for row in rows), Fraction(0))
    return Meter(quantity=_range(label, quantities, billed), cost=_range(label, costs, cost), unit=unit)


def _elsewhere(rows: Iterable[BilledDay]) -> list[tuple[str, str, Fraction, Fraction]]:
    sums: dict[tuple[str, str], list[Fraction]] = defaultdict(lambda: [Fraction(0), Fraction(0)])
    for row in rows:
        sums[row.namespace, row.meter][0] += Fraction(row.quantity)
        sums[row.namespace, row.meter][1] += Fraction(row.cost or 0)
    return [(namespace, meter, *both) for (namespace, meter), both in sorted(sums.items())]  # type: ignore[misc]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Transfers of a namespace beside what its metrics allow."""

    namespace: str
    range: Range

    @property
    def verdict(self) -> str:
        """`billed` is what was computed here; the bounds are the metrics'."""
        if self.range.is_explained:
            return "within the bounds"
        return (
            "fewer than the metrics prove: something is not metered"
            if self.range.unexplained < 0
            else "needs an explanation"
        )


def against_metrics(month: str) -> list[Seen]:
    """The month's transfers of each namespace between the bounds of its metrics (inferred, section 11)."""
    statement = Statement.objects.filter(month=month, source=Statement.Source.METRICS).first()
    if statement is None:
        return []
    totals: dict[str, dict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    for row in statement.days.all():
        totals[row.namespace][row.meter] += Fraction(row.quantity)
    return [seen for namespace, metrics in sorted(totals.items()) for seen in _seen(month, namespace, metrics)]


def _seen(month: str, namespace: str, metrics: Mapping[str, Fraction]) -> list[Seen]:
    charges = Charge.objects.filter(invoice__month=month, invoice__rule=SETTLEMENTS, namespace__iexact=namespace)
    bounds = (
        ("Sent, in operations", SENDS, ("IncomingMessages",), "IncomingBytes"),
        ("Delivered, in operations", DELIVERIES, ("OutgoingMessages",), "OutgoingBytes"),
        ("Settled, about", SETTLES, ("CompleteMessage", "AbandonMessage"), ""),
    )
    return [
        Seen(namespace=namespace, range=_between(label, metrics, names, steps, _units(charges, kinds)))
        for label, kinds, names, steps in bounds
        if any(name in metrics for name in names)
    ]


def _between(
    label: str, metrics: Mapping[str, Fraction], names: Sequence[str], steps: str, computed: Fraction
) -> Range:
    least = sum((metrics.get(name, Fraction(0)) for name in names), Fraction(0))
    return Range(label=label, least=least, most=least + metrics.get(steps, Fraction(0)) / STEP_BYTES, billed=computed)


def _units(charges: object, kinds: Sequence[str]) -> Fraction:
    sums = charges.filter(kind__in=kinds).aggregate(units=SumOf("billing_units"))  # type: ignore[attr-defined]
    return Fraction(sums["units"] or 0)
