"""What the local namespace costs: its CPU time for each message, beside the SDK's own, and what it holds.

Shares are taken within one run, so they mean the same on any machine: how much of the time for a message is spent in
the namespace, and how much of it in the client that drives it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode

from tests.benchmarks.processes import resident_bytes, size

BODY = b"x" * 256
ROWS = [
    *(
        (
            f"{name}, CPU time of the server",
            "",
            f"{{patterns[{name}][server_us]}} µs; with a store {{with a store[{name}][server_us]}} µs",
        )
        for name in ("single send", "receive and complete", "batch send of 100", "receive and delete")
    ),
    ("memory of a stored message of 256 bytes", "", "{bytes_of_a_stored_message} bytes"),
]


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
        return resident_bytes(self.process.pid)


@contextmanager
def server(*arguments: str) -> Iterator[Server]:
    """A namespace with these arguments."""
    command = [sys.executable, "-m", "emulator", "--namespace", "bench:0", "--entity", "bench/orders", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Server(process, process.stdout.readline().split(maxsplit=2)[2].strip())
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


PATTERNS: dict[str, Callable[[ServiceBusClient, int], None]] = {
    "single send": send_single,
    "receive and complete": receive_and_complete,
    "batch send of 100": send_batches,
    "receive and delete": receive_and_delete,
}


def patterns(count: int, *arguments: str) -> dict[str, dict[str, float]]:
    """The cost of a message of each pattern, in a namespace with these arguments."""
    with server(*arguments) as target, ServiceBusClient.from_connection_string(target.connection_string) as client:
        return {name: per_message(target, count, partial(work, client, count)) for name, work in PATTERNS.items()}


def bytes_of_a_stored_message(count: int) -> int:
    """Of so many, which the SDK has sent."""
    with server() as target, ServiceBusClient.from_connection_string(target.connection_string) as client:
        before = target.resident_bytes()
        send_batches(client, count)
        return round((target.resident_bytes() - before) / count)


def run() -> dict[str, Any]:
    """All figures; with a store, each message is on the disk before it is acknowledged."""
    count = size(5000, 200)
    with TemporaryDirectory() as folder:
        return {
            "patterns": patterns(count),
            "with a store": patterns(size(2000, 200), "--store", folder),
            "bytes_of_a_stored_message": bytes_of_a_stored_message(size(1_000_000, 1000)),
        }
