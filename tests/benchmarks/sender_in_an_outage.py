"""A sender process in a day's outage, compressed: each of its messages goes to the backlog, pings go unanswered.

Run by bench_sender: python -m tests.benchmarks.sender_in_an_outage sync|asyncio SENDS, the two connection strings on
standard input. Prints its resident memory in KiB at each tenth of the way. Python takes memory from the system by the
MiB: a step of that size, once, is none of the outage's; a leak would show in each tenth.
"""

import asyncio
import gc
import sys
from datetime import timedelta
from pathlib import Path

from azure.servicebus import ServiceBusMessage

import pairing
import pairing.aio
from pairing import SendAvailabilityOptions

_OPTIONS = SendAvailabilityOptions(
    primary_namespace="contoso",
    secondary_namespace="contoso-dr",
    backlog_queue_count=10,
    failover_interval=timedelta(0),
    ping_primary_interval=timedelta(seconds=1),
)


def resident_kib() -> int:
    """Resident memory of this process."""
    gc.collect()
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def blocking(strings: list[str], sends: int) -> None:
    with pairing.PairedServiceBusClient.from_connection_string(*strings, options=_OPTIONS) as client:
        sender = client.get_queue_sender("orders")
        for number in range(sends):
            sender.send_messages(ServiceBusMessage(b"x" * 256))
            if number % (sends // 10) == 0:
                client.meter.drain(client.clock.now())
                print(resident_kib(), flush=True)


async def awaited(strings: list[str], sends: int) -> None:
    async with pairing.aio.PairedServiceBusClient.from_connection_string(*strings, options=_OPTIONS) as client:
        sender = client.get_queue_sender("orders")
        for number in range(sends):
            await sender.send_messages(ServiceBusMessage(b"x" * 256))
            if number % (sends // 10) == 0:
                client.meter.drain(client.clock.now())
                print(resident_kib(), flush=True)


if __name__ == "__main__":
    given = sys.stdin.read().split()
    if sys.argv[1] == "sync":
        blocking(given, int(sys.argv[2]))
    else:
        asyncio.run(awaited(given, int(sys.argv[2])))
