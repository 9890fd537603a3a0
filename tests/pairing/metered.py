"""What a client has metered: records are of one minute each, and a test may run while one ends."""

import json
from collections import Counter
from operator import attrgetter
from typing import Any, NamedTuple

from pairing.fleet.streams import USAGE
from pairing.telemetry.metering import UsageRecord


class Metered(NamedTuple):
    """The sum of records, of all their minutes."""

    operations: int
    messages: int
    billing_units: int
    bytes: int


def metered(client: Any, *by: str) -> dict[Any, Metered]:
    """All that the client has counted and not reported yet, by these fields of a record."""
    key = attrgetter(*by)
    counted: dict[Any, list[UsageRecord]] = {}
    for record in client.meter.drain(client.clock.now(), everything=True):
        counted.setdefault(key(record), []).append(record)
    return {
        of: Metered(*(sum(getattr(record, name) for record in records) for name in Metered._fields))
        for of, records in counted.items()
    }


def reported(redis_client: Any, pair: str) -> Counter[str]:
    """Messages by kind, as the last report of each record tells."""
    latest: dict[str, Any] = {}
    for _, fields in redis_client.xrange(USAGE):
        record = json.loads(fields["record"])
        if record["scope"] == pair and record["seq"] >= latest.get(record["record_id"], record)["seq"]:
            latest[record["record_id"]] = record
    found: Counter[str] = Counter()
    for record in latest.values():
        found[record["kind"]] += record["messages"]
    return found
