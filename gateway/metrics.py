"""What a gateway counts, and how it reports that: to Prometheus, and to the fleet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from pairing.fleet.presence import GatewayTraffic

_PREFIX = "paired_gateway_"
_MOST_SDKS, _MOST_TEXT = 20, 60
_MEANINGS = {
    "links": "Links of the clients.",
    "retained": "Deliveries without an outcome.",
    "clients_total": "Clients that have connected.",
    "primary_lost_total": "Connections to the primary that ended before the client closed them.",
    "from_clients_bytes_total": "Bytes that clients sent.",
    "to_clients_bytes_total": "Bytes that clients were sent.",
    "redirected_total": "Messages that a backlog queue accepted.",
    "refused_total": "Messages that neither namespace accepted.",
}


class Metrics(Collector):
    """The counters of one process; `traffic` has the rest."""

    clients_total = primary_lost_total = from_clients_bytes_total = to_clients_bytes_total = 0
    redirected_total = refused_total = 0
    pair: str
    traffic: Callable[[], GatewayTraffic]

    def collect(self) -> Iterable[Metric]:
        """Each metric with its labels."""
        traffic = self.traffic()
        clients = GaugeMetricFamily(_PREFIX + "clients", "Clients that are connected.", labels=("pair", "sdk"))
        for sdk, count in traffic.clients.items():
            clients.add_metric((self.pair, sdk), count)
        yield clients
        for name, meaning in _MEANINGS.items():
            is_counter = name.endswith("_total")
            family = (CounterMetricFamily if is_counter else GaugeMetricFamily)(
                _PREFIX + name, meaning, labels=("pair",)
            )
            family.add_metric((self.pair,), getattr(self if is_counter else traffic, name))
            yield family


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
