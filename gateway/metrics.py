"""What a gateway counts, and how it reports that: to Prometheus, and to the fleet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

from prometheus_client import Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from pairing.fleet.presence import GatewayTraffic

_PREFIX = "paired_gateway_"
_MOST_SDKS, _MOST_TEXT = 20, 60


def _counter(meaning: str) -> int:
    counter: int = field(default=0, metadata={"meaning": meaning})
    return counter


@dataclass(slots=True)
class Metrics:
    """The counters of one process."""

    clients_total: int = _counter("Clients that have connected.")
    primary_lost_total: int = _counter("Connections to the primary that ended before the client closed them.")
    from_clients_bytes_total: int = _counter("Bytes that clients sent.")
    to_clients_bytes_total: int = _counter("Bytes that clients were sent.")
    redirected_total: int = _counter("Messages that a backlog queue accepted.")
    refused_total: int = _counter("Messages that neither namespace accepted.")

    def exposition(self, pair: str, traffic: GatewayTraffic) -> str:
        """The text of /metrics."""
        return generate_latest(_Families(list(self._families(pair, traffic)))).decode()

    def _families(self, pair: str, traffic: GatewayTraffic) -> Iterable[Metric]:
        clients = GaugeMetricFamily(_PREFIX + "clients", "Clients that are connected.", labels=("pair", "sdk"))
        for sdk, count in traffic.clients.items():
            clients.add_metric((pair, sdk), count)
        yield clients
        for name, meaning in (("links", "Links of the clients."), ("retained", "Deliveries without an outcome.")):
            gauge = GaugeMetricFamily(_PREFIX + name, meaning, labels=("pair",))
            gauge.add_metric((pair,), getattr(traffic, name))
            yield gauge
        for each in fields(self):
            counter = CounterMetricFamily(_PREFIX + each.name, each.metadata["meaning"], labels=("pair",))
            counter.add_metric((pair,), getattr(self, each.name))
            yield counter


class _Families(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def by_sdk(names: Iterable[str]) -> dict[str, int]:
    """How many clients each SDK has. The rest of many are counted together, as clients choose what they say."""
    counted = Counter(names)
    found = dict(counted.most_common(_MOST_SDKS))
    rest = counted.total() - sum(found.values())
    return found | ({"others": rest} if rest else {})


def sdk_of(properties: Any) -> str:
    """The product and version that a client gives in `open`, cut and without control characters."""
    given = properties if isinstance(properties, dict) else {}
    named = "/".join(str(given[name]) for name in ("product", "version") if given.get(name))
    return "".join(filter(str.isprintable, named))[:_MOST_TEXT] or "unknown"
