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
OTHER = "other"
_SDKS = (
    "Messaging.ServiceBus", "MSGolangClient", "MSJSClient", "QpidJMS", "azsdk-python-servicebus",
    "azure-messaging-servicebus",
)  # fmt: skip
"""The products of the SDKs. A client says it before it has proven anything, so that no other is kept."""
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
        by_product = Counter(dict.fromkeys((*_SDKS, OTHER), 0))
        for sdk, count in traffic.clients.items():
            by_product[sdk.partition("/")[0]] += count
        for product, count in by_product.items():
            clients.add_metric((self.pair, product), count)
        yield clients
        for name, meaning in _MEANINGS.items():
            is_counter = name.endswith("_total")
            kind = CounterMetricFamily if is_counter else GaugeMetricFamily
            family = kind(_PREFIX + name, meaning, labels=("pair",))
            family.add_metric((self.pair,), getattr(self if is_counter else traffic, name))
            yield family


def by_sdk(names: Iterable[str]) -> dict[str, int]:
    """How many clients each SDK has. The rest of many are counted together, as clients choose what they say."""
    counted = Counter(names)
    found = Counter(dict(counted.most_common(_MOST_SDKS)))
    return dict(found + Counter({OTHER: counted.total() - found.total()}))


def sdk_of(properties: Any) -> str:
    """The product and version of a known SDK, as a client gives them in `open`: cut, without control characters."""
    given = properties if isinstance(properties, dict) else {}
    if given.get("product") not in _SDKS:
        return OTHER
    return "".join(filter(str.isprintable, f"{given['product']}/{given.get('version', '')}"))[:_MOST_TEXT]
