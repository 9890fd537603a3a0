"""Entities of the broker as entries of the administration."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from emulator.administration import atom, documents
from emulator.administration.documents import Runtime
from emulator.administration.durations import format_time
from emulator.administration.rule_documents import write_rule
from emulator.broker.filters import CorrelationFilter
from emulator.broker.queues.queue import Queue
from emulator.broker.rules import Rule
from emulator.broker.subscription import Subscription
from emulator.broker.topic import Topic


@dataclass(frozen=True, slots=True)
class Entries:
    """Writes entries for one request: `host` completes forwarding addresses, `hidden` are properties left out."""

    host: str
    hidden: frozenset[str] = frozenset()

    def queue(self, queue: Queue) -> atom.Entry:
        """A queue with its counts."""
        runtime = queue_runtime(queue)
        description = documents.write(queue.description, runtime, self.host, self.hidden)
        return _entry(queue.path, quote(queue.path), description, runtime)

    def topic(self, topic: Topic) -> atom.Entry:
        """A topic with the number of its subscriptions and filters."""
        runtime = topic_runtime(topic)
        description = documents.write(topic.description, runtime, self.host, self.hidden)
        return _entry(topic.path, quote(topic.path), description, runtime)

    def subscription(self, subscription: Subscription) -> atom.Entry:
        """A subscription with its counts."""
        runtime = queue_runtime(subscription.queue)
        description = documents.write(subscription.description, runtime, self.host)
        return _entry(subscription.name, quote(subscription.queue.path), description, runtime)

    def rule(self, subscription: Subscription, rule: Rule) -> atom.Entry:
        """One rule of a subscription."""
        address = quote(f"{subscription.queue.path}/Rules/{rule.name}")
        return atom.Entry(
            rule.name, address, write_rule(rule.description, rule.created_at), rule.created_at, rule.created_at
        )

    def namespace(self, name: str, created_at: float) -> atom.Entry:
        """The namespace: always of the Standard tier."""
        time = format_time(created_at)
        inner = (
            f"<CreatedTime>{time}</CreatedTime><MessagingSKU>Standard</MessagingSKU><ModifiedTime>{time}</ModifiedTime>"
            f"{atom.element('Name', name)}<NamespaceType>Messaging</NamespaceType>"
        )
        return atom.Entry(name, "$namespaceinfo", documents.wrap("NamespaceInfo", inner), created_at, created_at)


def queue_runtime(queue: Queue) -> Runtime:
    """The current state of a queue, or of a subscription's queue."""
    counted = queue.runtime()
    return Runtime(
        created_at=counted["created_at"],
        updated_at=counted["updated_at"],
        accessed_at=counted["accessed_at"],
        size_in_bytes=counted["size_bytes"],
        active=counted["active"],
        dead_lettered=counted["dead_lettered"],
        scheduled=counted["scheduled"],
        transfer=counted["transfer"],
        transfer_dead_lettered=counted["transfer_dead_lettered"],
    )


def topic_runtime(topic: Topic) -> Runtime:
    """The current state of a topic: its scheduled messages; all others are in its subscriptions."""
    filters = [rule.description.filter for each in topic.subscriptions() for rule in each.rules()]
    correlations = sum(isinstance(each, CorrelationFilter) for each in filters)
    return Runtime(
        created_at=topic.inbox.created_at,
        updated_at=topic.inbox.updated_at,
        accessed_at=topic.inbox.accessed_at,
        size_in_bytes=topic.size_bytes,
        scheduled=topic.inbox.contents.scheduled_count,
        subscriptions=len(topic.subscriptions()),
        sql_filters=len(filters) - correlations,
        correlation_filters=correlations,
    )


def _entry(title: str, address: str, description: str, runtime: Runtime) -> atom.Entry:
    return atom.Entry(title, address, description, runtime.created_at, runtime.updated_at)
