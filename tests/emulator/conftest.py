"""A namespace in memory and clients made of raw frames."""

import time

import pytest

from emulator.broker.descriptions import QueueDescription
from emulator.broker.namespace import Namespace
from emulator.host import Host
from tests.emulator.client import KEY, Client


@pytest.fixture
def calls():
    """The calls that the host has scheduled and that were not made yet."""
    return []


@pytest.fixture
def namespace():
    namespace = Namespace("contoso")
    for path, properties in (("orders", {}), ("orders/eu", {}), ("sessions", {"requires_session": True})):
        namespace.create_queue(path, QueueDescription(path, **properties), time.time())
    return namespace


@pytest.fixture
def host(namespace, calls):
    return Host(namespace, KEY, time.time, lambda delay, call: calls.append(call))


@pytest.fixture
def passing(host):
    """Moves the clock to so many seconds from the test's beginning, and does what is due then."""
    began = time.time()

    def move(seconds):
        host.clock = lambda: began + seconds
        host.advance()

    return move


@pytest.fixture
def client(host, calls):
    client = Client(host, calls)
    assert client.put_token("sb://host/") == 202
    return client


@pytest.fixture
def stranger(host, calls):
    return Client(host, calls)
