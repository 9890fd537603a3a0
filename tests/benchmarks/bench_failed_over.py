"""How fast an application sends after a failover: beside its healthy rate, with a secondary at the same distance.

50 threads or tasks, each with a sender of its own; every send takes 100 ms, and every link 0.5 s to open. Also with a
secondary that takes 5 s for each send; and, for comparison, with one link to each backlog queue instead of as many as
sends wait for. Run: python -m tests.benchmarks.bench_failed_over
"""

import asyncio
import json
import threading
import time
from datetime import timedelta
from typing import Any
from unittest.mock import patch

from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

import pairing.aio
from emulator.running import RunningNamespace, running
from pairing import PairedServiceBusClient, SendAvailabilityOptions
from pairing.operations import client as operations
from tests.benchmarks.processes import size

SENDERS, SECONDS, WARMING_S = size(50, 3), size(10, 1), size(3, 1)
SEND_S, OPENING_S, SLOW_S = 0.1, 0.5, size(5, 1)
OPTIONS = SendAvailabilityOptions(
    primary_namespace="contoso", secondary_namespace="contoso-dr", failover_interval=timedelta(0), enable_pings=False
)
ROWS = [
    (
        "sends a second of 50 threads after a failover, beside those before it, at 100 ms",
        "at least 0.9",
        "{blocking_ratio:.2f}: {blocking[failed_over]:.0f}, {blocking[healthy]:.0f}; "
        "with one link to each backlog queue {blocking[failed_over_one_link]:.0f}",
    ),
    ("the same with 50 tasks in asyncio", "at least 0.9", "{asyncio_ratio:.2f}"),
    ("the same threads with a secondary that takes 5 s", "no error", "{blocking[errors_of_slow]} errors"),
]


class Counted:
    """The sends that were accepted in the measured time, and the errors at any time."""

    def __init__(self) -> None:
        self.accepted, self.errors = 0, 0
        self.from_ = time.monotonic() + WARMING_S
        self.until = self.from_ + SECONDS

    def goes_on(self) -> bool:
        return time.monotonic() < self.until

    def count(self) -> None:
        self.accepted += self.from_ <= time.monotonic() < self.until

    @property
    def rate(self) -> float:
        return self.accepted / SECONDS


def run() -> dict[str, float | dict[str, float]]:
    """The ratios, with the rates a second they were made of."""
    with running("contoso", "contoso-dr", entities=["contoso/orders"]) as namespaces:
        primary, secondary = namespaces["contoso"], namespaces["contoso-dr"]
        for namespace in (primary, secondary):
            _far(namespace, SEND_S)
        measured = {"blocking": _blocking(primary, secondary), "asyncio": asyncio.run(_asyncio(primary, secondary))}
    return {f"{world}_ratio": rates["failed_over"] / rates["healthy"] for world, rates in measured.items()} | measured


def _far(namespace: RunningNamespace, send_s: float) -> None:
    namespace.mend()
    namespace.fault(operation="send", effect="delay", delay_s=send_s)
    namespace.fault(operation="attach", effect="delay", delay_s=OPENING_S)


def _blocking(primary: RunningNamespace, secondary: RunningNamespace) -> dict[str, float]:
    def send(sender: Any, counted: Counted) -> None:
        while counted.goes_on():
            try:
                sender.send_messages(ServiceBusMessage(b"x" * 256))
            except ServiceBusError:
                counted.errors += 1
            else:
                counted.count()

    def measured() -> Counted:
        counted = Counted()
        threads = [threading.Thread(target=send, args=(sender, counted)) for sender in senders]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return counted

    strings = primary.connection_string, secondary.connection_string
    with PairedServiceBusClient.from_connection_string(*strings, options=OPTIONS) as client:
        senders = [client.get_queue_sender("orders") for _ in range(SENDERS)]
        healthy = measured()
        client.fail_over("orders", "benchmark")
        with patch.object(operations, "MOST_BACKLOG_LINKS", 1):
            one_link = measured()
        failed_over, links = measured(), client.secondary.connections
        _far(secondary, SLOW_S)
        slow = measured()
        _far(secondary, SEND_S)
    more = {"failed_over_one_link": one_link.rate, "slow": slow.rate, "errors_of_slow": slow.errors}
    return _figures(healthy, failed_over, links) | more


async def _asyncio(primary: RunningNamespace, secondary: RunningNamespace) -> dict[str, float]:
    async def send(sender: Any, counted: Counted) -> None:
        while counted.goes_on():
            await sender.send_messages(ServiceBusMessage(b"x" * 256))
            counted.count()

    async def measured() -> Counted:
        counted = Counted()
        await asyncio.gather(*(send(sender, counted) for sender in senders))
        return counted

    strings = primary.connection_string, secondary.connection_string
    async with pairing.aio.PairedServiceBusClient.from_connection_string(*strings, options=OPTIONS) as client:
        senders = [client.get_queue_sender("orders") for _ in range(SENDERS)]
        healthy = await measured()
        client.fail_over("orders", "benchmark")
        return _figures(healthy, await measured(), client.secondary.connections)


def _figures(healthy: Counted, failed_over: Counted, links: int) -> dict[str, float]:
    return {"healthy": healthy.rate, "failed_over": failed_over.rate, "links_to_the_backlog": links}


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
