"""A call with a wrong argument is refused with one sentence that says what is wrong, healthy or failed over."""

import math
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessageSizeExceededError

from pairing import BacklogUnavailableError
from pairing.testing import InMemoryNamespace, InMemoryPairedClient


@pytest.fixture(params=["healthy", "failed over"])
def sender(request):
    with InMemoryPairedClient(InMemoryNamespace("a"), InMemoryNamespace("b")) as client:
        if request.param == "failed over":
            client.fail_over("orders", "test")
        yield client.get_queue_sender("orders")


MESSAGE = ServiceBusMessage("x")
NO_MESSAGES = [None, "", b"", "text", 3, datetime(2026, 1, 1, tzinfo=UTC)]
NO_SENDS = {
    **{
        repr(message): (message, {}, TypeError, f"cannot send a {type(message).__name__}: not a message, a mapping")
        for message in NO_MESSAGES
    },
    "a reserved property": (
        ServiceBusMessage("x", application_properties={"x-ms-path": "y"}),
        {},
        ValueError,
        "x-ms-path",
    ),
    "too large": (ServiceBusMessage("x" * 262_100), {}, MessageSizeExceededError, "262144"),
    "in a list": ([MESSAGE, "x"], {}, TypeError, "cannot send a str: it is neither a message nor a mapping"),
    **{
        f"timeout {timeout}": (MESSAGE, {"timeout": timeout}, ValueError, "The timeout must be greater than 0")
        for timeout in (0, -1, math.nan, -math.inf)
    },
    "a duration": (MESSAGE, {"timeout": timedelta(5)}, TypeError, "must be a number of seconds, not a timedelta"),
    "a text": (MESSAGE, {"timeout": "5"}, TypeError, "The timeout must be a number of seconds, not a str"),
}


@pytest.mark.parametrize(("message", "keywords", "error", "text"), NO_SENDS.values(), ids=NO_SENDS)
def test_what_cannot_be_sent(sender, message, keywords, error, text):
    with pytest.raises(error, match=text):
        sender.send_messages(message, **keywords)


def test_a_batch_that_no_link_takes(sender):
    with pytest.raises(ValueError, match="too large"):
        sender.create_message_batch(10**9)


def test_a_timeout_too_short_for_a_backlog_queue_is_named_as_the_reason():
    with InMemoryPairedClient(InMemoryNamespace("a"), InMemoryNamespace("b")) as client:
        client.fail_over("orders", "test")
        with pytest.raises(BacklogUnavailableError, match="the timeout left no time to try a queue"):
            client.get_queue_sender("orders").send_messages(ServiceBusMessage("x"), timeout=0.0005)


@pytest.mark.parametrize("days", [-1, 60])
def test_a_time_to_live_that_amqp_cannot_express(sender, days):
    """In the backlog it was accepted, and after 49 days the message would have expired."""
    with pytest.raises(ValueError, match="time_to_live must be from 0 to 49 days"):
        sender.send_messages(ServiceBusMessage("x", time_to_live=timedelta(days=days)))


@pytest.mark.parametrize("when", [None, "2026-01-01", 5], ids=repr)
async def test_a_schedule_that_is_no_time(world, queue, when):
    client = await world.open(enable_pings=False)
    sender = client.get_queue_sender(queue)
    for is_failed_over in (False, True):
        if is_failed_over:
            client.fail_over(queue, "test")
        with pytest.raises(TypeError, match=f"schedule_time_utc must be a datetime, not {type(when).__name__}"):
            await world(sender.schedule_messages, ServiceBusMessage("x"), when)


# Operators' calls: what is refused has changed nothing

STEERING = {
    "entity_health": lambda client, path: client.entity_health(path),
    "fail_over": lambda client, path: client.fail_over(path, "test"),
    "hold": lambda client, path: client.hold(path),
    "release": lambda client, path: client.release(path),
    "mark_healthy": lambda client, path: client.mark_healthy(path),
}


@pytest.fixture
def client():
    with InMemoryPairedClient(InMemoryNamespace("a"), InMemoryNamespace("b")) as client:
        yield client


@pytest.mark.parametrize("path", [None, "", " ", b"orders", 3, ["orders"]], ids=repr)
@pytest.mark.parametrize("call", STEERING.values(), ids=STEERING)
def test_what_is_no_entity(client, call, path):
    with pytest.raises(ValueError, match="path must be the name of an entity"):
        call(client, path)
    assert client.pair_state.entities() == []


@pytest.mark.parametrize(
    ("expires", "error", "text"),
    [
        (3600, TypeError, "not int"),
        ("1h", TypeError, "not str"),
        (datetime(2026, 1, 2), ValueError, "has no time zone"),
        (timedelta(0), ValueError, "in the future"),
        (timedelta(hours=-1), ValueError, "in the future"),
        (datetime(2025, 12, 31, tzinfo=UTC), ValueError, "in the future"),
        (timedelta.max, ValueError, "within 100 years"),
        (datetime.max.replace(tzinfo=UTC), ValueError, "within 100 years"),
    ],
    ids=repr,
)
def test_a_hold_that_ends_at_no_time(client, expires, error, text):
    with pytest.raises(error, match=f"expires must be .*{text}"):
        client.fail_over("orders", "test", expires=expires)
    assert client.entity_health("orders").state == "healthy"


def test_a_reason_that_is_no_text(client):
    with pytest.raises(TypeError, match="reason must be text, not NoneType"):
        client.fail_over("orders", None)
    assert client.entity_health("orders").state == "healthy"


async def awaited(event):
    """A callback that nobody would await."""


@pytest.mark.parametrize("callback", [None, "print", awaited], ids=["None", "text", "a coroutine function"])
def test_a_callback_that_cannot_be_called(client, callback):
    with pytest.raises(TypeError, match="callback must be a function that is called, and not awaited"):
        client.on_event(callback)
