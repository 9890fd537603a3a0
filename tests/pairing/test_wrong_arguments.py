"""A call with a wrong argument is refused with one sentence that says what is wrong, healthy or failed over."""

import math
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import ServiceBusMessage

from pairing import BacklogUnavailableError
from pairing.testing import InMemoryNamespace, InMemoryPairedClient


@pytest.fixture(params=["healthy", "failed over"])
def sender(request):
    with InMemoryPairedClient(InMemoryNamespace("a"), InMemoryNamespace("b")) as client:
        if request.param == "failed over":
            client.fail_over("orders", "test")
        yield client.get_queue_sender("orders")


@pytest.mark.parametrize("message", [None, "", b"", "text", 3, datetime(2026, 1, 1, tzinfo=UTC)], ids=repr)
def test_what_is_no_message(sender, message):
    with pytest.raises(TypeError, match=f"cannot send a {type(message).__name__}: not a message, a mapping"):
        sender.send_messages(message)


def test_what_is_no_message_in_a_list(sender):
    with pytest.raises(TypeError, match="cannot send a str: it is neither a message nor a mapping"):
        sender.send_messages([ServiceBusMessage("x"), "x"])


@pytest.mark.parametrize("timeout", [0, -1, math.nan, -math.inf], ids=repr)
def test_a_timeout_that_is_no_time(sender, timeout):
    with pytest.raises(ValueError, match="The timeout must be greater than 0"):
        sender.send_messages(ServiceBusMessage("x"), timeout=timeout)


@pytest.mark.parametrize("timeout", [timedelta(seconds=5), "5"], ids=repr)
def test_a_timeout_that_is_no_number(sender, timeout):
    with pytest.raises(TypeError, match=f"The timeout must be a number of seconds, not a {type(timeout).__name__}"):
        sender.send_messages(ServiceBusMessage("x"), timeout=timeout)


def test_a_timeout_too_short_for_a_backlog_queue_is_named_as_the_reason():
    with InMemoryPairedClient(InMemoryNamespace("a"), InMemoryNamespace("b")) as client:
        client.fail_over("orders", "test")
        with pytest.raises(BacklogUnavailableError, match="the timeout left no time to try a queue"):
            client.get_queue_sender("orders").send_messages(ServiceBusMessage("x"), timeout=0.0005)
