"""Assumptions about the service alone, tried with the SDK."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from azure.core.exceptions import ResourceNotFoundError
from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusMessage,
    ServiceBusMessageState,
    ServiceBusReceivedMessage,
    ServiceBusSubQueue,
)
from azure.servicebus.exceptions import MessageSizeExceededError, OperationTimeoutError, ServiceBusError

from dashboard.checks.assumptions import Contradicted, assumption, expect
from dashboard.checks.stage import SUBSCRIPTION, WAIT_S, Stage, now, received
from dashboard.readiness.checks import HEADROOM
from dashboard.readiness.gathering import LIMITS
from pairing.errors import Fault
from pairing.health.faults import classify, is_ambiguous
from pairing.messages.rewriting import is_ping, ping_message

_PINGS = "specification.md#7-pings"
_MANAGEMENT = "wire.md#6-management"
_MARGIN = 1_024
"""Bytes of a message beside its body, at most."""


@assumption("absent.administration", "wire.md#10-administration-over-http")
def _absent(stage: Stage) -> None:
    """A request for an unknown entity is answered with an empty feed or 404."""
    try:
        stage.administrations["primary"].get_queue(f"{stage.prefix}/absent")
    except ResourceNotFoundError:
        return
    raise Contradicted("an unknown queue was described")


@assumption("absent.link", "wire.md#2-connection-sasl-cbs")
def _absent_link(stage: Stage) -> None:
    """A link to an unknown entity is refused, and the refusal does not look like an outage."""
    with _refused_as({Fault.CALLER, Fault.CONFIGURATION}, known=False):
        stage.send(f"{stage.prefix}/absent", ServiceBusMessage("-"))


@assumption("pings.queue", _PINGS)
def _ping_of_queue(stage: Stage) -> None:
    """A ping is accepted by a queue and never delivered."""
    queue = stage.queue("pings")
    _expect_no_ping(stage.bus.get_queue_sender(queue), stage.bus.get_queue_receiver(queue, prefetch_count=20))


@assumption("pings.topic", _PINGS)
def _ping_of_topic(stage: Stage) -> None:
    """A ping is accepted by a topic and never delivered to a subscription."""
    topic = stage.topic("pings-topic")
    receiver = stage.bus.get_subscription_receiver(topic, SUBSCRIPTION, prefetch_count=20)
    _expect_no_ping(stage.bus.get_topic_sender(topic), receiver)


@assumption("pings.sessions", _PINGS)
def _ping_of_sessions(stage: Stage) -> None:
    """A ping is accepted by a queue that requires sessions."""
    stage.send(stage.queue("pings-sessions", requires_session=True), ping_message())


def _expect_no_ping(sender: Any, receiver: Any) -> None:
    """Send a ping between two messages.

    A ping expires after a second. So the receiver has granted credit before, shown by the first message: what the
    service delivers at all is then delivered at once, however slow this host is.
    """
    with sender, receiver:
        sender.send_messages(ServiceBusMessage("before"), timeout=WAIT_S)
        received(receiver, 1)
        sender.send_messages(ping_message(), timeout=WAIT_S)
        sender.send_messages(ServiceBusMessage("after"), timeout=WAIT_S)
        (first,) = received(receiver, 1)
    expect(not is_ping(first), "the ping was delivered: discard messages for which pairing.is_ping is true")


@assumption("sessions.none", "wire.md#7-sessions")
def _no_session(stage: Stage) -> None:
    """Waiting for a session ends with a timeout if there is none."""
    path = stage.queue("empty-sessions", requires_session=True)
    try:
        with stage.bus.get_queue_receiver(path, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=2):
            raise Contradicted("a session was found")
    except OperationTimeoutError:
        return


@assumption("duplicates.dropped", "specification.md#6-sending-to-the-backlog")
def _duplicates(stage: Stage) -> None:
    """A queue with duplicate detection drops a second message with the same id."""
    path = stage.queue("duplicates", requires_duplicate_detection=True)
    stage.send(path, *(ServiceBusMessage("-", message_id=name) for name in ("same", "same", "last")))
    with stage.bus.get_queue_receiver(path) as receiver:
        names = [message.message_id for message in received(receiver, 2)]
    expect(names == ["same", "last"], "both were delivered")


@assumption("sequence.gapless", "specification.md#8-the-syphon")
def _sequence(stage: Stage) -> None:
    """Sequence numbers of a queue without partitions rise without gaps."""
    path = stage.queue("sequence")
    stage.send(path, *(ServiceBusMessage("-") for _ in range(3)))
    with stage.bus.get_queue_receiver(path) as receiver:
        numbers = [message.sequence_number or 0 for message in received(receiver, 3)]
    expect(numbers == list(range(numbers[0], numbers[0] + 3)), f"they are {numbers}")


@assumption("locks.renewal", _MANAGEMENT)
def _renewal(stage: Stage) -> None:
    """Renewing a lock moves its end."""
    with stage.bus.get_queue_receiver(stage.queue("renewal")) as receiver:
        message = _only(stage, receiver)
        before = message.locked_until_utc
        renewed = receiver.renew_message_lock(message, timeout=WAIT_S)
    expect(before is not None and renewed > before, f"{before} became {renewed}")


@assumption("settle.deferred", _MANAGEMENT)
def _deferred(stage: Stage) -> None:
    """A deferred message is shown by a peek, and received and completed by its sequence number."""
    with stage.bus.get_queue_receiver(stage.queue("deferred")) as receiver:
        message = _only(stage, receiver)
        receiver.defer_message(message)
        shown = [one.state for one in receiver.peek_messages(10, sequence_number=1, timeout=WAIT_S)]
        expect(shown == [ServiceBusMessageState.DEFERRED], f"the peek showed {shown}")
        (deferred,) = receiver.receive_deferred_messages(message.sequence_number or 0, timeout=WAIT_S)
        receiver.complete_message(deferred)


@assumption("settle.dead_letter", "wire.md#5-settlement")
def _dead_letter(stage: Stage) -> None:
    """A dead letter keeps the reason and description that the receiver gave."""
    path = stage.queue("dead-letters")
    with stage.bus.get_queue_receiver(path) as receiver:
        receiver.dead_letter_message(_only(stage, receiver), reason="a check", error_description="its description")
    with stage.bus.get_queue_receiver(path, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
        (dead,) = received(receiver, 1)
    kept = (dead.dead_letter_reason, dead.dead_letter_error_description)
    expect(kept == ("a check", "its description"), f"it has {kept}")


@assumption("schedule.cancel", _MANAGEMENT)
def _cancelled(stage: Stage) -> None:
    """A scheduled message can be cancelled by its number."""
    path = stage.queue("cancelled")
    with stage.bus.get_queue_sender(path) as sender, stage.bus.get_queue_receiver(path) as receiver:
        numbers = sender.schedule_messages(ServiceBusMessage("later"), now() + timedelta(days=1), timeout=WAIT_S)
        sender.cancel_scheduled_messages(numbers, timeout=WAIT_S)
        left = receiver.peek_messages(1, sequence_number=1, timeout=WAIT_S)
    expect(not left, "it is still there")


@assumption("sizes.accepted", "readiness.md#the-checks")
def _size_accepted(stage: Stage) -> None:
    """A message of the size limit of its tier, less the headroom of the backlog, is accepted."""
    limit = LIMITS[stage.pair.primary.tier]
    stage.send(stage.queue("accepted"), ServiceBusMessage(b"-" * (limit - HEADROOM - _MARGIN)))


@assumption("sizes.refused", "specification.md#which-failures-qualify")
def _size_refused(stage: Stage) -> None:
    """A message above the size limit of its tier is refused as too large, not as an outage."""
    path, limit = stage.queue("refused"), LIMITS[stage.pair.primary.tier]
    try:
        stage.send(path, ServiceBusMessage(b"-" * (limit + _MARGIN)))
    except MessageSizeExceededError:
        return
    raise Contradicted("the message was accepted")


@assumption("quarantine.refused", "specification.md#12-what-operators-do")
def _quarantine(stage: Stage) -> None:
    """A queue that is set SendDisabled refuses sends in a way that removes it from the rotation."""
    path, administration = stage.queue("quarantine", "secondary"), stage.administrations["secondary"]
    queue = administration.get_queue(path)
    queue.status = "SendDisabled"
    administration.update_queue(queue)
    with _refused_as({Fault.OUTAGE}, known=True):
        stage.send(path, ServiceBusMessage("-"), role="secondary")


@contextmanager
def _refused_as(faults: set[Fault], *, known: bool) -> Iterator[None]:
    """Expect that the block fails with one of these faults; an error that may mean anything passes through."""
    try:
        yield
    except ServiceBusError as error:
        if is_ambiguous(error):
            raise
        expect(classify(error, known=known) in faults, f"it raises {type(error).__name__}")
    else:
        raise Contradicted("it was accepted")


def _only(stage: Stage, receiver: Any) -> ServiceBusReceivedMessage:
    """Send one message to the receiver's queue and receive it; it stays locked."""
    stage.send(receiver.entity_path, ServiceBusMessage("-"))
    (message,) = receiver.receive_messages(1, max_wait_time=WAIT_S)
    return message  # type: ignore[no-any-return]
