"""The clock of a process is set forward, so that the tokens of its open links have expired: they are sent again."""

import pytest
from azure.servicebus import ServiceBusMessage


@pytest.mark.parametrize("failed_over", [False, True], ids=["healthy", "failed over"])
async def test_a_send_opens_a_new_link(world, queue, failed_over, monkeypatch):
    for links in ("pairing.links.link", "pairing.aio.links"):
        monkeypatch.setattr(f"{links}.token_is_aging", lambda sender: False)  # the send comes first
    client = await world.open(backlog_queue_count=1, enable_pings=False)
    sender = client.get_queue_sender(queue)
    if failed_over:
        client.fail_over(queue, "test")
    await world(sender.send_messages, ServiceBusMessage("x"))
    link = client._backlog_link(client.backlog_paths[0]) if failed_over else sender._link
    authenticator = link.sender._handler._cbs_authenticator
    authenticator._expires_on = authenticator._token_put_time = 0
    await world(sender.send_messages, ServiceBusMessage("y"))
    assert world.reported == (["forced"] if failed_over else [])
