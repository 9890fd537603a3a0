"""The plan of the simulated past: five incidents, and the traffic of each hour. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from zlib import crc32

from dashboard.demo.history.scenery import ENTITIES, LIVE_PAIR, OTHER_PAIR, Watched, of_pair

DAYS = 60
MARK = "(simulated)"
SIMULATION = "simulation"
"""Name of the process that has reported, and of the client that has requested, whatever is simulated."""
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
RHYTHM = (34, 28, 25, 24, 27, 38, 62, 98, 134, 156, 162, 158, 149, 155, 163, 160, 148, 132, 118, 107, 92, 74, 55, 42)
"""Percent of the average by hour of the day (UTC)."""
WEEKEND = 0.58


@dataclass(frozen=True, slots=True)
class Incident:
    """When, where and why an incident happened."""

    days_ago: float
    pair: str
    paths: tuple[str, ...]
    lasted: timedelta
    reason: str
    forced_by: str = ""


@dataclass(frozen=True, slots=True)
class Outage:
    """One entity's part of an incident."""

    incident: Incident
    entity: Watched
    failing_at: datetime
    failed_over_at: datetime
    recovered_at: datetime
    drained_at: datetime
    diverted: int

    def waiting(self, at: datetime) -> int:
        """Messages for the entity in the backlog at this time."""
        if not self.failed_over_at <= at < self.drained_at:
            return 0
        if at < self.recovered_at:
            return round(self.diverted * ((at - self.failed_over_at) / (self.recovered_at - self.failed_over_at)))
        return round(self.diverted * ((self.drained_at - at) / (self.drained_at - self.recovered_at)))


@dataclass(frozen=True, slots=True)
class History:
    """The simulated past: from `begin` to `end`."""

    begin: datetime
    end: datetime
    outages: tuple[Outage, ...]

    def incidents(self) -> list[list[Outage]]:
        """The outages of each incident, oldest first."""
        return [[one for one in self.outages if one.incident == incident] for incident in INCIDENTS]


INCIDENTS = (
    Incident(51.4, LIVE_PAIR, ("orders",), 38 * MINUTE, "orders rejects sends: internal error (amqp:internal-error)"),
    Incident(
        36.6,
        LIVE_PAIR,
        tuple(one.path for one in of_pair(LIVE_PAIR)),
        112 * MINUTE,
        "the primary does not answer: no connection within 30 s",
    ),
    Incident(
        22.7,
        OTHER_PAIR,
        ("fleet/positions",),
        200 * MINUTE,
        "fleet/positions refuses sends: quota reached (amqp:resource-limit-exceeded)",
    ),
    Incident(
        10.3, LIVE_PAIR, ("payments",), 55 * MINUTE, "moving payments to partitioned entities, change 4711", "anna"
    ),
    Incident(
        2.6,
        LIVE_PAIR,
        ("invoices/apac", "invoices/eu", "invoices/us"),
        17 * MINUTE,
        "the primary resets connections (amqp:connection:forced)",
    ),
)


def history(now: datetime) -> History:
    """The past as seen at `now`; the same for the same minute."""
    end = now.replace(second=0, microsecond=0)
    outages = (_outage(one, path, n, end) for one in INCIDENTS for n, path in enumerate(one.paths))
    return History((end - timedelta(days=DAYS)).replace(hour=0, minute=0), end, tuple(outages))


def _outage(incident: Incident, path: str, number: int, end: datetime) -> Outage:
    entity = next(one for one in ENTITIES if (one.pair, one.path) == (incident.pair, path))
    failing_at = end - timedelta(days=incident.days_ago) + number * timedelta(seconds=7)
    failed_over_at = failing_at if incident.forced_by else failing_at + MINUTE
    recovered_at = failed_over_at + incident.lasted
    diverted = 3 + sum(count for _, count in by_hour(entity, failed_over_at, recovered_at))
    drained_at = recovered_at + timedelta(seconds=60 + diverted // 22)
    return Outage(incident, entity, failing_at, failed_over_at, recovered_at, drained_at, diverted)


def by_hour(entity: Watched, since: datetime, until: datetime) -> Iterator[tuple[datetime, int]]:
    """The messages for the entity in each hour between two times, by the start of the part of the hour."""
    while since < until:
        following = min(until, since.replace(minute=0, second=0, microsecond=0) + HOUR)
        yield since, round(_per_hour(entity, since) * ((following - since) / HOUR))
        since = following


def _per_hour(entity: Watched, at: datetime) -> float:
    """A daily rhythm, quiet weekends, better and worse hours."""
    better = 0.9 + 0.2 * crc32(f"{entity.pair}/{entity.path}:{at:%Y%m%d%H}".encode()) / 2**32
    return entity.per_hour * RHYTHM[at.hour] / 100 * (WEEKEND if at.weekday() >= 5 else 1.0) * better
