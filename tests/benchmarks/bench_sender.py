"""What a pair costs its sender: beside the bare SDK, in interleaved blocks of one process, medians of the rounds.

Healthy path (blocking single sends, batches of 100, asyncio), a redirected send beside a bare send of the same bytes to
the same backlog queue, and switching with failover_interval 0 beside one bare send on a warm link.
"""

from __future__ import annotations

import asyncio
import gc
import random
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from statistics import median
from typing import Any

import azure.servicebus.aio
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusConnectionError

import pairing.aio
from emulator.running import RunningNamespace, running
from pairing import Fault, PairedServiceBusClient, SendAvailabilityOptions, classify
from pairing.messages.rewriting import to_backlog
from pairing.testing import InMemoryNamespace, InMemoryPairedClient, ManualClock
from tests.benchmarks.processes import size

BODY = b"x" * 256
_OPENING_S = 0.46
BLOCKS = size(61, 2)
SINGLES, BATCHES, SWITCHES = 50, 4, size(31, 2)
ROWS = [
    (
        "blocking single send, healthy",
        "at most 20 µs added",
        "{blocking_single_added_us:.1f} µs ({blocking_single_ratio:.2f}), CPU {blocking[single][cpu_added_us]:.1f} µs",
    ),
    ("blocking batch of 100, healthy", "at most 1.05", "{blocking_batch_ratio:.2f}"),
    (
        "asyncio single send, healthy",
        "at most 1.05",
        "{asyncio_single_ratio:.3f}; CPU time {asyncio_single_cpu_ratio:.3f}",
    ),
    ("asyncio batch of 100, healthy", "at most 1.05", "{asyncio_batch_ratio:.2f}"),
    ("redirected send, beside a bare send of the same bytes", "at most 1.05", "{redirected_ratio:.2f}"),
    (
        "switching, from the return of the failed attempt to the acknowledgement of the backlog, beside one bare send",
        "at most 1.5",
        "{switching_ratio:.2f}",
    ),
    (
        "memory after a simulated day's outage, beside that after two hours",
        "flat",
        "{memory_growth_over_a_days_outage_kib:.0f} KiB",
    ),
]


def run() -> dict[str, float | dict[str, float]]:
    """The ratios, with the microseconds they were made of."""
    with _namespaces() as namespaces:
        primary, secondary = namespaces["contoso"], namespaces["contoso-dr"].connection_string
        found = _blocking(primary, secondary) | asyncio.run(_asyncio(primary.connection_string, secondary))
    return found | {"memory_growth_over_a_days_outage_kib": _memory_of_a_days_outage()}


def _blocking(namespace: RunningNamespace, secondary: str) -> dict[str, Any]:
    primary = namespace.connection_string
    options = SendAvailabilityOptions(**_OPTIONS, enable_pings=False)
    with (
        PairedServiceBusClient.from_connection_string(primary, secondary, options=options) as pair,
        ServiceBusClient.from_connection_string(primary, retry_total=0) as bare_client,
        ServiceBusClient.from_connection_string(secondary, retry_total=0) as backlog_client,
        bare_client.get_queue_sender("orders", keep_alive=0) as bare,
        backlog_client.get_queue_sender(pair.backlog_paths[0], keep_alive=0) as bare_backlog,
    ):
        paired = pair.get_queue_sender("orders")
        for sender in (bare, paired):
            sender.send_messages(ServiceBusMessage(BODY))
        singles = _compare(_each(bare.send_messages), _each(paired.send_messages), _singles)
        batches = _compare(_each(bare.send_messages), _each(paired.send_messages), _batches)
        switching = _switching(pair, namespace, bare_backlog)
        pair.fail_over("orders", "benchmark")
        paired.send_messages(ServiceBusMessage(BODY))
        redirected = _compare(_each(_rewritten(bare_backlog)), _each(paired.send_messages), _singles)
    return {
        "blocking_single_added_us": singles["added_us"],
        "blocking_single_ratio": singles["ratio"],
        "blocking_single_cpu_ratio": singles["cpu_ratio"],
        "blocking_batch_ratio": batches["ratio"],
        "redirected_ratio": redirected["ratio"],
        "switching_ratio": switching["ratio"],
        "switching_ratio_to_a_hot_send": switching["ratio_to_hot"],
        "blocking": {"single": singles, "batch": batches, "redirected": redirected, "switching": switching},
    }


async def _asyncio(primary: str, secondary: str) -> dict[str, Any]:
    options = SendAvailabilityOptions(**_OPTIONS, enable_pings=False)
    async with (
        pairing.aio.PairedServiceBusClient.from_connection_string(primary, secondary, options=options) as pair,
        azure.servicebus.aio.ServiceBusClient.from_connection_string(primary, retry_total=0) as bare_client,
        bare_client.get_queue_sender("orders", keep_alive=0) as bare,
    ):
        paired = pair.get_queue_sender("orders")
        for sender in (bare, paired):
            await sender.send_messages(ServiceBusMessage(BODY))
        singles = await _compare_async(bare.send_messages, paired.send_messages, _singles)
        batches = await _compare_async(bare.send_messages, paired.send_messages, _batches)
    return {
        "asyncio_single_ratio": singles["ratio"],
        "asyncio_single_cpu_ratio": singles["cpu_ratio"],
        "asyncio_batch_ratio": batches["ratio"],
        "asyncio": {"single": singles, "batch": batches},
    }


def _switching(pair: PairedServiceBusClient, primary: RunningNamespace, bare_backlog: Any) -> dict[str, float]:
    """From the failed attempt's return to the backlog's acknowledgement; a link to the backlog is warm."""
    failed_at = acknowledged_at = 0.0

    def classified(error: BaseException, *, known: bool) -> Fault:
        nonlocal failed_at
        failed_at = time.perf_counter()
        return classify(error, known=known)

    def send(message: Any, timeout_s: float) -> Any:
        nonlocal acknowledged_at
        failure = send_on_link(message, timeout_s)
        acknowledged_at = time.perf_counter()
        return failure

    pair.pair_state._classify = classified
    pair._runtime.run(pair._open_backlog_link(pair.backlog_paths[0]))
    link: Any = pair._backlog_link(pair.backlog_paths[0])
    send_on_link, link.send = link.send, send
    sender = pair.get_queue_sender("payments")
    primary.fault("send", "reject", entity="payments")
    switches, rested, hot = [], [], []
    for _ in range(SWITCHES):
        sender.send_messages(ServiceBusMessage(BODY))
        switches.append(acknowledged_at - failed_at)
        pair.mark_healthy("payments")
        time.sleep(_OPENING_S)  # as long as the failed attempt took to open its link: processor caches are as cold
        rested.append(_bare_send(bare_backlog))
        hot += [_bare_send(bare_backlog) for _ in range(5)]  # one after the other, caches as warm as they get
    link.send = send_on_link
    figures = _figures(median(rested), median(switches))
    return figures | {"hot_bare_us": median(hot) * 1e6, "ratio_to_hot": median(switches) / median(hot)}


def _bare_send(sender: Any) -> float:
    message = to_backlog(ServiceBusMessage(BODY, message_id="m" * 36), "payments")
    began = time.perf_counter()
    sender.send_messages(message)
    return time.perf_counter() - began


def _memory_of_a_days_outage() -> float:
    """What a sender holds more after 24 hours of outage than after 2, a message each 10 s and a ping each minute."""

    class Forgetful(InMemoryNamespace):
        def send(self, entity: str, messages: Any) -> None:
            super().send(entity, messages)
            self._queues.clear()

    primary, clock = Forgetful("contoso"), ManualClock()
    held = {}
    with InMemoryPairedClient(primary, Forgetful("contoso-dr"), clock=clock) as client:
        primary.fail(ServiceBusConnectionError())
        sender = client.get_queue_sender("orders")
        client.fail_over("orders", "benchmark")
        tracemalloc.start()
        for second in range(0, 24 * 3600, 10):
            sender.send_messages(ServiceBusMessage(BODY))
            clock.advance(10)
            if second % 60 == 0:
                client.tick()
                client.ping_due()
                client.meter.drain(clock.now())
            if second % 3600 == 0:
                gc.collect()
                held[second // 3600] = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
    return (held[23] - held[2]) / 1024


def _rewritten(sender: Any) -> Callable[[Any], None]:
    """A bare send of the bytes that a redirected one puts on the wire: rewritten by hand, then sent."""
    return lambda message: sender.send_messages(to_backlog(message, "orders"))


def _singles() -> list[Any]:
    return [ServiceBusMessage(BODY) for _ in range(SINGLES)]


def _batches() -> list[Any]:
    return [[ServiceBusMessage(BODY) for _ in range(100)] for _ in range(BATCHES)]


def _each(send: Callable[[Any], object]) -> Callable[[list[Any]], None]:
    def send_all(messages: list[Any]) -> None:
        for message in messages:
            send(message)

    return send_all


class Blocks:
    """Seconds that each message of a block took, and processor seconds of its thread, bare (0) and paired (1)."""

    def __init__(self) -> None:
        self._took: tuple[list[float], list[float]] = ([], [])
        self._used: tuple[list[float], list[float]] = ([], [])

    @contextmanager
    def one(self, which: int, count: int) -> Iterator[None]:
        gc.collect()
        began, cpu_began = time.perf_counter(), time.thread_time()
        yield
        self._took[which].append((time.perf_counter() - began) / count)
        self._used[which].append((time.thread_time() - cpu_began) / count)

    def figures(self) -> dict[str, float]:
        """Of the clock, and of the processor, whose time a busy machine blurs the least."""
        return _medians(*self._took) | {f"cpu_{name}": value for name, value in _medians(*self._used).items()}


def _medians(bare: list[float], paired: list[float]) -> dict[str, float]:
    """Those of the rounds: of both, and of what a paired block took more than its bare neighbour."""
    added = median(one - other for other, one in zip(bare, paired, strict=True))
    ratio = median(one / other for other, one in zip(bare, paired, strict=True))
    return _figures(median(bare), median(paired)) | {"added_us": added * 1e6, "ratio": ratio}


def _figures(bare_s: float, paired_s: float) -> dict[str, float]:
    return {"bare_us": bare_s * 1e6, "paired_us": paired_s * 1e6, "ratio": paired_s / bare_s}


def _compare(
    bare: Callable[[list[Any]], None], paired: Callable[[list[Any]], None], make: Callable[[], list[Any]]
) -> dict[str, float]:
    blocks = Blocks()
    for which in _order_of_blocks():
        messages = make()
        with blocks.one(which, len(messages)):
            (bare, paired)[which](messages)
    return blocks.figures()


async def _compare_async(
    bare: Callable[[Any], Awaitable[object]], paired: Callable[[Any], Awaitable[object]], make: Callable[[], list[Any]]
) -> dict[str, float]:
    blocks = Blocks()
    for which in _order_of_blocks():
        messages, send = make(), (bare, paired)[which]
        with blocks.one(which, len(messages)):
            for message in messages:
                await send(message)
    return blocks.figures()


def _order_of_blocks() -> Iterator[int]:
    """Bare and paired, in each round in a random order, so that neither profits from what ran before it."""
    randomly = random.Random(BLOCKS)
    for _ in range(BLOCKS):
        yield from randomly.sample((0, 1), 2)


_OPTIONS: dict[str, Any] = {
    "primary_namespace": "contoso",
    "secondary_namespace": "contoso-dr",
    "backlog_queue_count": 1,
    "failover_interval": timedelta(0),
}


def _namespaces() -> AbstractContextManager[dict[str, RunningNamespace]]:
    return running("contoso", "contoso-dr", entities=["contoso/orders", "contoso/payments"])
