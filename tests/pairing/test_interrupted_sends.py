"""KeyboardInterrupt in the middle of a blocking call: the link is dropped, and the next send works.

A signal's handler runs after calls of C functions, and where a Python function begins. A profile function is called at
the same moments, so raising from it is a signal at a chosen moment.
"""

import sys
from datetime import date, timedelta
from io import BytesIO

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusConnectionError

from tests.selection import is_nightly

WHERE = ("",) if is_nightly() else ("pairing/links/link.py", "_pyamqp/_transport.py")
"""The files whose code is interrupted: at night all, otherwise where a link can be left behind in the middle."""


SEND_TIMEOUT = timedelta(seconds=20)


class InterruptedAt:
    """Raises KeyboardInterrupt at the n-th moment at which a signal could be handled."""

    def __init__(self, at):
        self._left = at
        self.was_struck = False

    def __call__(self, frame, event, _):
        file = frame.f_code.co_filename
        if event in ("call", "c_return") and file.endswith(WHERE) and file != __file__:
            self._left -= 1
            if self._left == 0:
                self.was_struck = True
                raise KeyboardInterrupt

    def __enter__(self):
        sys.setprofile(self)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)


def interrupted(work, at):
    """Whether the work has so many moments; it was interrupted at this one then."""
    with InterruptedAt(at) as interrupt:
        try:
            work()
        except KeyboardInterrupt:
            assert interrupt.was_struck
    return interrupt.was_struck


def moments_of_an_opening():
    """A link opens in half a second: a fourth of the moments, another one each night."""
    tonight = date.today().toordinal() % 4 if is_nightly() else 0
    return range(1 + tonight, 100_000, 4)


@pytest.fixture
async def client(make_world):
    world = make_world("sync")
    client = await world.open(backlog_queue_count=1, enable_pings=False, send_timeout=SEND_TIMEOUT)
    yield client
    await world.close()


@pytest.mark.parametrize("is_open", [True, False], ids=["on an open link", "while its link opens"])
async def test_the_send_after_an_interrupted_one_works_and_stores_its_message_once(client, primary, queue, is_open):
    sender = client.get_queue_sender(queue)
    sender.send_messages(ServiceBusMessage("before"))
    tried = []
    for at in range(1, 100_000) if is_open else moments_of_an_opening():
        tried.append(at)
        if not is_open:
            sender._link._drop(torn=False)
        message = ServiceBusMessage(f"interrupted {at}")
        was_struck = interrupted(lambda message=message: sender.send_messages(message), at)
        sender.send_messages(ServiceBusMessage(f"next {at}"))
        assert client.entity_health(queue).state == "healthy"
        if not was_struck:
            break
    stored = [str(message) for message in primary.drain(queue)]
    assert len(stored) == len(set(stored))
    assert {text for text in stored if text.startswith("next")} == {f"next {at}" for at in tried}
    assert len(tried) > 10


async def test_what_the_sdk_cannot_decode_is_a_torn_link_and_not_the_callers_fault(world, primary, queue):
    client = await world.open(backlog_queue_count=1, enable_pings=False)
    sender = client.get_queue_sender(queue)
    await world(sender.send_messages, ServiceBusMessage("before"))
    transport = sender._link.sender._handler._connection._transport
    transport._read_buffer = BytesIO(b"\x00\x00\x00\x10\x02\x09\x00\x00")  # no frame of AMQP is of this type
    await world(sender.send_messages, ServiceBusMessage("after"))
    assert sender._link.sender._handler._connection._transport is not transport
    assert client.entity_health(queue).state == "healthy"
    assert {str(message) for message in primary.drain(queue)} == {"before", "after"}


def broken_by(sender, error, *, in_handling=None):
    """Makes the next send of the open link fail with this error, raised where another one is handled."""

    def send_messages(message, **kwargs):
        try:
            if in_handling is not None:
                raise in_handling
        finally:
            raise error

    sender._link.sender.send_messages = send_messages


async def test_an_interruption_that_becomes_another_error_is_raised_and_is_no_failure_of_the_entity(client, queue):
    sender = client.get_queue_sender(queue)
    sender.send_messages(ServiceBusMessage("before"))
    broken_by(sender, RuntimeError("release unlocked lock"), in_handling=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        sender.send_messages(ServiceBusMessage("interrupted"))
    assert client.entity_health(queue).state == "healthy"
    sender.send_messages(ServiceBusMessage("after"))


async def test_a_failure_while_the_caller_handles_an_interruption_is_a_failure_of_the_link(client, primary, queue):
    sender = client.get_queue_sender(queue)
    sender.send_messages(ServiceBusMessage("before"))
    broken_by(sender, ServiceBusConnectionError(message="gone"))
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        sender.send_messages(ServiceBusMessage("last words"))
    assert {str(message) for message in primary.drain(queue)} == {"before", "last words"}
