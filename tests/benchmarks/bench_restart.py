"""How long the local namespace takes to start with a full store, and whether that is in proportion to the messages.

The messages have 256 bytes, an id and an application property.
"""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from amqp10.codec import encode
from emulator.broker.descriptions import QueueDescription
from emulator.broker.message import parse
from emulator.broker.namespace import Namespace
from emulator.store import Store
from tests.benchmarks.bench_emulator import BODY, server
from tests.benchmarks.processes import size

COMMITTED = 1000
ROWS = [
    ("a restart with 1,000,000 messages stored", "at most 30 s", "{full[ready_s]} s, {full[resident_mb]} MB"),
    ("the same with a tenth", "", "{a tenth[ready_s]} s, {a tenth[resident_mb]} MB"),
    ("CPU time of a message, beside a tenth", "", "{CPU of a message, full over a tenth}"),
]


def fill(folder: Path, count: int) -> None:
    """A store with this many messages in one queue."""
    store = Store(folder / "bench.sqlite3")
    namespace, now = Namespace("bench", store), time.time()
    store.restore(namespace, now)
    queue = namespace.create_queue("orders", QueueDescription("orders"), now)
    for number in range(count):
        head = b"\x00\x53\x73" + encode([f"{number:032x}"]) + b"\x00\x53\x74" + encode({"number": number})
        queue.enqueue(parse(head + b"\x00\x53\x75" + encode(BODY)), now)
        if number % COMMITTED == 0:
            store.commit()
    store.close()


def restart(count: int) -> dict[str, float]:
    """Seconds until the namespace is ready, and seconds of its CPU."""
    with TemporaryDirectory() as folder:
        fill(Path(folder), count)
        began = time.perf_counter()
        with server("--store", folder) as target:
            return {
                "messages": count,
                "ready_s": round(time.perf_counter() - began, 2),
                "cpu_s": round(target.cpu_s(), 2),
                "resident_mb": round(target.resident_bytes() / 1e6),
            }


def run() -> dict[str, Any]:
    """A store with messages, and one with a tenth; how much longer each message takes in the full one."""
    count = size(1_000_000, 20_000)
    empty, few, many = restart(0), restart(count // 10), restart(count)
    return {
        "empty": empty,
        "a tenth": few,
        "full": many,
        "CPU of a message, full over a tenth": round(
            (many["cpu_s"] - empty["cpu_s"]) / max(few["cpu_s"] - empty["cpu_s"], 0.01) / 10, 2
        ),
    }
