"""The locations of dead letters: backlog queues, a pair's own queues, and subscriptions of its topics."""

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from azure.core.exceptions import ResourceNotFoundError
from django.db import transaction
from django.db.models import QuerySet

from dashboard.fleet.pairs.namespaces import NamespaceError, namespace
from dashboard.models import EntityHealth, Pair, TopicSubscription
from dashboard.models.entity import BELOW
from dashboard.site.database import upsert
from dashboard.site.fitting import fitted
from pairing import PairedServiceBusClient
from pairing.backlog.rotation import parse_backlog_path
from pairing.ends import Role

MOST_LISTED, MOST_OFFERED = 100, 1_000
MOST_TOPICS = 200  # per pair and round: each is one request
ROUND_S = 300.0


@dataclass(frozen=True, slots=True)
class Place:
    """A path and its type. `home`: the destination of its dead letters; empty: each goes to its original entity."""

    role: Role
    home: str = ""
    subscription: str = ""
    """The name of the subscription, if it is one of the topic `home`."""


def place(pair: Pair, path: str) -> Place | None:
    """The location of a path with dead letters; None if it is unknown."""
    if pair.backlog_queues.filter(path=path).exists():
        return Place("secondary")
    if pair.entities.filter(path=path, kind="queue").exists():
        return Place("primary", path)
    topic, name = parted(path)
    if name and pair.entities.filter(path=topic, kind="topic").exists():
        return Place("primary", topic, name)
    return None


def parted(path: str) -> tuple[str, str]:
    """Topic and subscription of a subscription's path; otherwise the path and an empty name."""
    topic, _, name = path.rpartition(BELOW)
    return (topic, name) if topic and name and "/" not in name else (path, "")


def counted(pair: Pair, path: str) -> int:
    """The last count of dead letters there; 0 if they were never counted."""
    topic, name = parted(path)
    counts = [
        pair.backlog_queues.filter(path=path).values_list("dead_lettered", flat=True).first(),
        pair.entities.filter(path=path, kind="queue").values_list("dead_lettered", flat=True).first(),
        _subscriptions(pair).filter(topic__path=topic, name=name).values_list("dead_lettered", flat=True).first(),
    ]
    return next(filter(None, counts), 0)


def in_the_primary(pair: Pair) -> list[tuple[str, int]]:
    """The pair's own queues and subscriptions with dead letters, and their counts, highest first."""
    queues = pair.entities.filter(kind="queue", dead_lettered__gt=0).order_by("-dead_lettered", "path")
    topics = _subscriptions(pair).filter(dead_lettered__gt=0).order_by("-dead_lettered", "topic__path", "name")
    found = [(one.path, one.dead_lettered or 0) for one in queues[:MOST_LISTED]]
    found += [(one.path, one.dead_lettered) for one in topics.select_related("topic")[:MOST_LISTED]]
    return sorted(found, key=lambda one: (-one[1], one[0]))[:MOST_LISTED]


def destinations(pair: Pair) -> list[str]:
    """The entities of the pair that messages can be sent to: those it knows, and all that its primary has.

    Without an answer of the primary, those it knows.
    """
    known = set(pair.entities.present().values_list("path", flat=True))
    away = suppress(NamespaceError, ResourceNotFoundError)
    with away, namespace(pair.name, "primary") as here, here.asked(2) as administration:
        known |= {queue.name for queue in administration.list_queues()}
        known |= {topic.name for topic in administration.list_topics()}
    return sorted(path for path in known if parse_backlog_path(path) is None)[:MOST_OFFERED]


def record_subscriptions(pair: str, topic: str, counts: Mapping[str, int], at: datetime) -> None:
    """Store the number of dead letters of all subscriptions of a topic, by name."""
    row = EntityHealth.objects.filter(pair__name=pair, path=fitted(topic, 260), kind="topic").first()
    if row is None:
        return
    reported = {fitted(name, 50): count for name, count in counts.items()}
    rows = [TopicSubscription(topic=row, name=name, dead_lettered=n, counted_at=at) for name, n in reported.items()]
    with transaction.atomic():
        row.subscriptions.exclude(name__in=reported).delete()
        upsert(rows, ("topic", "name"), ("dead_lettered", "counted_at"))
        EntityHealth.objects.filter(pk=row.pk).update(dead_lettered=sum(counts.values()))


def _subscriptions(pair: Pair) -> QuerySet[TopicSubscription]:
    return TopicSubscription.objects.filter(topic__pair=pair)


def count_subscriptions(connected: PairedServiceBusClient, pair: str, now: datetime, stop: threading.Event) -> None:
    """Store the counts of the topics of this round. Raises errors of the SDK."""
    topics = EntityHealth.objects.present().filter(pair__name=pair, kind="topic").order_by("path")
    for topic in turn_of(list(topics.values_list("path", flat=True)), now):
        if stop.is_set():
            return
        connected.meter.count("manage", connected.primary.namespace, "*", operations=1, billing_units=1)
        record_subscriptions(pair, topic, _counts_of(connected, topic), now)


def turn_of(topics: Sequence[str], now: datetime, most: int = MOST_TOPICS) -> Sequence[str]:
    """The topics of this round: all, or if there are many, a part in turn."""
    parts = -(-len(topics) // most) or 1
    first = int(now.timestamp() // ROUND_S) % parts * most
    return topics[first : first + most]


def _counts_of(connected: PairedServiceBusClient, topic: str) -> dict[str, int]:
    try:
        reported = list(connected.primary.administration.list_subscriptions_runtime_properties(topic))
    except ResourceNotFoundError:
        return {}
    return {one.name: one.dead_letter_message_count or 0 for one in reported}
