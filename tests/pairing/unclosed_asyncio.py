"""A program whose main coroutine ends right after its first send, without closing its client.

``python -m tests.pairing.unclosed_asyncio returns|raises <queue> <primary> <secondary>``
"""

import asyncio
import sys
from datetime import timedelta

from azure.servicebus import ServiceBusMessage

from pairing import SendAvailabilityOptions
from pairing.aio import PairedServiceBusClient


async def main(how: str, queue: str, primary: str, secondary: str) -> None:
    options = SendAvailabilityOptions(
        primary_namespace=f"contoso-{queue}",
        secondary_namespace="contoso-dr",
        backlog_queue_count=1,
        creation_retry_interval=timedelta(0),
    )
    client = PairedServiceBusClient.from_connection_string(primary, secondary, options=options)
    await client.open()
    await client.get_queue_sender(queue).send_messages(ServiceBusMessage("first"))
    if how == "raises":
        raise SystemExit(3)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]), debug=False)
