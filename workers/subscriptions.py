"""Dead-letter counts of subscriptions, read per topic, as a namespace cannot return them all at once."""

import threading
from collections.abc import Sequence
from datetime import datetime

from azure.core.exceptions import ResourceNotFoundError

from dashboard.backlog.places import record_subscriptions
from dashboard.models import EntityHealth
from pairing import PairedServiceBusClient

MOST_TOPICS = 200  # per pair and round: each is one request
ROUND_S = 300.0


def count(connected: PairedServiceBusClient, pair: str, now: datetime, stop: threading.Event) -> None:
    """Store the counts of the topics of this round. Raises errors of the SDK."""
    topics = EntityHealth.objects.present().filter(pair__name=pair, kind="topic").order_by("path")
    for topic in turn(list(topics.values_list("path", flat=True)), now):
        if stop.is_set():
            return
        connected.meter.count("manage", connected.primary.namespace, "*", operations=1, billing_units=1)
        record_subscriptions(pair, topic, _counts(connected, topic), now)


def turn(topics: Sequence[str], now: datetime, most: int = MOST_TOPICS) -> Sequence[str]:
    """The topics of this round: all, or if there are many, a part in turn."""
    parts = -(-len(topics) // most) or 1
    first = int(now.timestamp() // ROUND_S) % parts * most
    return topics[first : first + most]


def _counts(connected: PairedServiceBusClient, topic: str) -> dict[str, int]:
    try:
        reported = list(connected.primary.administration.list_subscriptions_runtime_properties(topic))
    except ResourceNotFoundError:
        return {}
    return {one.name: one.dead_letter_message_count or 0 for one in reported}
