"""A client is closed in a process that can start no thread any more."""

import threading

import pytest
from azure.servicebus import ServiceBusMessage

from pairing import PairedServiceBusClient, SendAvailabilityOptions


def test_a_client_is_closed_where_no_thread_can_be_started(primary, secondary, queue, monkeypatch):
    def refuse_to_start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    options = SendAvailabilityOptions(primary_namespace=f"no-thread-{queue}", backlog_queue_count=1)
    strings = primary.connection_string, secondary.connection_string
    with PairedServiceBusClient.from_connection_string(*strings, options=options) as client:
        sender = client.get_queue_sender(queue)
        sender.send_messages(ServiceBusMessage("x"))
        monkeypatch.setattr(threading.Thread, "start", refuse_to_start)
    assert client.state == client.primary.state == client.secondary.state == "closed"
    with pytest.raises(Exception, match="closed"):
        sender.send_messages(ServiceBusMessage("x"))
