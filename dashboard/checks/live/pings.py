"""Whether the service delivers pings: the one assumption that would disturb an application if it did not hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from azure.servicebus import ServiceBusMessage

from dashboard.checks.live.findings import Found, held, held_if
from dashboard.checks.live.stage import SUBSCRIPTION, WORK_S, Stage, TooLate
from pairing.messages.rewriting import is_ping, ping_message

_CREDIT = 20
_DELIVERED = "the ping was delivered to the receiver: discard messages for which pairing.is_ping is true"


def trial(stage: Stage) -> Iterator[Found]:
    """A ping between two messages, for a receiver that waits."""
    bus, queue = stage.buses["primary"], stage.queue("pings")
    arrived = is_delivered(
        stage,
        lambda: bus.get_queue_sender(queue),
        lambda: bus.get_queue_receiver(queue, prefetch_count=_CREDIT),
    )
    yield held_if("pings.queue", not arrived, _DELIVERED)
    topic = stage.topic("pings-topic")
    arrived = is_delivered(
        stage,
        lambda: bus.get_topic_sender(topic),
        lambda: bus.get_subscription_receiver(topic, SUBSCRIPTION, prefetch_count=_CREDIT),
    )
    yield held_if("pings.topic", not arrived, _DELIVERED)
    stage.send(stage.queue("sessions", requires_session=True), ping_message())
    yield held("pings.sessions")


def is_delivered(stage: Stage, to: Callable[[], Any], at: Callable[[], Any]) -> bool:
    """Whether a ping arrives between two messages.

    A ping expires after a second. So the receiver has granted credit before, shown by the first message: what the
    service delivers at all is then delivered at once, however slow this host is.
    """

    def work(receiver: Any) -> bool:
        stage.on_link(to, lambda sender: sender.send_messages(ServiceBusMessage("before"), timeout=WORK_S / 3))
        _until(receiver, "before")
        stage.on_link(to, _ping_and_after)
        return _until(receiver, "after")

    return stage.on_link(at, work)


def _ping_and_after(sender: Any) -> None:
    for message in (ping_message(), ServiceBusMessage("after")):
        sender.send_messages(message, timeout=WORK_S / 3)


def _until(receiver: Any, body: str) -> bool:
    """Complete what arrives until this body does; whether a ping was among it. Raises TooLate."""
    seen_ping = False
    for _ in range(6):
        for message in receiver.receive_messages(_CREDIT, max_wait_time=5):
            receiver.complete_message(message)
            seen_ping = seen_ping or is_ping(message)
            if not is_ping(message) and str(message) == body:
                return seen_ping
    raise TooLate(f"the message “{body}” did not arrive")
