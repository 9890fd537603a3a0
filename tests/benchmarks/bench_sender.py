"""What a pair costs its sender: beside the bare SDK, in interleaved blocks of one process, medians of the rounds.

Healthy path (blocking single sends, batches of 100, asyncio), a redirected send beside a bare send of the same bytes to
the same backlog queue, and switching with failover_interval 0 beside one bare send on a warm link.
Run: python -m tests.benchmarks.bench_sender
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import subprocess
import sys
import time
import tracemalloc
import urllib.request
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from statistics import median
from typing import Any

import azure.servicebus.aio
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusConnectionError

import pairing.aio
from pairing import Fault, PairedServiceBusClient, SendAvailabilityOptions, classify
from pairing.messages.rewriting import to_backlog
from pairing.testing import InMemoryNamespace, InMemoryPairedClient, ManualClock
from tests.benchmarks.processes import size

BODY = b"x" * 256
_OPENING_S = 0.46
BLOCKS = size(61, 2)
SINGLES, BATCHES, SWITCHES = 50, 4, size(31, 2)
DAYS_SENDS = size(100_000, 100)
"""Redirected sends of a compressed day: about one a second."""


def run() -> dict[str, float | dict[str, float]]:
    """The ratios, with the microseconds they were made of."""
    with _namespaces() as (primary, secondary):
        measured = _blocking(primary, secondary) | asyncio.run(_asyncio(primary, secondary))
    measured |= {"memory_growth_over_a_days_outage_kib": _memory_of_a_days_outage()}
    return measured | {f"resident_growth_{world}_kib": _resident_growth(world) for world in ("sync", "asyncio")}


def _blocking(primary: str, secondary: str) -> dict[str, Any]:
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
        identified = _compare(_each(bare.send_messages), _each(_identified(bare)), _singles)
        batches = _compare(_each(bare.send_messages), _each(paired.send_messages), _batches)
        switching = _switching(pair, primary, bare_backlog)
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
        "blocking": {
            "single": singles,
            "bare_with_an_id": identified,
            "batch": batches,
            "redirected": redirected,
            "switching": switching,
        },
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


def _switching(pair: PairedServiceBusClient, primary: str, bare_backlog: Any) -> dict[str, float]:
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
    _fault(primary, {"entity": "payments", "operation": "send", "effect": "reject"})
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


def _resident_growth(world: str) -> float:
    """What a real sender process holds more at the end of a day's redirected sends than after a fifth of them."""
    with _namespaces() as (primary, secondary):
        _fault(primary, {"entity": "orders", "operation": "attach", "effect": "refuse"})
        command = [sys.executable, "-m", "tests.benchmarks.sender_in_an_outage", world, str(DAYS_SENDS)]
        given = f"{primary}\n{secondary}"  # not as arguments, which others may read
        reported = subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout
    held = [int(line) for line in reported.split()]
    return held[-1] - held[2]


def _rewritten(sender: Any) -> Callable[[Any], None]:
    """A bare send of the bytes that a redirected one puts on the wire: rewritten by hand, then sent."""
    return lambda message: sender.send_messages(to_backlog(message, "orders"))


def _identified(sender: Any) -> Callable[[Any], None]:
    """A bare send of a message with an identity, which the paired client gives to each."""

    def send(message: Any) -> None:
        message.message_id = str(uuid.uuid4())
        sender.send_messages(message)

    return send


def _singles() -> list[Any]:
    return [ServiceBusMessage(BODY) for _ in range(SINGLES)]


def _batches() -> list[Any]:
    return [[ServiceBusMessage(BODY) for _ in range(100)] for _ in range(BATCHES)]


def _each(send: Callable[[Any], object]) -> Callable[[list[Any]], None]:
    def send_all(messages: list[Any]) -> None:
        for message in messages:
            send(message)

    return send_all


def _compare(
    bare: Callable[[list[Any]], None], paired: Callable[[list[Any]], None], make: Callable[[], list[Any]]
) -> dict[str, float]:
    took, used = _nothing_yet(), _nothing_yet()
    for which in _order_of_blocks():
        messages = make()
        gc.collect()
        began, cpu_began = time.perf_counter(), time.thread_time()
        (bare, paired)[which](messages)
        took[which].append((time.perf_counter() - began) / len(messages))
        used[which].append((time.thread_time() - cpu_began) / len(messages))
    return _wall_clock(took) | _processor(used)


async def _compare_async(
    bare: Callable[[Any], Awaitable[object]],
    paired: Callable[[Any], Awaitable[object]],
    make: Callable[[], list[Any]],
) -> dict[str, float]:
    took, used = _nothing_yet(), _nothing_yet()
    for which in _order_of_blocks():
        messages, send = make(), (bare, paired)[which]
        gc.collect()
        began, cpu_began = time.perf_counter(), time.thread_time()
        for message in messages:
            await send(message)
        took[which].append((time.perf_counter() - began) / len(messages))
        used[which].append((time.thread_time() - cpu_began) / len(messages))
    return _wall_clock(took) | _processor(used)


def _nothing_yet() -> dict[int, list[float]]:
    return {0: [], 1: []}


def _order_of_blocks() -> Iterator[int]:
    """Bare (0) and paired (1), in each round in a random order, so that neither profits from what ran before it."""
    randomly = random.Random(BLOCKS)
    for _ in range(BLOCKS):
        yield from randomly.sample((0, 1), 2)


def _wall_clock(took: dict[int, list[float]]) -> dict[str, float]:
    """Medians, and the median of what each round's paired block took more than its bare neighbour."""
    added = median(paired - bare for bare, paired in zip(took[0], took[1], strict=True))
    ratio = median(paired / bare for bare, paired in zip(took[0], took[1], strict=True))
    return _figures(median(took[0]), median(took[1])) | {"added_us": added * 1e6, "ratio": ratio}


def _processor(used: dict[int, list[float]]) -> dict[str, float]:
    """What a busy machine blurs the least: the processor time of the sender's thread."""
    added = median(paired - bare for bare, paired in zip(used[0], used[1], strict=True))
    ratio = median(paired / bare for bare, paired in zip(used[0], used[1], strict=True))
    return {"cpu_bare_us": median(used[0]) * 1e6, "cpu_added_us": added * 1e6, "cpu_ratio": ratio}


def _figures(bare_s: float, paired_s: float) -> dict[str, float]:
    return {"bare_us": bare_s * 1e6, "paired_us": paired_s * 1e6, "ratio": paired_s / bare_s}


_OPTIONS: dict[str, Any] = {
    "primary_namespace": "contoso",
    "secondary_namespace": "contoso-dr",
    "backlog_queue_count": 1,
    "failover_interval": timedelta(0),
}


@contextmanager
def _namespaces() -> Iterator[tuple[str, str]]:
    command = [sys.executable, "-m", "emulator", "--namespace", "contoso:0", "--namespace", "contoso-dr:0"]
    command += ["--entity", "contoso/orders", "--entity", "contoso/payments"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield tuple(process.stdout.readline().split(maxsplit=2)[2].strip() for _ in range(2))  # type: ignore[misc]
        finally:
            process.terminate()


def _fault(connection_string: str, fault: dict[str, Any]) -> None:
    address = connection_string.split(";")[0].removeprefix("Endpoint=sb://").rstrip("/")
    request = urllib.request.Request(f"http://{address}/$emulator/faults", data=json.dumps(fault).encode())
    with urllib.request.urlopen(request) as response:
        response.read()


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
