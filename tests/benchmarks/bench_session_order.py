"""What keeping sessions in order costs a sender: with the option beside without it, in interleaved blocks.

A healthy send (a look at memory) and a redirected one (a script in Redis before it, on a Redis of this machine).
Run: python -m tests.benchmarks.bench_session_order
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from azure.servicebus import ServiceBusMessage

from pairing import PairedServiceBusClient, SendAvailabilityOptions
from tests.benchmarks.bench_sender import _OPTIONS, _namespaces
from tests.conftest import start_redis
from tests.ports import free_port

BLOCKS, SENDS = 15, 100


def run() -> dict[str, float | dict[str, float]]:
    """The ratios, with the microseconds they were made of."""
    with tempfile.TemporaryDirectory() as folder, _namespaces() as (primary, secondary):
        port = free_port()
        redis: subprocess.Popen[Any] = start_redis(Path(folder), port)
        try:
            return _measured(primary, secondary, f"redis://127.0.0.1:{port}/0")
        finally:
            redis.terminate()
            redis.wait(10)


def _measured(primary: str, secondary: str, redis_url: str) -> dict[str, float | dict[str, float]]:
    def client(*, ordered: bool) -> PairedServiceBusClient:
        options = SendAvailabilityOptions(
            **_OPTIONS, enable_pings=False, coordination=redis_url, preserve_session_order=ordered
        )
        return PairedServiceBusClient.from_connection_string(primary, secondary, options=options)

    with client(ordered=False) as plain, client(ordered=True) as ordered:
        senders = plain.get_queue_sender("orders"), ordered.get_queue_sender("orders")
        healthy = _compare(*senders)
        for each in (plain, ordered):
            each.fail_over("orders", "benchmark")
        return {"healthy": healthy, "redirected": _compare(*senders)}


def _compare(plain: Any, ordered: Any) -> dict[str, float]:
    for sender in (plain, ordered):
        _block(sender.send_messages)  # links, gates and barrier are up from here on
    blocks = [(_block(plain.send_messages), _block(ordered.send_messages)) for _ in range(BLOCKS)]
    without, with_ = (median(times) / SENDS for times in zip(*blocks, strict=True))
    return {"without_us": without * 1e6, "with_us": with_ * 1e6, "ratio": with_ / without}


def _block(send: Callable[[ServiceBusMessage], None]) -> float:
    messages = [ServiceBusMessage(b"x" * 256, session_id=f"s{n % 10}") for n in range(SENDS)]
    began = time.perf_counter()
    for message in messages:
        send(message)
    return time.perf_counter() - began


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
