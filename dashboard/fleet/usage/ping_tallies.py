"""The pings of each failover, kept with it when later failovers are pinged."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from dashboard.models import EntityHealth, PingTally
from dashboard.site.database import upsert
from dashboard.site.fitting import counted, fitted
from pairing.fleet.shared_health import PingRecord

BATCH = 500


def keep(pinged: Iterable[tuple[EntityHealth, PingRecord]]) -> None:
    """Store the last ping of each entity with the failover that it belongs to."""
    known = list(pinged)
    for start in range(0, len(known), BATCH):
        part = known[start : start + BATCH]
        newest = _newest(entity for entity, _ in part)
        tallies = [_tally(entity, ping, newest.get(entity.pk)) for entity, ping in part]
        upsert(tallies, ("entity", "began_at"), ("last_at", "accepted", "reason", "count"))


def during(entity: EntityHealth, failed_over_at: datetime, until: datetime | None) -> PingTally | None:
    """The pings of a failover, up to the next one; None if none are known."""
    rows = PingTally.objects.filter(entity=entity, last_at__gte=failed_over_at)
    return (rows.filter(began_at__lt=until) if until else rows).order_by("last_at").last()


def _newest(entities: Iterable[EntityHealth]) -> dict[int, PingTally]:
    """The tally of each entity's latest failover."""
    rows = PingTally.objects.filter(entity__in=[entity.pk for entity in entities]).order_by("began_at")
    return {row.entity_id: row for row in rows}


def _tally(entity: EntityHealth, ping: PingRecord, newest: PingTally | None) -> PingTally:
    return PingTally(
        entity=entity,
        began_at=_began(entity, ping, newest),
        last_at=ping.at,
        accepted=ping.accepted,
        reason=fitted(ping.reason, None),
        count=counted(ping.count),
    )


def _began(entity: EntityHealth, ping: PingRecord, newest: PingTally | None) -> datetime:
    """The start of its failover: as the entity reports it, or that of a tally that it continues. The count of pings
    restarts with each failover.
    """
    if entity.state == "failed_over" and entity.since is not None and entity.since <= ping.at:
        return entity.since
    continues = newest is not None and newest.began_at <= ping.at and newest.count <= ping.count
    return newest.began_at if newest is not None and continues else ping.at
