"""How long an asyncio client holds the event loop: while it opens links over TLS and sends, beside the bare SDK.

While the loop is held no deadline is noticed, so the longest hold adds to the bound of a send. The bare SDK makes a TLS
context for each link, on the loop. Median and worst of the rounds; each round opens LINKS links one after the other.
Run: python -m tests.benchmarks.bench_event_loop
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import certifi
import trustme
from azure.servicebus import ServiceBusMessage, TransportType
from azure.servicebus.aio import ServiceBusClient

from emulator.running import running
from pairing import SendAvailabilityOptions
from pairing.aio import PairedServiceBusClient
from tests.benchmarks.processes import size

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


def run() -> dict[str, float | dict[str, float]]:
    """The longest holds of the loop, in milliseconds."""
    with TemporaryDirectory() as directory:
        authorities, arguments = _certificates(Path(directory))
        with running("contoso", entities=["contoso/orders"], arguments=arguments) as namespaces:
            return asyncio.run(_compare(namespaces["contoso"].connection_string, authorities))


def _certificates(directory: Path) -> tuple[str, list[str]]:
    authority, authorities = trustme.CA(), directory / "authorities.pem"
    authority.cert_pem.write_to_path(authorities)
    leaf = authority.issue_cert("127.0.0.1", "localhost")
    leaf.cert_chain_pems[0].write_to_path(directory / "cert.pem")
    leaf.private_key_pem.write_to_path(directory / "key.pem")
    return str(authorities), ["--tls-cert", str(directory / "cert.pem"), "--tls-key", str(directory / "key.pem")]


async def _compare(string: str, authorities: str) -> dict[str, float | dict[str, float]]:
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


def _with_public_ones(authorities: str) -> str:
    """A file as the SDK's default: reading some 140 authorities is what takes long."""
    path = Path(authorities).with_name("all.pem")
    path.write_text(Path(authorities).read_text() + Path(certifi.where()).read_text())
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


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
