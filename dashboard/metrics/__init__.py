"""The control plane's numbers in the text format of Prometheus.

Names and units follow its conventions: seconds and bytes, timestamps where an age would do, `_total` for what only
grows. How many series there are is bounded: entities are counted by pair and state, and only those that are not
healthy, or for which messages wait, are listed one by one, the worst MOST_LISTED of them.
"""

from collections.abc import Iterator
from datetime import datetime

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from dashboard.metrics import fleet, shared, work

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


class _ControlPlane(Collector):
    """Reads database and Redis when it is collected. One for each scrape: it keeps nothing between two."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def collect(self) -> Iterator[Metric]:
        for module in (fleet, work, shared):
            yield from module.metrics(self._now)


def exposition(now: datetime) -> str:
    """All metrics at this moment. Where Redis is away its part is left out, and `paired_redis_up` is 0."""
    registry = CollectorRegistry(auto_describe=False)  # a description would read everything a second time
    registry.register(_ControlPlane(now))
    return generate_latest(registry).decode()
