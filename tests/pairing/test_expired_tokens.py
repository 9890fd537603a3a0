"""The clock of a process is set forward, so that the tokens of its open links have expired: they are sent again."""

from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage

import pairing
import pairing.aio
from pairing import SendAvailabilityOptions


def expire(link: Any) -> None:
    """Have the SDK find the token expired."""
    authenticator = link.sender._handler._cbs_authenticator
    authenticator._expires_on = authenticator._token_put_time = 0


@pytest.mark.parametrize("failed_over", [False, True], ids=["healthy", "failed over"])
def test_a_send_opens_a_new_link(primary, secondary, queue, failed_over, monkeypatch):
    monkeypatch.setattr("pairing.links.token_is_aging", lambda sender: False)  # the send comes first
    options = SendAvailabilityOptions(primary_namespace=f"expired-{queue}", backlog_queue_count=1)
    strings = primary.connection_string, secondary.connection_string
    with pairing.PairedServiceBusClient.from_connection_string(*strings, options=options) as client:
        events: list[str] = []
        sender = client.get_queue_sender(queue)
        if failed_over:
            client.fail_over(queue, "test")
        client.on_event(lambda event: events.append(event.kind))
        sender.send_messages(ServiceBusMessage("x"))
        expire(client.backlog_link(client.backlog_paths[0]) if failed_over else sender._link)
        sender.send_messages(ServiceBusMessage("y"))
        assert not events


async def test_a_send_opens_a_new_link_in_asyncio(primary, secondary, queue, monkeypatch):
    monkeypatch.setattr("pairing.aio.links.token_is_aging", lambda sender: False)
    options = SendAvailabilityOptions(primary_namespace=f"expired-{queue}", backlog_queue_count=1)
    strings = primary.connection_string, secondary.connection_string
    async with pairing.aio.PairedServiceBusClient.from_connection_string(*strings, options=options) as client:
        sender = client.get_queue_sender(queue)
        await sender.send_messages(ServiceBusMessage("x"))
        expire(sender._link)
        await sender.send_messages(ServiceBusMessage("y"))
        assert client.entity_health(queue).reason == ""
