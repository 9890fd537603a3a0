"""Trials of a failover with the real library: a queue, a queue with sessions and a topic, there and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from azure.servicebus import ServiceBusMessage, ServiceBusMessageState, ServiceBusReceivedMessage

from dashboard.checks.live.findings import Found, held, held_if
from dashboard.checks.live.snapshots import differences, full_message, snapshot
from dashboard.checks.live.stage import SUBSCRIPTION, WORK_S, Stage, now, wait_until
from pairing.messages.property_types import text
from pairing.messages.rewriting import PATH

_REASON = "a trial of check --live"
_LATER = timedelta(days=1)


def queue(stage: Stage) -> Iterator[Found]:
    """A message with every property is sent directly and through the backlog, and both are compared."""
    path, client, bus = stage.queue("queue"), stage.client, stage.buses["primary"]
    at = (now() + _LATER).replace(microsecond=0)
    receiver = lambda: bus.get_queue_receiver(path)  # noqa: E731
    with client.get_queue_sender(path) as sender:
        sender.send_messages(full_message(), timeout=WORK_S)
        (direct,) = stage.receive(receiver, 1)
        with _failed_over(stage, path):
            sender.send_messages(full_message(), timeout=WORK_S)
            sender.send_messages(ServiceBusMessage("later", scheduled_enqueue_time_utc=at), timeout=WORK_S)
            stored = len(_in_backlog(stage, path))
            yield held_if("failover.queue", stored == 2, f"{stored} of 2 messages are in the backlog queue")
        wait_until("the recovery by a ping", lambda: client.entity_health(path).state == "healthy")
        yield held("recovery.ping")
    (diverted,) = stage.receive(receiver, 1)
    wait_until("draining", lambda: not _in_backlog(stage, path))
    yield held("drain.queue")
    other = differences(snapshot(direct), snapshot(diverted))
    yield held_if("roundtrip.properties", not other, f"different: {', '.join(other)}")
    yield _scheduled(stage.on_link(receiver, _peeked), at)


def _scheduled(seen: Sequence[ServiceBusReceivedMessage], at: Any) -> Found:
    said = [(one.state, one.scheduled_enqueue_time_utc) for one in seen]
    is_so = any(state == ServiceBusMessageState.SCHEDULED and when == at for state, when in said)
    return held_if("roundtrip.schedule", is_so, f"expected at {at}, found {said}")


def sessions(stage: Stage) -> Iterator[Found]:
    """Three messages of one session, in order."""
    path, client, bus = stage.queue("sessions", requires_session=True), stage.client, stage.buses["primary"]
    with client.get_queue_sender(path) as sender, _failed_over(stage, path):
        for number in range(3):
            sender.send_messages(ServiceBusMessage(str(number), session_id="check"), timeout=WORK_S)
    wait_until("the recovery by a ping", lambda: client.entity_health(path).state == "healthy")
    wait_until("draining", lambda: not _in_backlog(stage, path))
    found = stage.receive(lambda: bus.get_queue_receiver(path, session_id="check"), 3)
    bodies = [str(message) for message in found]
    yield held_if("failover.sessions", bodies == ["0", "1", "2"], f"they arrived as {', '.join(bodies)}")


def topic(stage: Stage) -> Iterator[Found]:
    """One message through the backlog to a subscription."""
    path, client, bus = stage.topic("topic"), stage.client, stage.buses["primary"]
    with client.get_topic_sender(path) as sender, _failed_over(stage, path):
        sender.send_messages(ServiceBusMessage("through the backlog"), timeout=WORK_S)
    wait_until("the recovery by a ping", lambda: client.entity_health(path).state == "healthy")
    (found,) = stage.receive(lambda: bus.get_subscription_receiver(path, SUBSCRIPTION), 1)
    yield held_if("failover.topic", str(found) == "through the backlog", f"{found} arrived")


@contextmanager
def _failed_over(stage: Stage, path: str) -> Iterator[None]:
    """The entity is failed over and held within the block, and pinged at once after it."""
    stage.client.fail_over(path, _REASON)
    try:
        yield
    finally:
        stage.client.release(path)


def _in_backlog(stage: Stage, path: str) -> list[ServiceBusReceivedMessage]:
    """The messages for the entity in the backlog queue, deferred ones included."""
    bus = stage.buses["secondary"]
    seen: Callable[[], Any] = lambda: bus.get_queue_receiver(stage.backlog_queue)  # noqa: E731
    return [message for message in stage.on_link(seen, _peeked) if _destination(message) == path]


def _destination(message: ServiceBusReceivedMessage) -> str:
    carried = {text(key): value for key, value in (message.application_properties or {}).items()}
    found = carried.get(PATH, "")
    return text(found) if isinstance(found, bytes | str) else ""


def _peeked(receiver: Any) -> list[ServiceBusReceivedMessage]:
    return list(receiver.peek_messages(50, sequence_number=1, timeout=WORK_S / 3))
