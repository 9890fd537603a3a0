"""Canaries by kind: how to create them, send to them and receive from them, and how to identify messages of drills.

Topics have a dedicated subscription for drills. In queues with sessions, the session id identifies the drill.
"""

from contextlib import suppress
from typing import Any

from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage, ServiceBusReceiver

from dashboard.drills.canary import CANARY, MARK
from dashboard.models import Drill
from pairing import PairedSender, PairedServiceBusClient

WHOLE, PART = "entity", "subscription"
"""What a drill has created: queue or topic, or only the subscription of an existing topic."""


def make_canary(connected: PairedServiceBusClient, row: Drill) -> str:
    """Create what is missing; requires the Manage claim. Returns what this call created. Raises AzureError."""
    administration = connected.primary.administration
    created = ""
    if row.kind == Drill.Kind.TOPIC:
        with suppress(ResourceExistsError):
            administration.create_topic(row.path)
            created = WHOLE
        with suppress(ResourceExistsError):
            administration.create_subscription(row.path, CANARY)
            created = created or PART
        return created
    with suppress(ResourceExistsError):
        administration.create_queue(row.path, requires_session=row.kind == Drill.Kind.SESSIONS)
        created = WHOLE
    return created


def remove_canary(connected: PairedServiceBusClient, row: Drill, created: str) -> None:
    """Delete what a drill has created. Raises AzureError."""
    administration = connected.primary.administration
    with suppress(ResourceNotFoundError):
        if created == PART:
            administration.delete_subscription(row.path, CANARY)
        elif row.kind == Drill.Kind.TOPIC:
            administration.delete_topic(row.path)
        else:
            administration.delete_queue(row.path)


def sender(connected: PairedServiceBusClient, row: Drill) -> PairedSender:
    """A sender of its messages."""
    if row.kind == Drill.Kind.TOPIC:
        return connected.get_topic_sender(row.path)
    return connected.get_queue_sender(row.path)


def receiver(connected: PairedServiceBusClient, row: Drill, identity: str) -> ServiceBusReceiver:
    """A receiver of its messages."""
    if row.kind == Drill.Kind.TOPIC:
        return connected.get_subscription_receiver(row.path, CANARY)
    if row.kind == Drill.Kind.SESSIONS:
        return connected.get_queue_receiver(row.path, session_id=identity)
    return connected.get_queue_receiver(row.path)


def message_of(row: Drill, identity: str, number: int, total: int) -> ServiceBusMessage:
    """One numbered message of a drill."""
    session: dict[str, Any] = {"session_id": identity} if row.kind == Drill.Kind.SESSIONS else {}
    return ServiceBusMessage(
        f"message {number} of {total} of a drill",
        message_id=f"drill-{identity}-{number}",
        subject="pairing drill",
        application_properties={MARK: identity, "number": number},
        **session,
    )


def mark_of(message: ServiceBusReceivedMessage) -> str | None:
    """The drill that sent a message; None if none did."""
    value = (message.application_properties or {}).get(MARK.encode())
    if value is None:
        return None
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def number_of(message: ServiceBusReceivedMessage) -> int:
    """The number of a message in its drill; 0 if it has none."""
    value = (message.application_properties or {}).get(b"number")
    return int(value) if isinstance(value, int) else 0
