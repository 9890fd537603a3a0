"""The metrics of the control plane in the text format of Prometheus.

Names and units follow its conventions: seconds and bytes, timestamps instead of ages, `_total` for counters. The number
of series is bounded: entities are counted by pair and state, and only those that are not healthy, or for which messages
wait, are listed individually, the worst MOST_LISTED of them.
"""

from collections.abc import Iterator
from datetime import datetime

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from dashboard.metrics import fleet, shared, work

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


class _ControlPlane(Collector):
    """Reads database and Redis when it is collected. One per scrape, without state between scrapes."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def collect(self) -> Iterator[Metric]:
        for module in (fleet, work, shared):
            yield from module.metrics(self._now)


def exposition(now: datetime) -> str:
    """All metrics now. If Redis is unavailable, its metrics have no samples, and `paired_redis_up` is 0."""
    registry = CollectorRegistry(auto_describe=False)  # describing would read everything a second time
    registry.register(_ControlPlane(now))
    return generate_latest(registry).decode()
