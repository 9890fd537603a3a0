"""Assumptions about messages that go through the backlog, tried with the real library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from azure.servicebus import ServiceBusMessage, ServiceBusMessageState, ServiceBusReceivedMessage
from azure.servicebus.amqp import AmqpMessageHeader

from dashboard.checks.assumptions import assumption, expect
from dashboard.checks.stage import SUBSCRIPTION, WAIT_S, Stage, now, received, wait_until
from pairing.backlog.administration import deviations
from pairing.messages.property_types import text

_BACKLOG, _SYPHON = "specification.md#6-sending-to-the-backlog", "specification.md#8-the-syphon"
_FIELDS = (
    *("content_type", "correlation_id", "partition_key", "reply_to", "reply_to_session_id", "session_id"),
    *("subject", "time_to_live", "to"),
)


@assumption("queues.properties", "specification.md#4-pairing")
def _created(stage: Stage) -> None:
    """A backlog queue can be created with slashes in its name, and has the properties it is created with."""
    expect(stage.backlog_queue in stage.client.backlog_paths, f"it is {stage.client.backlog_paths}")
    others = deviations(stage.administrations["secondary"].get_queue(stage.backlog_queue))
    found = (f"{name} is {actual}, not {expected}" for name, (expected, actual) in others.items())
    expect(not others, ", ".join(found))


@assumption("failover.queue", _BACKLOG)
def _queue(stage: Stage) -> None:
    """A message arrives through the backlog with every property that it has when sent directly."""
    path = stage.queue("queue")
    with stage.client.get_queue_sender(path) as sender, stage.bus.get_queue_receiver(path) as receiver:
        sender.send_messages(full_message(), timeout=WAIT_S)
        (direct,) = received(receiver, 1)
        with _failed_over(stage, path):
            sender.send_messages(full_message(), timeout=WAIT_S)
            expect(len(_in_backlog(stage)) == 1, "the message is not in the backlog queue")
        (diverted,) = received(receiver, 1)
    other = differences(_snapshot(direct), _snapshot(diverted))
    expect(not other, f"different: {', '.join(other)}")


@assumption("failover.schedule", _BACKLOG)
def _schedule(stage: Stage) -> None:
    """A scheduled message is scheduled again for the same time after the backlog."""
    path, at = stage.queue("schedule"), (now() + timedelta(days=1)).replace(microsecond=0)
    with stage.client.get_queue_sender(path) as sender, _failed_over(stage, path):
        sender.send_messages(ServiceBusMessage("later", scheduled_enqueue_time_utc=at), timeout=WAIT_S)
    with stage.bus.get_queue_receiver(path) as receiver:
        found = [(one.state, one.scheduled_enqueue_time_utc) for one in _peeked(receiver)]
    expect(found == [(ServiceBusMessageState.SCHEDULED, at)], f"expected at {at}, found {found}")


@assumption("failover.sessions", _SYPHON)
def _sessions(stage: Stage) -> None:
    """Messages of a session arrive through the backlog in their session and in order."""
    path = stage.queue("sessions", requires_session=True)
    with stage.client.get_queue_sender(path) as sender, _failed_over(stage, path):
        for number in range(3):
            sender.send_messages(ServiceBusMessage(str(number), session_id="check"), timeout=WAIT_S)
    with stage.bus.get_queue_receiver(path, session_id="check") as receiver:
        bodies = [str(message) for message in received(receiver, 3)]
    expect(bodies == ["0", "1", "2"], f"they arrived as {', '.join(bodies)}")


@assumption("failover.topic", _BACKLOG)
def _topic(stage: Stage) -> None:
    """A message for a topic arrives in its subscription through the backlog."""
    path = stage.topic("topic")
    with stage.client.get_topic_sender(path) as sender, _failed_over(stage, path):
        sender.send_messages(ServiceBusMessage("through the backlog"), timeout=WAIT_S)
    with stage.bus.get_subscription_receiver(path, SUBSCRIPTION) as receiver:
        (found,) = received(receiver, 1)
    expect(str(found) == "through the backlog", f"{found} arrived")


@contextmanager
def _failed_over(stage: Stage, path: str) -> Iterator[None]:
    """Hold the entity failed over within the block; afterwards wait for the ping that ends it, and for the drain."""
    stage.client.fail_over(path, "a trial of check --live")
    try:
        yield
    finally:
        stage.client.release(path)
    wait_until("the recovery by a ping", lambda: stage.client.entity_health(path).state == "healthy")
    wait_until("draining", lambda: not _in_backlog(stage))


def _in_backlog(stage: Stage) -> list[ServiceBusReceivedMessage]:
    with stage.buses["secondary"].get_queue_receiver(stage.backlog_queue) as receiver:
        return _peeked(receiver)


def _peeked(receiver: Any) -> list[ServiceBusReceivedMessage]:
    return list(receiver.peek_messages(50, sequence_number=1, timeout=WAIT_S))


def full_message() -> ServiceBusMessage:
    """A message with every property that one can have, the same at each call except for its id."""
    properties: dict[Any, Any] = {
        "text": "Grüße",
        "bytes": b"\x00\x01",
        "int": -7,
        "long": {"TYPE": "LONG", "VALUE": 2**40},
        "float": 1.25,
        "flag": True,
        "time": datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC),
        "uuid": UUID(int=7),
        "nothing": None,
    }
    message = ServiceBusMessage(
        b"\x00body\xff",
        application_properties=properties,
        content_type="application/x-check",
        correlation_id="correlation",
        partition_key="partition",
        reply_to="reply-to",
        reply_to_session_id="reply-to-session",
        subject="subject",
        time_to_live=timedelta(days=2),
        to="to",
    )
    raw = message.raw_amqp_message
    raw.header = AmqpMessageHeader(priority=7, durable=True)
    raw.annotations = {**(raw.annotations or {}), "of-the-user": "kept"}
    return message


def _snapshot(message: ServiceBusReceivedMessage) -> dict[str, Any]:
    """Everything a receiver sees of it, without what the service adds."""
    raw = message.raw_amqp_message
    annotations = {text(key): value for key, value in (raw.annotations or {}).items()}
    return {
        **{name: getattr(message, name) for name in _FIELDS},
        "body": b"".join(message.body),
        "priority": raw.header.priority if raw.header else None,
        "durable": raw.header.durable if raw.header else None,
        **{f"property {text(key)}": value for key, value in (message.application_properties or {}).items()},
        **{f"annotation {key}": value for key, value in annotations.items() if not key.startswith("x-opt-")},
    }


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """The names of the values that differ, or that only one of them has."""
    missing = object()
    names = dict.fromkeys((*one, *other))
    return [name for name in names if one.get(name, missing) != other.get(name, missing)]
