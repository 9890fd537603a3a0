"""Responses are repeated to the SDK for Python, which drops one that it reads before it has registered the request."""

import pytest
from azure.servicebus import ServiceBusClient

from amqp10 import performatives as p
from amqp10.frames import AMQP_HEADER
from amqp10.types import Symbol
from emulator.conversation import PYTHON_SDK
from emulator.endpoints.requests import MAX_REPEATED, REPEAT_DELAYS_S
from emulator.running import running
from tests.amqp10.peer import SASL, sent, source, target
from tests.emulator.client import Client, body, request

NODE = "orders/$management"


@pytest.fixture
def delays(host, calls):
    """The delays of the calls that the host has scheduled, as each is made by the next `say`."""
    delays = []
    host.later = lambda delay, call: (delays.append(delay), calls.append(call))
    return delays


@pytest.fixture
def opened(host, calls):
    """A client that calls itself by this name."""

    def opened(product, version="7.15.0"):
        opening = p.Open("client", max_frame_size=65536, properties={Symbol("product"): product, "version": version})
        client = Client(host, calls, SASL + AMQP_HEADER + sent(opening, channel=0))
        client.put_token("sb://host/")
        client.say(sent(p.Attach("r", 70, True, 0, 0, source(NODE), target("me"))))
        client.say(sent(p.Flow(0, 5000, 0, 5000, 70, 0, 10_000)))
        client.attach(sends_to=NODE)
        client.heard()
        return client

    return opened


def responses(client):
    return [payload for performative, payload in client.heard() if isinstance(performative, p.Transfer)]


def peeked(client):
    """The responses to a request to peek."""
    client.say(request(client.handles - 1))
    return responses(client)


def test_a_response_is_repeated_to_the_sdk_for_python(opened, delays):
    client = opened(PYTHON_SDK)
    delays.clear()
    found = peeked(client)
    assert len(found) == 1 + len(REPEAT_DELAYS_S)
    assert len(set(found)) == 1
    assert set(REPEAT_DELAYS_S) < set(delays)


@pytest.mark.parametrize("client", [("MSJSClient", "7.9.5"), (PYTHON_SDK, "7.8.3")])
def test_other_clients_get_each_response_once(opened, client):
    assert len(peeked(opened(*client))) == 1


def test_a_large_response_is_not_repeated(opened):
    client = opened(PYTHON_SDK)
    client.put(body(b"x" * MAX_REPEATED))
    client.handles -= 1
    assert len(peeked(client)) == 1


def test_nothing_is_repeated_on_a_link_that_has_ended(opened):
    client = opened(PYTHON_SDK)
    client.conversation.receive(request(client.handles - 1))
    client.conversation.flush()
    assert len(responses(client)) == 1
    client.say(sent(p.Detach(70, True)))
    assert responses(client) == []


def test_the_sdk_gets_a_response_that_it_has_read_too_early():
    """One thread does here what two may do: the response is read between sending and registering the request."""
    with (
        running("contoso", entities=["contoso/orders"]) as namespaces,
        ServiceBusClient.from_connection_string(namespaces["contoso"].connection_string) as client,
        client.get_queue_receiver("orders") as receiver,
    ):
        receiver.peek_messages()  # opens the link
        (node,) = receiver._handler._mgmt_links.values()
        requesting, answering, read = node._mgmt_link._request_link, node._mgmt_link._response_link, []
        send, receive = requesting.send_transfer, answering._on_transfer

        def send_and_read(*arguments, **more):
            send(*arguments, **more)
            while not read:
                receiver._handler._connection.listen()

        def receive_and_note(*arguments):
            read.append(arguments)
            return receive(*arguments)

        requesting.send_transfer, answering._on_transfer = send_and_read, receive_and_note
        assert receiver.peek_messages(timeout=60) == []
        assert len(read) > 1
