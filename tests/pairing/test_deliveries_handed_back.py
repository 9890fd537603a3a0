"""A delivery that the SDK hands back unseen was a delivery all the same, and is on the bill (docs/pricing.md, 4)."""

from azure.servicebus import ServiceBusClient, ServiceBusMessage

from tests.pairing.conftest import LocalNamespace, World
from tests.pairing.metered import metered


def send(namespace: LocalNamespace, queue: str) -> None:
    with (
        ServiceBusClient.from_connection_string(namespace.connection_string) as client,
        client.get_queue_sender(queue) as sender,
    ):
        sender.send_messages(ServiceBusMessage(b"x" * 100))


def delivered(namespace: LocalNamespace, queue: str) -> int:
    reported = namespace._call("GET", "/$emulator/meter")[queue].get("receive", {})
    return int(reported.get("billing_units", 0))


async def test_what_comes_after_a_receive_call_has_returned_is_counted_too(world: World, queue: str) -> None:
    client = await world.open(coordination=None)
    send(world.primary, queue)
    receiver = client.get_queue_receiver(queue)
    (message,) = await world(receiver.receive_messages, max_message_count=10, max_wait_time=10)
    send(world.primary, queue)  # there is credit left for it
    await world.until(lambda: delivered(world.primary, queue) == 2)
    await world(receiver.complete_message, message)
    await world(receiver.close)
    counted = metered(client, "kind")["receive"].billing_units
    assert counted == delivered(world.primary, queue)
    assert counted >= 2
