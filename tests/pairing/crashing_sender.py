"""Sends every kind of message while the primary is away, and dies in the middle of each; then sends all of them again.

Each send has a process of its own, blocking or asyncio, which is killed before or after the backlog queue has the
message, in any case before the acknowledgement is known; then one process sends the same again, as an application does
that comes back.
"""

import asyncio
import os
import signal
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

from azure.servicebus import ServiceBusMessage

import pairing.aio
from pairing import PairedServiceBusClient, SendAvailabilityOptions
from pairing.drive import Operation
from pairing.operations.sender import SendOperations

primary, secondary, pair, queue, sessions, topic, later, begin = sys.argv[1:]
options = SendAvailabilityOptions(
    primary_namespace=pair,
    secondary_namespace="contoso-dr",
    backlog_queue_count=1,
    failover_interval=timedelta(0),
    enable_pings=False,
)
WHEN = datetime.fromisoformat(begin).astimezone(UTC)


def connected() -> PairedServiceBusClient:
    return PairedServiceBusClient.from_connection_string(primary, secondary, options=options)


def messages_of(name: str, form: str) -> list[ServiceBusMessage]:
    session = "s" if form == "session" else None
    return [ServiceBusMessage(name, message_id=f"{name}-{n}", session_id=session) for n in range(3)]


def path_of(form: str) -> str:
    return {"session": sessions, "topic": topic, "scheduled": later}.get(form, queue)


def send(client: PairedServiceBusClient, form: str, name: str) -> None:
    messages, path = messages_of(name, form), path_of(form)
    with client.get_topic_sender(path) if form == "topic" else client.get_queue_sender(path) as sender:
        if form == "scheduled":
            sender.schedule_messages(messages, WHEN)
        elif form == "batch":
            batch = sender.create_message_batch()
            for message in messages:
                batch.add_message(message)
            sender.send_messages(batch)
        else:
            sender.send_messages(messages if form == "session" else messages[0])


async def send_async(client: pairing.aio.PairedServiceBusClient, form: str, name: str) -> None:
    messages, path = messages_of(name, form), path_of(form)
    async with client.get_topic_sender(path) if form == "topic" else client.get_queue_sender(path) as sender:
        if form == "scheduled":
            await sender.schedule_messages(messages, WHEN)
        elif form == "batch":
            batch = await sender.create_message_batch()
            for message in messages:
                batch.add_message(message)
            await sender.send_messages(batch)
        else:
            await sender.send_messages(messages if form == "session" else messages[0])


def die_in_the_middle(form: str, step: str, name: str) -> None:
    to_backlog = SendOperations.to_backlog

    def dying(sender: SendOperations, *arguments: Any) -> Operation[Any]:
        if step == "after":
            assert (yield from to_backlog(sender, *arguments)) == "done"
        os.kill(os.getpid(), signal.SIGKILL)

    SendOperations.to_backlog = dying
    if name.endswith("asyncio"):
        asyncio.run(send_through_asyncio(form, name))
    else:
        with connected() as client:
            send(client, form, name)


async def send_through_asyncio(form: str, name: str) -> None:
    strings = primary, secondary
    async with pairing.aio.PairedServiceBusClient.from_connection_string(*strings, options=options) as client:
        await send_async(client, form, name)


SENDS = [
    (form, step, f"{form}-{step}-{world}")
    for form in ("single", "topic", "session", "scheduled", "batch")
    for step in ("before", "after")
    for world in ("sync", "asyncio")
]
children = []
for reported in SENDS:
    if not (child := os.fork()):
        die_in_the_middle(*reported)
        os._exit(1)
    children.append(child)
for child in children:
    assert os.waitpid(child, 0)[1] == signal.SIGKILL, "it was to die"
with connected() as client:
    for form, _, name in SENDS:
        send(client, form, name)
