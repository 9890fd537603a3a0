"""The operations of the simulated past, as rows of usage files. Pure."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from dashboard.demo.history.plan import SIMULATION, History, Outage, by_hour
from dashboard.demo.history.scenery import (
    BACKLOG_QUEUES,
    ENTITIES,
    LIVE_PAIR,
    MESSAGE_BYTES,
    OTHER_PAIR,
    SUBSCRIPTION,
    Watched,
    secondary_of,
)
from dashboard.demo.history.traffic import messages
from pairing.backlog.rotation import backlog_path

HOUR = timedelta(hours=1)
PART = timedelta(minutes=10)
"""Rows of an outage cover ten minutes, all others an hour."""
PING_INTERVAL = timedelta(minutes=1)
EMPTY_POLLS_PER_DAY = 4 * 24 * 2
CONNECTIONS = {LIVE_PAIR: 34, OTHER_PAIR: 21}
LATE_DAY, LATE_PATHS, LATE_SHARE = 17, ("fulfilment/labels", "fulfilment/packing"), 0.06
"""Which day of a month a reporter of two queues delivers after the month is closed, and its share of their messages."""


@dataclass(frozen=True, slots=True)
class Row:
    """Operations of one kind from this minute on; those that moved a message have one for each."""

    minute: datetime
    pair: str
    namespace: str
    entity: str
    kind: str
    operations: int
    is_of_messages: bool = True

    def columns(self, record_id: str) -> dict[str, object]:
        """The columns of a usage file."""
        moved = self.operations if self.is_of_messages else 0
        return {
            "record_id": record_id,
            "minute": self.minute,
            "scope": SUBSCRIPTION,
            "pair": self.pair,
            "namespace": self.namespace,
            "entity": self.entity,
            "kind": self.kind,
            "reporter": SIMULATION,
            "seq": 1,
            "operations": self.operations,
            "messages": moved,
            "bytes": moved * MESSAGE_BYTES,
            "billing_units": self.operations,
        }


def rows_by_day(past: History) -> dict[date, list[Row]]:
    """All rows of the past by day (UTC)."""
    days: dict[date, list[Row]] = defaultdict(list)
    for row in _rows(past):
        days[row.minute.astimezone(UTC).date()].append(row)
    return dict(sorted(days.items()))


def late_rows(past: History, month: str) -> list[Row]:
    """What is delivered after the month was closed."""
    day = datetime.fromisoformat(f"{month}-{LATE_DAY:02}T09:00:00+00:00")
    late = [one for one in ENTITIES if one.path in LATE_PATHS]
    return [
        Row(hour, one.pair, one.pair, one.path, kind, round(LATE_SHARE * messages(past.seed, one, hour)))
        for one in late
        for hour in (day + HOUR * n for n in range(8))
        for kind in ("send", "receive")
    ]


def _rows(past: History) -> Iterator[Row]:
    away = _diverted_by_hour(past)
    for entity in ENTITIES:
        hour = past.begin
        while hour + HOUR <= past.end:
            sent = messages(past.seed, entity, hour) - away.get((entity, hour), 0)
            yield from _ordinary(entity, hour, sent)
            hour += HOUR
    for outage in past.outages:
        yield from rows_of_outage(outage)
    yield from _idle(past)


def _diverted_by_hour(past: History) -> dict[tuple[Watched, datetime], int]:
    """What an entity did not get in an hour because it was failed over; it gets it when the backlog is drained."""
    found: dict[tuple[Watched, datetime], int] = defaultdict(int)
    for outage in past.outages:
        for at, count in by_hour(outage.entity, outage.failed_over_at, outage.recovered_at, past.seed):
            found[outage.entity, at.replace(minute=0)] += count
    return found


def _ordinary(entity: Watched, hour: datetime, sent: int) -> Iterator[Row]:
    if sent <= 0:
        return
    for kind in ("send", "receive", "settle"):
        yield Row(hour, entity.pair, entity.pair, entity.path, kind, sent)


def rows_of_outage(outage: Outage) -> Iterator[Row]:
    """Diverted sends and pings while it is away; then the syphon's operations, and the receives that follow."""
    entity, secondary = outage.entity, secondary_of(outage.entity.pair)
    away, drain = (outage.failed_over_at, outage.recovered_at), (outage.resumed_at, outage.drained_at)
    for minute, sent in _shares(outage.diverted, *away):
        yield Row(minute, entity.pair, secondary, entity.path, "send_backlog", sent)
    for minute, length in _parts(*away):
        pings = max(1, round(length / PING_INTERVAL))
        yield Row(minute, entity.pair, entity.pair, entity.path, "ping", pings, is_of_messages=False)
    for kind, namespace, count in (
        ("syphon_receive", secondary, outage.diverted),
        ("syphon_send", entity.pair, outage.home),
        ("syphon_settle", secondary, outage.diverted),
        ("receive", entity.pair, outage.home),
        ("settle", entity.pair, outage.home),
    ):
        for minute, moved in _shares(count, *drain):
            yield Row(minute, entity.pair, namespace, entity.path, kind, moved)


def _shares(count: int, since: datetime, until: datetime) -> Iterator[tuple[datetime, int]]:
    """A count spread evenly over a time span, whose parts sum to it."""
    done, passed = 0, timedelta()
    for minute, length in _parts(since, until):
        passed += length
        upto = round(count * (passed / (until - since)))
        yield minute, upto - done
        done = upto


def _parts(since: datetime, until: datetime) -> Iterator[tuple[datetime, timedelta]]:
    """The parts of a time span: the minute that counts for each, and its length.

    The minute begins in the span, unless the span is within one minute.
    """
    at = since
    while at < until:
        following, minute = min(until, at + PART), at.replace(second=0, microsecond=0)
        yield minute if minute + timedelta(minutes=1) >= until else minute + timedelta(minutes=1), following - at
        at = following


def _idle(past: History) -> Iterator[Row]:
    """Empty receives of the syphons, once a day."""
    day = past.begin
    while day + timedelta(days=1) <= past.end:
        for pair in (LIVE_PAIR, OTHER_PAIR):
            for number in range(BACKLOG_QUEUES):
                path = backlog_path(pair, number)
                yield Row(day, pair, secondary_of(pair), path, "syphon_receive_empty", EMPTY_POLLS_PER_DAY, False)
        day += timedelta(days=1)


def connections(past: History) -> Iterator[tuple[datetime, str, int]]:
    """The hour, the namespace and the peak of its connections in it."""
    hour = past.begin
    while hour + HOUR <= past.end:
        for pair, peak in CONNECTIONS.items():
            yield hour, pair, peak + hour.hour % 5
            yield hour, secondary_of(pair), 8 + hour.day % 3
        hour += HOUR
