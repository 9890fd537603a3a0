"""What one answer to a request to peek holds."""

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from emulator.broker.delivery_encoding import MAX_PAGE
from emulator.running import running

LARGE = 200_000


@pytest.fixture
def receiver():
    with (
        running("contoso", entities=["contoso/orders"]) as namespaces,
        ServiceBusClient.from_connection_string(namespaces["contoso"].connection_string) as client,
        client.get_queue_sender("orders") as sender,
        client.get_queue_receiver("orders") as receiver,
    ):
        for _ in range(12):
            sender.send_messages(ServiceBusMessage(b"x" * LARGE))
        sender.send_messages([ServiceBusMessage(b"small") for _ in range(40)])
        yield receiver


def test_an_answer_holds_a_megabyte_and_peeking_on_gives_the_rest(receiver):
    pages = []
    while page := receiver.peek_messages(1000):
        pages.append([message.sequence_number for message in page])
    assert [number for page in pages for number in page] == list(range(1, 53))
    assert [len(page) for page in pages] == [MAX_PAGE // LARGE] * 2 + [42]
