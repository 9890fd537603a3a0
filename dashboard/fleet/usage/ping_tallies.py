"""The pings of each failover, kept with it when later failovers are pinged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from django.db import connection

from dashboard.models import EntityHealth, PingTally
from dashboard.site.fitting import counted, fitted
from pairing.fleet.shared_health import PingRecord

BATCH = 500


def keep(pinged: Iterable[tuple[EntityHealth, PingRecord]]) -> None:
    """Store the last ping of each entity with the failover that it belongs to."""
    known = list(pinged)
    for start in range(0, len(known), BATCH):
        part = known[start : start + BATCH]
        newest = _newest(entity for entity, _ in part)
        _store([_tally(entity, ping, newest.get(entity.pk)) for entity, ping in part])


def _store(tallies: Iterable[PingTally]) -> None:
    """One statement for all: SQLite limits the parameters of an ORM statement to far fewer rows."""
    fields = [field for field in PingTally._meta.concrete_fields if not field.primary_key]
    quoted = connection.ops.quote_name
    table, columns = quoted(PingTally._meta.db_table), [quoted(str(field.column)) for field in fields]
    changed = ", ".join(f"{column} = excluded.{column}" for column in columns if column not in _key(quoted))
    rows = [[field.get_db_prep_save(getattr(one, field.attname), connection) for field in fields] for one in tallies]
    values = ", ".join(["%s"] * len(columns))
    with connection.cursor() as cursor:
        # The names are those of the model.
        cursor.executemany(
            f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values}) "  # noqa: S608
            f"ON CONFLICT ({', '.join(_key(quoted))}) DO UPDATE SET {changed}",
            rows,
        )


def _key(quoted: Callable[[str], str]) -> tuple[str, str]:
    return quoted("entity_id"), quoted("began_at")


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
