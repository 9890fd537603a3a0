"""Draining behind entities that take nothing: what messages of a healthy one wait for those ahead of them.

Held: the delay of the healthy entity, compared with receiving and deferring the messages ahead of it by hand, each from
the opening of its link, which takes the SDK half a second, and asyncio with asyncio. Silent and missing: the seconds
until everything of the healthy entity is delivered.
"""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterable
from http.client import HTTPConnection
from typing import Any

from azure.servicebus import ServiceBusClient, ServiceBusMessage, aio
from azure.servicebus.management import ServiceBusAdministrationClient

import pairing.aio
from pairing import Syphon, emulator_transport
from pairing.drain.settlement import choose
from pairing.drive import Operation, call, run_async
from pairing.drive import run as run_operation
from pairing.messages.rewriting import to_backlog
from tests.benchmarks.bench_syphon import QUEUE, Bench, namespaces
from tests.benchmarks.processes import size

HELD, BEHIND = size(10_000, 300), size(100, 20)
SILENT, MISSING = size(16, 2), size(300, 10)
EACH, FOR_HEALTHY, AFTER_MISSING = size(20, 3), 20, 50
LONGEST_S = 900.0
ROUNDS = size(3, 1)
"""In turns; the quickest of each counts, because the load of a machine changes from one to the next."""
ROWS = [
    (
        "messages behind those of a held entity, beside deferring these alone by hand",
        "at most 3",
        "{behind_held_against_deferring_alone}; asyncio {asyncio_behind_held_against_deferring_alone}",
    ),
    *(
        (
            f"{count} messages behind {number} {what} entities",
            "at most a minute",
            f"{{seconds[{count} behind {number} {what} entities]}} s; asyncio {{seconds[{what}, asyncio]}} s",
        )
        for count, number, what in ((FOR_HEALTHY, SILENT, "silent"), (AFTER_MISSING, MISSING, "missing"))
    ),
]


class Behind(Bench):
    """A backlog in which the messages of a healthy entity come last."""

    def fill_for(self, counts: dict[str, int]) -> None:
        """Puts so many messages for each entity into the backlog queue."""
        paths = [path for path, count in counts.items() for _ in range(count)]
        messages = [to_backlog(ServiceBusMessage(b"x" * 256), path) for path in paths]
        sdk = ServiceBusClient.from_connection_string(self.secondary)
        with sdk, sdk.get_queue_sender(self.backlog) as sender:
            for at in range(0, len(messages), 500):
                sender.send_messages(messages[at : at + 500])

    def delivered_after(self, count: int) -> float:
        """Seconds until a syphon has delivered so many messages."""
        syphon, stop = Syphon(self.client), threading.Event()
        thread = threading.Thread(target=syphon.run, args=(stop,))
        began = time.perf_counter()
        thread.start()
        try:
            while not (syphon.progress and syphon.progress[self.backlog].moved >= count):
                if time.perf_counter() - began > LONGEST_S:
                    return float("inf")
                time.sleep(0.005)
            return time.perf_counter() - began
        finally:
            stop.set()
            thread.join()

    async def delivered_after_by_asyncio(self, count: int, *, held: str = "") -> float:
        """The same of the asyncio syphon."""
        make = pairing.aio.PairedServiceBusClient.from_connection_string
        async with make(self.primary, self.secondary, options=self.client.options) as client:
            if held:
                client.fail_over(held, "held")
            syphon, stop = pairing.aio.Syphon(client), asyncio.Event()
            began = time.perf_counter()
            running = asyncio.create_task(syphon.run(stop))
            while not (syphon.progress and syphon.progress[self.backlog].moved >= count):
                if time.perf_counter() - began > LONGEST_S:
                    return float("inf")
                await asyncio.sleep(0.005)
            elapsed = time.perf_counter() - began
            stop.set()
            await running
            return elapsed

    def deferring_by_hand(self, count: int) -> float:
        """Seconds of receiving and deferring so many messages, and nothing else."""
        began, sdk = time.perf_counter(), ServiceBusClient.from_connection_string(self.secondary)
        with sdk, sdk.get_queue_receiver(self.backlog, prefetch_count=99) as receiver:
            run_operation(deferring(receiver, count))
            return time.perf_counter() - began

    async def deferring_by_asyncio(self, count: int) -> float:
        """The same on the asyncio SDK."""
        began, sdk = time.perf_counter(), aio.ServiceBusClient.from_connection_string(self.secondary)
        async with sdk, sdk.get_queue_receiver(self.backlog, prefetch_count=99) as receiver:
            await run_async(deferring(receiver, count))
            return time.perf_counter() - began


def deferring(receiver: Any, count: int) -> Operation[None]:
    """Receive and defer so many messages."""
    while count > 0:
        received = yield from call(receiver.receive_messages, 100, max_wait_time=5)
        yield from choose(receiver)(receiver, ("defer", received, "", ""), ["unknown"] * len(received), 15.0)
        count -= len(received)


def afresh(prepare: Callable[[Behind], Any], measure: Callable[[Behind], float]) -> float:
    """The measurement in namespaces of its own."""
    with namespaces() as strings:
        bench = Behind(*strings)
        prepare(bench)
        try:
            return measure(bench)
        finally:
            bench.client.close()


def silence(primary: str, paths: Iterable[str]) -> None:
    """Creates these entities, which answer nothing that is sent to them."""
    with ServiceBusAdministrationClient.from_connection_string(
        primary, transport=emulator_transport()
    ) as administration:
        for path in paths:
            administration.create_queue(path)
            fault = {"entity": path, "operation": "send", "effect": "silent"}
            connection = HTTPConnection(primary.split(";")[0].split("//")[1])
            connection.request("POST", "/$emulator/faults", json.dumps(fault), {"Content-Type": "application/json"})
            assert connection.getresponse().status < 300
            connection.close()


def held(bench: Behind) -> None:
    bench.client.fail_over("held", "held")
    bench.fill_for({"held": HELD, QUEUE: BEHIND})


def silent(bench: Behind) -> None:
    paths = [f"silent-{number}" for number in range(SILENT)]
    silence(bench.primary, paths)
    bench.fill_for(dict.fromkeys(paths, EACH) | {QUEUE: FOR_HEALTHY})


def missing(bench: Behind) -> None:
    bench.fill_for({f"reply-{number}": 1 for number in range(MISSING)} | {QUEUE: AFTER_MISSING})


def run() -> dict[str, float | dict[str, float]]:
    """The ratios of the held entity, and the seconds behind silent and missing ones."""

    def by_asyncio(count: int, path: str = "") -> Callable[[Behind], float]:
        return lambda bench: asyncio.run(bench.delivered_after_by_asyncio(count, held=path))

    alone: Callable[[Behind], object] = lambda bench: bench.fill_for({"held": HELD})  # noqa: E731
    rounds = [
        (
            afresh(alone, lambda bench: bench.deferring_by_hand(HELD)),
            afresh(held, lambda bench: bench.delivered_after(BEHIND)),
            afresh(alone, lambda bench: asyncio.run(bench.deferring_by_asyncio(HELD))),
            afresh(held, by_asyncio(BEHIND, "held")),
        )
        for _ in range(ROUNDS)
    ]
    by_hand, behind, by_hand_asyncio, behind_asyncio = map(min, zip(*rounds, strict=True))
    return {
        "behind_held_against_deferring_alone": round(behind / by_hand, 2),
        "asyncio_behind_held_against_deferring_alone": round(behind_asyncio / by_hand_asyncio, 2),
        "seconds": {
            f"receiving and deferring {HELD} by hand": round(by_hand, 2),
            f"{BEHIND} behind {HELD} of a held entity": round(behind, 2),
            "by hand, asyncio": round(by_hand_asyncio, 2),
            "behind, asyncio": round(behind_asyncio, 2),
            f"{FOR_HEALTHY} behind {SILENT} silent entities": round(
                afresh(silent, lambda bench: bench.delivered_after(FOR_HEALTHY)), 2
            ),
            "silent, asyncio": round(afresh(silent, by_asyncio(FOR_HEALTHY)), 2),
            f"{AFTER_MISSING} behind {MISSING} missing entities": round(
                afresh(missing, lambda bench: bench.delivered_after(AFTER_MISSING)), 2
            ),
            "missing, asyncio": round(afresh(missing, by_asyncio(AFTER_MISSING)), 2),
        },
    }
