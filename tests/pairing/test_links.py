"""Links of the blocking SDK under deadlines, one by one (docs/wire.md, section 9)."""

import socket
import threading
import time
from contextlib import closing

import pytest
from azure.core.credentials import AzureNamedKeyCredential
from azure.servicebus import ServiceBusMessage, TransportType
from azure.servicebus.exceptions import OperationTimeoutError, ServiceBusConnectionError, ServiceBusServerBusyError

from pairing import PairedServiceBusClient, SendAvailabilityOptions
from pairing.links.link import Link, Watchdog
from tests.pace import Stopwatch


class Sender:
    """A sender of the SDK, as far as a link uses it."""

    def __init__(self, *, opens=lambda: None, sends=lambda: None):
        self.opens, self.sends, self.closed, self._running = opens, sends, threading.Event(), True
        self.sent = []

    def __enter__(self):
        self.opens()
        return self

    def send_messages(self, message, timeout=None):
        self.sends()
        self.sent.append((message, timeout))

    def close(self):
        self.closed.set()


def error(kind):
    def raise_it():
        raise kind()

    return raise_it


@pytest.fixture
def watchdog():
    watchdog = Watchdog(lambda: None)
    watchdog.start()
    yield watchdog
    watchdog.stop(5.0)
    assert not watchdog.is_alive()


def link_to(sender, watchdog):
    return Link(lambda: sender, watchdog)


def test_a_signal_handler_that_closes_the_link_does_not_wait_for_the_send_that_it_interrupts(watchdog):
    sender = Sender()
    link = link_to(sender, watchdog)
    link.send("a", 10.0)
    sender.sends = lambda: link.close(60.0)
    with Stopwatch() as watch:
        link.send("b", 10.0)
    assert watch.took < 30.0
    assert (link.sender, link._thread) == (None, 0)


def test_a_failure_shows_whether_the_link_had_been_open(watchdog):
    sender = Sender(sends=error(ServiceBusConnectionError))
    link = link_to(sender, watchdog)
    assert not link.send("a", 10.0).reused
    assert link.sender is None
    sender.sends = lambda: None
    assert link.send("b", 10.0) is None
    sender.sends = error(ServiceBusConnectionError)
    assert link.send("c", 10.0).reused


def test_a_refusal_that_leaves_the_link_alone_keeps_it(watchdog):
    sender = Sender(sends=error(ServiceBusServerBusyError))
    link = link_to(sender, watchdog)
    link.send("a", 10.0)
    assert link.sender is sender


def test_an_opening_that_takes_too_long_is_abandoned_and_closes_itself(watchdog):
    may_open = threading.Event()
    sender = Sender(opens=may_open.wait)
    failure = link_to(sender, watchdog).send("a", 0.2)
    assert isinstance(failure.error, OperationTimeoutError)
    assert not sender.closed.is_set()
    may_open.set()
    assert sender.closed.wait(60)


def test_a_link_that_is_closed_while_it_opens_keeps_nothing_open(watchdog):
    opening, gate = threading.Event(), threading.Event()

    def opens():
        opening.set()
        gate.wait(60)

    sender, failures = Sender(opens=opens), []
    link = link_to(sender, watchdog)
    sending = threading.Thread(target=lambda: failures.append(link.send("a", 10.0)))
    sending.start()
    assert opening.wait(60)
    link.close(0.0)
    gate.set()
    sending.join(60)
    assert "closed" in str(failures[0].error)
    assert sender.closed.wait(60)
    assert link.sender is None
    assert sender.sent == []


def test_a_tls_handshake_that_is_never_answered_leaves_no_thread_behind(monkeypatch):
    monkeypatch.setattr("pairing.links.sockets.HANDSHAKE_S", 3.0)
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        client = PairedServiceBusClient(
            "contoso.servicebus.windows.net",
            "contoso-dr.servicebus.windows.net",
            AzureNamedKeyCredential("name", "key"),
            options=SendAvailabilityOptions(),
            custom_endpoint_address=f"sb://127.0.0.1:{silent.getsockname()[1]}",
            transport_type=TransportType.Amqp,
        )
        link = Link(lambda: client.sdk_sender("primary", "orders"), client.watchdog)
        failure = link.send(ServiceBusMessage("x"), 1.0)
        assert isinstance(failure.error, OperationTimeoutError)
        silent.settimeout(5.0)
        peer, _ = silent.accept()  # it came as far as the handshake
        peer.settimeout(5.0)
        assert peer.recv(1) == b"\x16"
        deadline = time.monotonic() + 10.0
        for opening in [thread for thread in threading.enumerate() if thread.name == "pairing-opening"]:
            opening.join(deadline - time.monotonic())
            assert not opening.is_alive()
        peer.close()
        client.close()


def test_who_waits_for_a_link_that_others_hold_is_informed_so_and_leaves_it_as_it_is(watchdog):
    gate, sending = threading.Event(), threading.Event()

    def send():
        sending.set()
        assert gate.wait(60)

    sender = Sender(sends=send)
    link = link_to(sender, watchdog)
    first = threading.Thread(target=link.send, args=("a", 20.0))
    first.start()
    assert sending.wait(60)
    failure = link.send("b", 0.2)
    assert (failure.is_crowded, failure.reused, link.sender) == (True, False, sender)
    gate.set()
    first.join(60)
    assert [message for message, _ in sender.sent] == ["a"]
