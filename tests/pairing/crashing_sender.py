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

import pairing
import pairing.aio
from pairing import SendAvailabilityOptions
from pairing.drive import Operation
from pairing.operations.sender import SendOperations
from tests.pairing.first_failover import outcome

primary, secondary, pair, queue, sessions, topic, later, begin = sys.argv[1:]
options = SendAvailabilityOptions(
    primary_namespace=pair,
    secondary_namespace="contoso-dr",
    backlog_queue_count=1,
    failover_interval=timedelta(0),
    enable_pings=False,
)
WHEN = datetime.fromisoformat(begin).astimezone(UTC)


def messages_of(name: str, form: str) -> list[ServiceBusMessage]:
    session = "s" if form == "session" else None
    return [ServiceBusMessage(name, message_id=f"{name}-{n}", session_id=session) for n in range(3)]


def path_of(form: str) -> str:
    return {"session": sessions, "topic": topic, "scheduled": later}.get(form, queue)


async def send(client: Any, form: str, name: str) -> None:
    messages, path = messages_of(name, form), path_of(form)
    sender = client.get_topic_sender(path) if form == "topic" else client.get_queue_sender(path)
    if form == "scheduled":
        await outcome(sender.schedule_messages(messages, WHEN))
    elif form == "batch":
        batch = await outcome(sender.create_message_batch())
        for message in messages:
            batch.add_message(message)
        await outcome(sender.send_messages(batch))
    else:
        await outcome(sender.send_messages(messages if form == "session" else messages[0]))


async def send_all(library: Any, *sends: tuple[str, str]) -> None:
    client = library.PairedServiceBusClient.from_connection_string(primary, secondary, options=options)
    await outcome(client.open())
    for form, name in sends:
        await send(client, form, name)
    await outcome(client.close())


def die_in_the_middle(form: str, step: str, name: str) -> None:
    to_backlog = SendOperations.to_backlog

    def dying(sender: SendOperations, *arguments: Any) -> Operation[Any]:
        if step == "after":
            assert (yield from to_backlog(sender, *arguments)) == "done"
        os.kill(os.getpid(), signal.SIGKILL)

    SendOperations.to_backlog = dying
    asyncio.run(send_all(pairing.aio if name.endswith("asyncio") else pairing, (form, name)))


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
    while len(children) == 4 or (children and reported is SENDS[-1]):
        assert os.waitpid(children.pop(0), 0)[1] == signal.SIGKILL, "it was to die"
asyncio.run(send_all(pairing, *((form, name) for form, _, name in SENDS)))
