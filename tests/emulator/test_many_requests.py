"""Answers to many requests of one client are made one after the other, as it takes them: each may be a megabyte."""

import time
import tracemalloc

import pytest

from amqp10 import performatives as p
from emulator.broker.delivery_encoding import MAX_PAGE
from emulator.broker.message import parse
from emulator.conversation import MAX_OUTPUT
from emulator.endpoints.requests import MAX_REQUESTS, UNLIMITED_CREDIT
from emulator.faults import fault_from_json
from tests.amqp10.peer import sent
from tests.emulator.client import body, request

pytestmark = pytest.mark.slow

NODE = "orders/$management"
REQUESTS = 60
BOUND = 8 * MAX_PAGE
"""What one client may cost here, with all copies of the answers that are in the making."""


@pytest.fixture
def stored(namespace):
    for _ in range(5):
        namespace.queue("orders").enqueue(parse(body(b"x" * 200_000)), time.time())


@pytest.fixture
def node(client, stored):
    """The links of the node with this credit and window; the handle of the request link."""

    def node(credit, window=2_000_000):
        receiver, _ = client.attach(receives_from=NODE)
        client.say(sent(p.Flow(0, window, 0, 5000, receiver, 0, credit)))
        handle, _ = client.attach(sends_to=NODE)
        client.heard()
        return handle

    return node


def responses(client):
    """How many responses the client has got, of which a large one takes several frames."""
    return sum(isinstance(each, p.Transfer) and not each.more for each, _ in client.heard())


@pytest.fixture
def peak():
    """Says how many bytes the process has had at most, beyond what it had before."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    yield lambda: tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()


def test_what_is_read_at_once_is_answered_a_megabyte_at_a_time(client, node):
    sizes, seen, write = [], [], client.write
    client.write = lambda data: (sizes.append(len(data)), seen.append(client.is_read), write(data))
    client.say(request(node(UNLIMITED_CREDIT)) * REQUESTS)
    assert responses(client) == REQUESTS
    assert max(sizes) < MAX_OUTPUT + MAX_PAGE
    assert seen.count(False) > REQUESTS // 3  # meanwhile nothing more is read
    assert client.is_read


def test_a_client_that_does_not_read_costs_two_answers(client, node, peak):
    handle = node(UNLIMITED_CREDIT)
    client.write = lambda data: client.conversation.pause()
    client.say(request(handle) * REQUESTS)
    assert peak() < BOUND


def test_a_client_without_credit_gets_its_answers_once_it_grants_some(client, node, peak):
    handle = node(0)
    client.say(request(handle) * REQUESTS)
    assert peak() < BOUND
    assert client.is_read
    assert responses(client) == 0
    client.say(sent(p.Flow(0, 2_000_000, 0, 5000, handle - 1, 0, REQUESTS)))
    assert responses(client) == REQUESTS


def test_a_client_with_a_closed_window_gets_its_answers_once_it_opens(client, node, peak):
    handle = node(UNLIMITED_CREDIT, window=1)
    client.say(request(handle) * REQUESTS)
    assert peak() < BOUND
    assert responses(client) == 0
    client.say(sent(p.Flow(0, 2_000_000, 0, 5000)))
    assert responses(client) == REQUESTS


def test_a_flow_about_one_link_opens_the_window_for_all(client, stored):
    receiver, _ = client.attach(receives_from="orders")
    client.say(sent(p.Flow(0, 1, 0, 5000, receiver, 0, 5)))
    other, _ = client.attach(receives_from="orders/eu")
    assert responses(client) == 0
    client.say(sent(p.Flow(0, 2_000_000, 0, 5000, other, 0, 1)))
    assert responses(client) == 5


def test_requests_that_a_fault_delayed_are_answered_one_after_the_other(client, node, host, peak):
    handle = node(UNLIMITED_CREDIT)
    host.add_fault(fault_from_json({"operation": "manage", "effect": "delay", "delay_s": 1}, host.clock()))
    client.write = lambda data: client.conversation.pause()
    client.say(request(handle) * REQUESTS)
    assert peak() < BOUND


def test_requests_keep_their_order(client, node, namespace):
    """What follows large answers waits with them, and is done when their turn has come."""
    handle = node(0)
    scheduling = request(handle, "schedule-message", messages=[{"message": body()}])
    client.say(request(handle) * 3 + scheduling)
    assert len(namespace.queue("orders")) == 5
    client.say(sent(p.Flow(0, 2_000_000, 0, 5000, handle - 1, 0, 10)))
    assert responses(client) == 4
    assert len(namespace.queue("orders")) == 6


def test_too_many_waiting_requests_are_rejected_and_forgotten_with_their_link(client, node):
    handle, large = node(0), b"x" * 200_000
    client.say(request(handle) * 3)
    fill = request(handle, "schedule-message", messages=[{"message": body(large)}])
    client.say(fill * (MAX_REQUESTS // len(large) + 1))
    codes = [p.outcome(each.state)[0] for each, _ in client.heard() if isinstance(each, p.Disposition)]
    assert set(codes) == {p.ACCEPTED, p.REJECTED}
    assert codes[-1] == p.REJECTED
    client.say(sent(p.Detach(handle - 1, True)))
    waiting = client.conversation.waiting
    assert (waiting.answers, waiting.requests) == (0, 0)


def test_an_error_of_our_own_in_a_waiting_request_ends_its_connection(client, node, monkeypatch):
    pages = iter([[b"x" * MAX_PAGE]] * 2)
    monkeypatch.setattr("emulator.endpoints.management.encode_page", lambda found: next(pages))
    client.say(request(node(UNLIMITED_CREDIT)) * 3)
    (close, _) = client.heard()[-1]
    assert p.error_parts(close.error)[0] == "amqp:internal-error"
    assert client.is_closed
