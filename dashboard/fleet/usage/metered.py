"""Metered operations of the present: stored as processes report them, and read as traffic.

Reports can be repeated and can overtake each other: of the reports of one record the latest counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from django.db import transaction
from django.db.models import BooleanField, F, Q, QuerySet, Sum, Value

from dashboard.fleet.usage.rates import DAY, DAYS, HOUR, LONGER, Traffic
from dashboard.models import ChargeRun, MeteredRecord, MeteredUsage
from dashboard.site.database import upsert
from dashboard.site.fitting import fitted
from pairing.telemetry.metering import CONNECTIONS, KINDS, UsageRecord

SENDS = ("send", "send_backlog")
OF_A_FAILOVER = tuple(name for name, kind in KINDS.items() if kind.group == "failover")
"""Kinds that are kept by minute, as incidents begin and end in the middle of hours."""
RAW = timedelta(hours=2)
"""How long records are kept. Later ones are in the files only."""
NUMBERS = ("operations", "messages", "bytes", "billing_units")
PLACE = ("scope", "pair", "namespace", "entity", "kind")
BATCH = 500


def store(records: Iterable[UsageRecord], now: datetime) -> int:
    """Store reports of operations. Returns the number of records that are new or have grown."""
    latest: dict[str, UsageRecord] = {}
    for record in records:
        if record.kind != CONNECTIONS and record.minute > now - RAW:
            digest = sha256(record.record_id.encode()).hexdigest()
            latest[digest] = max(record, latest.get(digest, record), key=lambda one: one.seq)
    with transaction.atomic():
        known = _known(list(latest))
        rows = [_row(digest, record) for digest, record in latest.items() if record.seq > known.get(digest, -1)]
        upsert(rows, ("digest",), ("seq", *NUMBERS))
    return len(rows)


def _known(digests: Sequence[str]) -> dict[str, int]:
    parts = (digests[start : start + BATCH] for start in range(0, len(digests), BATCH))
    found = (MeteredRecord.objects.filter(digest__in=part).values_list("digest", "seq") for part in parts)
    return dict(row for rows in found for row in rows)


def _row(digest: str, record: UsageRecord) -> MeteredRecord:
    return MeteredRecord(
        digest=digest,
        seq=record.seq,
        minute=record.minute,
        scope=fitted(record.scope, 200),
        pair=fitted(record.pair, 63),
        namespace=fitted(record.namespace, 260),
        entity=fitted(record.entity, 300),
        kind=fitted(record.kind, 30),
        **{name: getattr(record, name) for name in NUMBERS},
    )


def roll_up(now: datetime) -> int:
    """Add records older than two hours to the sums, and delete them. Returns their number."""
    before = now - RAW - HOUR / 12  # a collector that is late does not store them again
    runs = [run.as_of for run in ChargeRun.objects.filter(started_at__gt=before - DAY)]
    with transaction.atomic():
        rows = list(MeteredRecord.objects.select_for_update().filter(minute__lt=before).order_by("pk")[: 10 * BATCH])
        sums: dict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
        for row in rows:
            key = (_begin(row.kind, row.minute, runs), *(getattr(row, name) for name in PLACE))
            sums[key].update({name: getattr(row, name) for name in NUMBERS})
        for (begins_at, *place), numbers in sums.items():
            _add(dict(zip(PLACE, place, strict=True)) | {"begins_at": begins_at}, numbers)
        MeteredRecord.objects.filter(pk__in=[row.pk for row in rows]).delete()
    return len(rows)


def _add(key: Mapping[str, Any], numbers: Mapping[str, int]) -> None:
    _, created = MeteredUsage.objects.get_or_create(**key, defaults=numbers)
    if not created:
        more: dict[str, Any] = {name: F(name) + count for name, count in numbers.items()}
        MeteredUsage.objects.filter(**key).update(**more)


def _begin(kind: str, minute: datetime, runs: Iterable[datetime]) -> datetime:
    """The start of the sum that a minute belongs to; a run of the charges divides its hour."""
    hour = minute.replace(minute=0, second=0, microsecond=0)
    cuts = [minute_of(run) for run in runs]
    return minute if kind in OF_A_FAILOVER else max([hour, *(cut for cut in cuts if hour <= cut <= minute)])


def minute_of(at: datetime) -> datetime:
    """The start of the minute of this time: of a run of the charges, the first one that it cannot have read whole."""
    return at.astimezone(UTC).replace(second=0, microsecond=0)


@dataclass(frozen=True, slots=True)
class Sent:
    """The sends of a pair or of an entity: its traffic, and the mean size of its messages; 0 if it is unknown."""

    traffic: Traffic
    message_bytes: int


NOTHING_SENT = Sent(Traffic({}, {}), 0)


def sent(now: datetime, pair: str = "", entity: str = "") -> Sent:
    """The sends of a pair, of all pairs (empty), or of one entity."""
    return sent_by_pair(now, pair, entity).get(pair, NOTHING_SENT)


def sent_by_pair(now: datetime, pair: str = "", entity: str = "") -> dict[str, Sent]:
    """The sends of each pair in one query, and of all pairs together as that of the pair without a name."""
    minutes: dict[str, Counter[datetime]] = defaultdict(Counter)
    hours: dict[str, Counter[datetime]] = defaultdict(Counter)
    sizes: dict[str, Counter[str]] = defaultdict(Counter)
    for of, at, count, size, is_minute in _sends(now, pair, entity):
        for name in {of, ""}:
            hours[name][at.replace(minute=0)] += count
            if is_minute:
                minutes[name][at] += count
                sizes[name].update({"messages": count, "bytes": size} if at >= now - LONGER else {})
    return {name: Sent(Traffic(minutes[name], hours[name]), _mean(sizes[name])) for name in hours}


def _sends(now: datetime, pair: str, entity: str) -> Iterable[tuple[str, datetime, int, int, bool]]:
    """Pair, time, messages, bytes, and whether the time is a minute; older ones are of hours, or of parts of them."""
    which = {name: value for name, value in (("pair", pair), ("entity", entity)) if value}
    records = MeteredRecord.objects.filter(kind__in=SENDS, **which).annotate(at=F("minute"))
    earlier = MeteredUsage.objects.filter(kind__in=SENDS, begins_at__gte=now - DAY * (DAYS + 1), **which)
    return _summed(records, True).union(_summed(earlier.annotate(at=F("begins_at")), False), all=True)


def _summed(rows: QuerySet[Any], is_minute: bool) -> QuerySet[Any]:
    sums = rows.order_by().values("pair", "at").annotate(count=Sum("messages"), size=Sum("bytes"))
    is_one = Value(is_minute, output_field=BooleanField())
    found: QuerySet[Any] = sums.annotate(is_minute=is_one).values_list("pair", "at", "count", "size", "is_minute")
    return found


def _mean(sizes: Counter[str]) -> int:
    return round(sizes["bytes"] / sizes["messages"]) if sizes["messages"] else 0


def minutes(cut: datetime, until: datetime, **which: Any) -> list[dict[str, Any]]:
    """Billing units and bytes between two times, as kept: by minute what a failover causes, else by hour once older."""
    records = MeteredRecord.objects.filter(minute__gte=cut, minute__lt=until, **which).annotate(at=F("minute"))
    earlier = MeteredUsage.objects.filter(begins_at__gte=cut, begins_at__lt=until, **which)
    rows = (records, earlier.annotate(at=F("begins_at")))
    sums = {"units": Sum("billing_units"), "size": Sum("bytes")}
    return [row for each in rows for row in each.order_by().values(*PLACE, "at").annotate(**sums)]


def since(cut: datetime, until: datetime, **which: Any) -> list[dict[str, Any]]:
    """The sums of operations between two times, by scope, pair, namespace, entity and kind."""
    found: dict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
    within = (
        MeteredRecord.objects.filter(Q(minute__gte=cut, minute__lt=until), **which),
        MeteredUsage.objects.filter(Q(begins_at__gte=cut, begins_at__lt=until), **which),
    )
    for rows in within:
        for row in rows.order_by().values(*PLACE).annotate(**{f"sum_{name}": Sum(name) for name in NUMBERS}):
            found[tuple(row[name] for name in PLACE)].update({name: row[f"sum_{name}"] for name in NUMBERS})
    return [dict(zip(PLACE, key, strict=True)) | dict(numbers) for key, numbers in found.items()]
