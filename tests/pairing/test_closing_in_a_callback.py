"""A callback of the application may close the client, on whichever of its threads the event was seen."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage

from pairing import PairedServiceBusClient, SendAvailabilityOptions
from pairing.fleet.shared_state import SharedState
from tests.pace import GUARD


class Closing:
    """Closes its client at the first event of a kind."""

    def __init__(self, kind: str, primary: Any, secondary: Any, queue: str, **more: Any) -> None:
        self.kind, self.queue, self.has_closed = kind, queue, threading.Event()
        self.thread, self.error = "", None
        options = SendAvailabilityOptions(primary_namespace=f"closing-{queue}", backlog_queue_count=1, **more)
        strings = primary.connection_string, secondary.connection_string
        self.client = PairedServiceBusClient.from_connection_string(*strings, options=options)
        self.client.on_event(self.close)

    def close(self, event: Any) -> None:
        if event.kind != self.kind or self.thread:
            return
        self.thread = threading.current_thread().name
        try:
            self.client.close()
        except RuntimeError as error:
            self.error = error
        self.has_closed.set()

    def check(self, *threads: str) -> None:
        """It has closed on one of these threads, and nothing is left."""
        assert self.has_closed.wait(GUARD * 30)
        assert self.thread in threads
        assert self.error is None
        ends = (self.client.primary, self.client.secondary)
        assert (self.client.state, *(end.state for end in ends)) == ("closed", "closed", "closed")


def test_on_the_thread_of_the_syphon(primary, secondary, queue):
    closing = Closing("syphon_started", primary, secondary, queue, enable_syphon=True)
    closing.client.open()
    closing.check("pairing-syphon")


def test_on_a_thread_that_hears_of_the_fleet(primary, secondary, queue, redis_url, redis_client):
    closing = Closing("forced", primary, secondary, queue, coordination=redis_url)
    closing.client.open()
    SharedState(redis_client, closing.client.pair).fail_over(queue, reason="drill", operator="ada", process="elsewhere")
    pair = closing.client.pair
    closing.check(f"pairing-news-{pair}", f"pairing-outbox-{pair}")  # whichever is faster


def test_on_the_thread_of_a_ping(primary, secondary, queue):
    soon = timedelta(seconds=1)
    closing = Closing("recovered", primary, secondary, queue, ping_primary_interval=soon)
    with closing.client:
        closing.client.fail_over(queue, "drill", hold=False)
        closing.check("pairing-ping")


@pytest.mark.parametrize("kind", ["failing", "forced"])
def test_on_the_thread_of_the_caller(primary, secondary, queue, kind):
    closing = Closing(kind, primary, secondary, queue)
    closing.client.open()
    if kind == "forced":
        closing.client.fail_over(queue, "drill")
    else:
        primary.fault(entity=queue, operation="send", effect="reject")
        with pytest.raises(Exception, match="Fault"):
            closing.client.get_queue_sender(queue).send_messages(ServiceBusMessage("x"))
    closing.check("MainThread")
