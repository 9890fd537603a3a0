"""Draining a backlog: one syphon against loops written by hand over the public SDK, side by side in one run.

A ratio above 1 means that the syphon is faster.
"""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import uuid4

from azure.servicebus import ServiceBusClient, ServiceBusMessage

import pairing.aio
from emulator.running import running
from pairing import PairedServiceBusClient, SendAvailabilityOptions, Syphon
from pairing.messages.rewriting import to_backlog
from tests.benchmarks.processes import size

BLOCKS, MESSAGES = size(7, 1), size(900, 300)
SLOW_MESSAGES, NAIVE_MESSAGES, ONE_WAY_S = size(1000, 300), size(40, 4), 0.010
QUEUE = "orders"
ROWS = [
    (
        "beside the fastest hand-written loop over the public SDK: receive 100, send a batch, complete each",
        "at least 0.95",
        "{drain_against_the_loop_by_hand}; asyncio {asyncio_drain_against_the_loop_by_hand}",
    ),
    ("beside single sends and settlement one by one", "at least 2", "{drain_against_one_by_one}"),
    (
        "the same with 20 ms of round trip in between",
        "at least 10",
        "{drain_against_one_by_one_20_ms_away}; asyncio {asyncio_drain_against_one_by_one_20_ms_away}",
    ),
]


@contextmanager
def namespaces() -> Iterator[list[str]]:
    """The connection strings of a primary and a secondary, each in a process of its own."""
    with running("contoso", entities=[f"contoso/{QUEUE}"]) as primary, running("contoso-dr") as secondary:
        yield [primary["contoso"].connection_string, secondary["contoso-dr"].connection_string]


@contextmanager
def far_away(strings: list[str]) -> Iterator[list[str]]:
    """The same namespaces, each byte 10 ms later in either direction."""
    loop, ports = _quiet_loop(), [int(text.split(";")[0].rsplit(":", 1)[1]) for text in strings]
    servers = [loop.run_until_complete(_delaying_server(port)) for port in ports]
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    far = [server.sockets[0].getsockname()[1] for server in servers]
    yield [text.replace(f":{near}", f":{away}") for text, near, away in zip(strings, ports, far, strict=True)]
    asyncio.run_coroutine_threadsafe(_end_all(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def _quiet_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *reported: None)  # the relays are cut off when the measurement is over
    return loop


async def _end_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def _delaying_server(port: int) -> asyncio.Server:
    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        while data := await reader.read(65536):
            loop.call_later(ONE_WAY_S, writer.write, data)
        loop.call_later(ONE_WAY_S, writer.close)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(relay(reader, back), relay(there, writer), return_exceptions=True)

    return await asyncio.start_server(serve, "127.0.0.1", 0)


class Bench:
    """A pair with one backlog queue."""

    def __init__(self, primary: str, secondary: str) -> None:
        self.primary, self.secondary = primary, secondary
        options = SendAvailabilityOptions(
            primary_namespace=f"contoso-{uuid4().hex[:6]}",
            secondary_namespace="contoso-dr",
            backlog_queue_count=1,
            enable_pings=False,
            creation_retry_interval=timedelta(0),
        )
        self.client = PairedServiceBusClient.from_connection_string(primary, secondary, options=options)
        self.client.open()
        [self.backlog] = self.client.backlog_paths

    def fill(self, near: str, count: int) -> None:
        """Puts messages of 256 bytes into the backlog queue."""
        messages = [to_backlog(ServiceBusMessage(b"x" * 256, message_id=str(number)), QUEUE) for number in range(count)]
        sdk = ServiceBusClient.from_connection_string(near)
        with sdk, sdk.get_queue_sender(self.backlog) as sender:
            for at in range(0, count, 500):
                sender.send_messages(messages[at : at + 500])

    def by_syphon(self, count: int) -> float:
        """Seconds per message, from the first to the last."""
        syphon, stop = Syphon(self.client), threading.Event()
        thread = threading.Thread(target=syphon.run, args=(stop,))
        thread.start()
        moved = lambda: syphon.progress[self.backlog].ledger.count("restored") if syphon.progress else 0  # noqa: E731
        pause = threading.Event()
        while not (before := moved()):
            pause.wait(0.002)
        began = time.perf_counter()
        while (now := moved()) < count:
            pause.wait(0.005)
        elapsed = time.perf_counter() - began
        stop.set()
        thread.join()
        return elapsed / (now - before)

    async def by_asyncio_syphon(self, count: int) -> float:
        """The same of the asyncio syphon, on a loop of its own."""
        make = pairing.aio.PairedServiceBusClient.from_connection_string
        async with make(self.primary, self.secondary, options=self.client.options) as client:
            syphon, stop = pairing.aio.Syphon(client), asyncio.Event()
            running = asyncio.create_task(syphon.run(stop))
            moved = lambda: syphon.progress[self.backlog].ledger.count("restored") if syphon.progress else 0  # noqa: E731
            while not (before := moved()):
                await asyncio.sleep(0.002)
            began = time.perf_counter()
            while (now := moved()) < count:
                await asyncio.sleep(0.005)
            elapsed = time.perf_counter() - began
            stop.set()
            await running
            return elapsed / (now - before)

    def by_hand(self, count: int, at_once: int) -> float:
        """Seconds per message of a loop over the public SDK, from the first send and settlement to the last."""
        source = ServiceBusClient.from_connection_string(self.secondary)
        target = ServiceBusClient.from_connection_string(self.primary)
        with source, target, source.get_queue_receiver(self.backlog) as receiver, target.get_queue_sender(QUEUE) as out:
            moved, began, first = 0, 0.0, 0
            while moved < count:
                received = receiver.receive_messages(100, max_wait_time=5)
                for some in (received[at : at + at_once] for at in range(0, len(received), at_once)):
                    out.send_messages(list(map(copy, some)) if at_once > 1 else copy(some[0]))
                    for message in some:
                        receiver.complete_message(message)
                    moved += len(some)
                    if not began:
                        began, first = time.perf_counter(), moved
            return (time.perf_counter() - began) / max(moved - first, 1)


def copy(message: Any) -> ServiceBusMessage:
    """The least a loop by hand has to do for a message."""
    properties = {key.decode(): value for key, value in message.application_properties.items() if key != b"x-ms-path"}
    return ServiceBusMessage(
        b"".join(message.body), message_id=message.message_id, application_properties=properties or None
    )


def run() -> dict[str, float | dict[str, float]]:
    """The ratios, and messages per second of each way."""
    costs: dict[str, list[float]] = {"syphon": [], "asyncio syphon": [], "by hand": [], "one by one": []}
    with namespaces() as near:
        bench = Bench(*near)
        for _ in range(BLOCKS):
            bench.fill(near[1], MESSAGES)
            costs["syphon"].append(bench.by_syphon(MESSAGES))
            bench.fill(near[1], MESSAGES)
            costs["asyncio syphon"].append(asyncio.run(bench.by_asyncio_syphon(MESSAGES)))
            bench.fill(near[1], MESSAGES)
            costs["by hand"].append(bench.by_hand(MESSAGES, at_once=100))
            bench.fill(near[1], MESSAGES // 3)
            costs["one by one"].append(bench.by_hand(MESSAGES // 3, at_once=1))
        bench.client.close()
        with far_away(near) as away:
            far = Bench(*away)
            far.fill(near[1], SLOW_MESSAGES)
            costs["syphon, 20 ms away"] = [far.by_syphon(SLOW_MESSAGES)]
            far.fill(near[1], SLOW_MESSAGES)
            costs["asyncio syphon, 20 ms away"] = [asyncio.run(far.by_asyncio_syphon(SLOW_MESSAGES))]
            far.fill(near[1], NAIVE_MESSAGES)
            costs["one by one, 20 ms away"] = [far.by_hand(NAIVE_MESSAGES, at_once=1)]
            far.client.close()
    cost = {way: min(figures) for way, figures in costs.items()}  # of each its best: others use this machine too
    return {
        "drain_against_the_loop_by_hand": round(cost["by hand"] / cost["syphon"], 2),
        "asyncio_drain_against_the_loop_by_hand": round(cost["by hand"] / cost["asyncio syphon"], 2),
        "drain_against_one_by_one": round(cost["one by one"] / cost["syphon"], 2),
        "drain_against_one_by_one_20_ms_away": round(cost["one by one, 20 ms away"] / cost["syphon, 20 ms away"], 1),
        "asyncio_drain_against_one_by_one_20_ms_away": round(
            cost["one by one, 20 ms away"] / cost["asyncio syphon, 20 ms away"], 1
        ),
        "messages_per_second": {way: round(1 / seconds) for way, seconds in cost.items()},
    }
