"""How long an asyncio client holds the event loop: while it opens links over TLS and sends, beside the bare SDK.

While the loop is held no deadline is noticed, so the longest hold adds to the bound of a send. The bare SDK makes a TLS
context for each link, on the loop. Median and worst of the rounds; each round opens LINKS links one after the other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import certifi
from azure.servicebus import ServiceBusMessage, TransportType
from azure.servicebus.aio import ServiceBusClient

from pairing import SendAvailabilityOptions
from pairing.aio import PairedServiceBusClient
from tests.benchmarks.processes import size
from tests.emulator.clients.conftest import serving

ROUNDS, LINKS = size(7, 1), 5
_TICK_S = 0.001
_OPTIONS = SendAvailabilityOptions(
    primary_namespace="contoso",
    secondary_namespace="contoso-dr",
    backlog_queue_count=1,
    creation_retry_interval=timedelta(0),
    require_secondary=False,  # over HTTPS it would be at port 443
    enable_pings=False,
)
ROWS = [
    (
        "the longest hold of the loop while links open over TLS",
        "at most 20 ms on a quiet machine",
        "{longest_hold_paired_ms[median]:.1f} ms; the bare SDK {longest_hold_bare_ms[median]:.1f} ms",
    )
]


def run() -> dict[str, float | dict[str, float]]:
    """The longest holds of the loop, in milliseconds."""
    with TemporaryDirectory() as directory, serving(Path(directory)) as served:
        return asyncio.run(_compare(served.namespace.connection_string, served.authority))


async def _compare(string: str, authorities: Path) -> dict[str, float | dict[str, float]]:
    secure = string.replace("UseDevelopmentEmulator=true;", "")
    port = secure.partition("127.0.0.1:")[2].partition(";")[0]
    keywords: dict[str, Any] = {
        "custom_endpoint_address": f"sb://localhost:{port}",
        "transport_type": TransportType.Amqp,
    }
    all_authorities = _with_public_ones(authorities)
    bare = ServiceBusClient.from_connection_string(secure, connection_verify=all_authorities, **keywords)
    paired = PairedServiceBusClient.from_connection_string(
        secure,
        secure.replace("127.0.0.1", "localhost"),
        options=_OPTIONS,
        connection_verify=all_authorities,
        **keywords,
    )
    async with bare, paired:
        holds: dict[str, list[float]] = {"bare": [], "paired": []}
        for _ in range(ROUNDS):
            for name, client in (("bare", bare), ("paired", paired)):
                holds[name].append(await _longest_hold_ms(lambda client=client: _open_and_send(client)))
    return {f"longest_hold_{name}_ms": {"median": median(all_), "worst": max(all_)} for name, all_ in holds.items()}


def _with_public_ones(authorities: Path) -> str:
    """A file as the SDK's default: reading some 140 authorities is what takes long."""
    path = authorities.with_name("all.pem")
    path.write_text(authorities.read_text() + Path(certifi.where()).read_text())
    return str(path)


async def _open_and_send(client: Any) -> None:
    for _ in range(LINKS):
        async with client.get_queue_sender("orders") as sender:
            await sender.send_messages(ServiceBusMessage(b"x" * 256))


async def _longest_hold_ms(work: Callable[[], Awaitable[None]]) -> float:
    """The longest time for which the loop ran nothing else while the work was done."""
    longest, is_over = 0.0, asyncio.Event()

    async def tick() -> None:
        nonlocal longest
        while not is_over.is_set():
            before = time.perf_counter()
            await asyncio.sleep(_TICK_S)
            longest = max(longest, time.perf_counter() - before - _TICK_S)

    ticking = asyncio.create_task(tick())
    await work()
    is_over.set()
    await ticking
    return longest * 1000
