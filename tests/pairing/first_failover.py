"""A program whose first sends to some entities fail, each in another way; it prints the modules loaded meanwhile.

python -m tests.pairing.first_failover pairing [REDIS_URL]     `pairing.aio` for asyncio; with Redis, sessions in order
"""

import asyncio
import contextlib
import importlib
import sys
from datetime import timedelta
from typing import Any

from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from emulator.running import running
from pairing import SendAvailabilityOptions

EFFECTS = ("reject", "detach", "end", "reset", "silent")
IN_ORDER = EFFECTS[:1]
"""Fewer, since a fleet agrees on the order of each entity first, which takes seconds."""


async def outcome(answer: Any) -> Any:
    return await answer if hasattr(answer, "__await__") else answer


async def main(library: str, redis_url: str | None) -> None:
    effects = EFFECTS if redis_url is None else IN_ORDER
    options = SendAvailabilityOptions(
        primary_namespace="contoso",
        backlog_queue_count=2,
        failover_interval=timedelta(0),
        send_timeout=timedelta(seconds=6 if redis_url is None else 20),
        coordination=redis_url,
        preserve_session_order=redis_url is not None,
    )
    entities = [f"contoso/{queue}" for queue in ("healthy", *effects)]
    with running("contoso", "contoso-dr", entities=entities) as namespaces:
        primary, secondary = namespaces["contoso"], namespaces["contoso-dr"]
        client = importlib.import_module(library).PairedServiceBusClient.from_connection_string(
            primary.connection_string, secondary.connection_string, options=options
        )
        await outcome(client.open())
        await outcome(client.get_queue_sender("healthy").send_messages(ServiceBusMessage("accepted")))
        for effect in effects:
            primary.fault("send", effect, entity=effect)
        loaded = set(sys.modules)
        for effect in effects:
            for session in (None, "a session"):
                with contextlib.suppress(ServiceBusError):  # the first failure may be the caller's
                    message = ServiceBusMessage("refused", session_id=session)
                    await outcome(client.get_queue_sender(effect).send_messages(message))
        stored = sum(counters["enqueued"] for counters in secondary.stats().values())
        print(stored, *sorted(set(sys.modules) - loaded))
        await outcome(client.close())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None))
