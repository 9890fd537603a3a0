"""KeyboardInterrupt in the middle of a blocking call: the link is dropped, and the next send works.

A signal's handler runs after calls of C functions, and where a Python function begins. A profile function is called at
the same moments, so raising from it is a signal at a chosen moment.
"""

import sys
from datetime import timedelta
from io import BytesIO

import pytest
from azure.servicebus import ServiceBusMessage

from tests.selection import is_nightly

WHERE = ("",) if is_nightly() else ("pairing/links.py", "_pyamqp/_transport.py")
"""The files whose code is interrupted: at night all, otherwise where a link can be left behind in the middle."""


SEND_TIMEOUT = timedelta(seconds=20)


class InterruptedAt:
    """Raises KeyboardInterrupt at the n-th moment at which a signal could be handled."""

    def __init__(self, at):
        self._left = at
        self.was_struck = False

    def __call__(self, frame, event, _):
        if event in ("call", "c_return") and frame.f_code.co_filename.endswith(WHERE):
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
    for at in range(1, 100_000, 1 if is_open or is_nightly() else 4):
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
