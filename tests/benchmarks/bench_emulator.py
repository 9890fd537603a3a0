"""What the local namespace costs: its CPU time for each message, beside the SDK's own, and what it holds.

Ratios are taken within one run, so they mean the same on any machine: how much of the time for a message is spent in
the namespace, how much of it in the client that drives it, and how much an asyncio server would take that does nothing
but answer.

Run: python -m tests.benchmarks.bench_emulator
With BENCH_BESIDE=CHECKOUT it measures the patterns only, in turns with the namespace of another checkout.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from azure.core.pipeline.transport import RequestsTransport
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.management import ServiceBusAdministrationClient

from amqp10 import performatives as p
from amqp10.frames import AMQP_HEADER, SASL_FRAME, SASL_HEADER, frame
from tests.benchmarks.processes import size

BODY = b"x" * 256


@dataclass
class Server:
    """A namespace in a process of its own, whose CPU time and memory can be read."""

    process: subprocess.Popen[str]
    connection_string: str

    def cpu_s(self) -> float:
        """CPU seconds used so far, to the nanosecond: ticks of the clock are too coarse for a batch."""
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9

    def resident_bytes(self) -> int:
        """Memory in use."""
        with open(f"/proc/{self.process.pid}/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def server(*arguments: str, checkout: str | None = None) -> Iterator[Server]:
    """A namespace of this checkout, or of another one."""
    command = [sys.executable, "-m", "emulator", "--namespace", "bench:0", "--entity", "bench/orders", *arguments]
    environment = None if checkout is None else os.environ | {"PYTHONPATH": checkout}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=checkout, env=environment) as process:
        assert process.stdout is not None
        try:
            yield Server(process, process.stdout.readline().split(maxsplit=2)[2].strip())
        finally:
            process.terminate()


ECHO = """
import asyncio, sys

class Echo(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.transport.write(data[:30])

async def serve():
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0)
    print("ready", "echo", server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(serve())
"""


def echo(count: int, pause_us: float) -> float:
    """Server CPU, in microseconds, of answering one packet as large as a message: the floor below a single send.

    `pause_us` is the client's CPU time between two packets, as much as the SDK takes for a message: a server that is
    left alone for so long starts each answer with cold caches.
    """
    with subprocess.Popen([sys.executable, "-c", ECHO], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        target = Server(process, process.stdout.readline().split(maxsplit=2)[2])
        try:
            with socket.create_connection(("127.0.0.1", int(target.connection_string))) as client:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                before = target.cpu_s()
                for _ in range(count):
                    client.sendall(b"x" * 400)
                    client.recv(100)
                    until = time.perf_counter() + pause_us / 1e6
                    while time.perf_counter() < until:
                        pass
                return round((target.cpu_s() - before) / count * 1e6, 1)
        finally:
            process.terminate()


def per_message(target: Server, count: int, work: Callable[[], Any]) -> dict[str, float]:
    """Microseconds of server and client CPU for each of `count` messages, messages a second, and the server's share."""
    server_before, client_before, started = target.cpu_s(), time.process_time(), time.perf_counter()
    work()
    elapsed = time.perf_counter() - started
    server_us = (target.cpu_s() - server_before) / count * 1e6
    client_us = (time.process_time() - client_before) / count * 1e6
    return {
        "server_us": round(server_us, 1),
        "client_us": round(client_us, 1),
        "per_s": round(count / elapsed),
        "server_share": round(server_us / (server_us + client_us), 3),
    }


def send_single(client: ServiceBusClient, count: int) -> None:
    with client.get_queue_sender("orders") as sender:
        for _ in range(count):
            sender.send_messages(ServiceBusMessage(BODY))


def send_batches(client: ServiceBusClient, count: int) -> None:
    with client.get_queue_sender("orders") as sender:
        for _ in range(count // 100):
            sender.send_messages([ServiceBusMessage(BODY) for _ in range(100)])


def receive_and_complete(client: ServiceBusClient, count: int) -> None:
    with client.get_queue_receiver("orders") as receiver:
        while count > 0:
            for message in receiver.receive_messages(100, max_wait_time=5):
                receiver.complete_message(message)
                count -= 1


def receive_and_delete(client: ServiceBusClient, count: int) -> None:
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with client.get_queue_receiver("orders", receive_mode=mode) as receiver:
        while count > 0:
            count -= len(receiver.receive_messages(500, max_wait_time=5))


def throughput(count: int = 5000) -> dict[str, Any]:
    """Server CPU for each message of the usual patterns."""
    with server() as target, ServiceBusClient.from_connection_string(target.connection_string) as client:
        return {name: per_message(target, count, partial(work, client, count)) for name, work in PATTERNS.items()}


PATTERNS: dict[str, Callable[[ServiceBusClient, int], None]] = {
    "single send": send_single,
    "receive and complete": receive_and_complete,
    "batch send of 100": send_batches,
    "receive and delete": receive_and_delete,
}
ROUNDS = 12


def beside(checkout: str, count: int = 2000) -> dict[str, Any]:
    """Each pattern in turns with the namespace of another checkout: medians of the rounds, and of their ratios.

    Each round has processes of its own: what one costs differs from the next by more than what is looked for.
    """
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in PATTERNS}
    for turn in range(ROUNDS):
        costs = {each: _patterns(each, count) for each in ((None, checkout) if turn % 2 else (checkout, None))}
        for name in PATTERNS:
            found[name].append((costs[None][name], costs[checkout][name]))
    return {
        name: {
            "here_us": statistics.median(here for here, _ in costs),
            "there_us": statistics.median(there for _, there in costs),
            "ratio": round(statistics.median(here / there for here, there in costs), 3),
        }
        for name, costs in found.items()
    }


def _patterns(checkout: str | None, count: int) -> dict[str, float]:
    """Microseconds of a server's CPU for a message of each pattern."""
    with (
        server(checkout=checkout) as target,
        ServiceBusClient.from_connection_string(target.connection_string) as client,
    ):
        return {
            name: per_message(target, count, partial(work, client, count))["server_us"]
            for name, work in PATTERNS.items()
        }


def backlog(count: int) -> dict[str, Any]:
    """Messages of 256 bytes stored and drained by the SDK over AMQP: memory for each, and the server's CPU."""
    with server() as target, ServiceBusClient.from_connection_string(target.connection_string) as client:
        before = target.resident_bytes()
        stored = per_message(target, count, lambda: send_batches(client, count))
        held = target.resident_bytes() - before
        drained = per_message(target, count, lambda: receive_and_delete(client, count))
        return {
            "messages": count,
            "bytes_per_message": round(held / count),
            "overhead_per_body": round(held / count / len(BODY), 2),
            "store_server_us": stored["server_us"],
            "store_per_s": stored["per_s"],
            "drain_server_us": drained["server_us"],
            "drain_per_s": drained["per_s"],
        }


GREETING = (
    SASL_HEADER
    + frame(0, p.encode_performative(p.SaslInit("ANONYMOUS", b"", "bench")), SASL_FRAME)
    + AMQP_HEADER
    + frame(0, p.encode_performative(p.Open("bench")))
    + frame(1, p.encode_performative(p.Begin(None, 0, 5000, 5000)))
)
BEGUN = b"\x00\x53\x11"


def opened(port: int) -> socket.socket:
    """A connection with a session on it."""
    client = socket.create_connection(("127.0.0.1", port), timeout=10)
    client.sendall(GREETING)
    heard = b""
    while BEGUN not in heard:
        piece = client.recv(4096)
        assert piece, "the namespace closed the connection"
        heard += piece
    return client


def connections(count: int) -> dict[str, Any]:
    """Connections that are open at the same time, each with a session: memory of each, and the CPU of opening one."""
    with server() as target, ExitStack() as stack:
        port = int(target.connection_string.split(":")[2].split(";")[0])
        before, cpu, started = target.resident_bytes(), target.cpu_s(), time.perf_counter()
        for _ in range(count):
            stack.enter_context(opened(port))
        return {
            "connections": count,
            "bytes_per_connection": round((target.resident_bytes() - before) / count),
            "server_us_per_connection": round((target.cpu_s() - cpu) / count * 1e6),
            "per_s": round(count / (time.perf_counter() - started)),
        }


class PlainTransport(RequestsTransport):
    """Reaches the administration over plain HTTP."""

    def send(self, request: Any, **kwargs: Any) -> Any:
        request.url = request.url.replace("https://", "http://", 1)
        return super().send(request, **kwargs)


def listing(count: int) -> dict[str, Any]:
    """All entities listed with their counts, page by page: the server's CPU for each."""
    entities = [argument for number in range(count) for argument in ("--entity", f"bench/listed/{number}")]
    with server(*entities) as target:
        administration = ServiceBusAdministrationClient.from_connection_string(
            target.connection_string, transport=PlainTransport()
        )
        with administration:
            listed = per_message(target, count, lambda: list(administration.list_queues_runtime_properties()))
        return {"entities": count, **listed}


def keeping(count: int) -> dict[str, Any]:
    """What `--store` adds to a message: each is on the disk before it is acknowledged."""
    with (
        TemporaryDirectory() as directory,
        server("--store", directory) as target,
        ServiceBusClient.from_connection_string(target.connection_string) as client,
    ):
        return {
            "single send": per_message(target, count, lambda: send_single(client, count)),
            "batch send of 100": per_message(target, count, lambda: send_batches(client, count)),
            "receive and complete": per_message(target, count, lambda: receive_and_complete(client, count)),
        }


def run() -> dict[str, Any]:
    """All figures, with the ratios that mean something anywhere."""
    count = size(5000, 200)
    if checkout := os.environ.get("BENCH_BESIDE"):
        return beside(checkout, count)
    patterns = throughput(count)
    single = patterns["single send"]["server_us"] or 1.0
    bare = echo(count, patterns["single send"]["client_us"])
    return {
        "patterns": patterns,
        "bare echo": {"server_us": bare},
        "ratios": {
            "single send over a bare asyncio echo": round(single / (bare or 1.0), 1),
            "server share of a single send": patterns["single send"]["server_share"],
            "server share of receive and complete": patterns["receive and complete"]["server_share"],
            "single send over a batched one": round(single / (patterns["batch send of 100"]["server_us"] or 1.0), 1),
        },
        "backlog": backlog(size(1_000_000, 1000)),
        "connections": connections(size(1000, 10)),
        "listing": listing(size(5000, 100)),
        "with a store": keeping(size(2000, 200)),
    }


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
