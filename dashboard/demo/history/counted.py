"""The simulated past as the counts that collectors keep of each failover: metered operations, and pings."""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import timedelta

from dashboard.demo.history.metered import Row, rows_of_outage
from dashboard.demo.history.plan import MARK, History
from dashboard.demo.history.scenery import MESSAGE_BYTES, SUBSCRIPTION
from dashboard.fleet.metered import OF_A_FAILOVER
from dashboard.fleet.rates import DAYS
from dashboard.models import EntityHealth, MeteredUsage, PingTally

COMPARED = timedelta(days=DAYS + 1)
"""Traffic is forecast from so many days. Simulated sends to the backlog, without those to the primary beside them,
would falsify it; so the incidents of these days have no metered messages."""


def metered_usage(past: History) -> Iterator[MeteredUsage]:
    """The operations that failovers caused, by minute."""
    sums = Counter[Row]()
    for outage in past.outages:
        if outage.drained_at < past.end - COMPARED:
            rows = (row for row in rows_of_outage(outage) if row.kind in OF_A_FAILOVER)
            sums.update({_place(row): row.operations for row in rows})
    for place, operations in sums.items():
        moved = operations if place.is_of_messages else 0
        yield MeteredUsage(
            begins_at=place.minute,
            scope=SUBSCRIPTION,
            pair=place.pair,
            namespace=place.namespace,
            entity=place.entity,
            kind=place.kind,
            operations=operations,
            messages=moved,
            bytes=moved * MESSAGE_BYTES,
            billing_units=operations,
        )


def ping_tallies(past: History, entities: Mapping[tuple[str, str], EntityHealth]) -> Iterator[PingTally]:
    """The pings of each failover."""
    for outage in past.outages:
        entity = entities.get((outage.entity.pair, outage.entity.path))
        if entity is not None:
            yield PingTally(
                entity=entity,
                began_at=outage.failed_over_at,
                last_at=outage.recovered_at,
                accepted=True,
                reason=MARK,
                count=sum(row.operations for row in rows_of_outage(outage) if row.kind == "ping"),
            )


def _place(row: Row) -> Row:
    return Row(row.minute, row.pair, row.namespace, row.entity, row.kind, 0, row.is_of_messages)
