"""A topic: what is sent to it goes to its subscriptions at once, or when it is due.

A topic is a queue nobody receives from: scheduling, duplicate detection, pings and the refusals are the queue's own,
and whatever becomes active there is published and gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from emulator.broker.descriptions import (
    DEFAULT_RULE,
    EntityStatus,
    QueueDescription,
    RuleDescription,
    SubscriptionDescription,
    TopicDescription,
    validate_subscription,
)
from emulator.broker.errors import EntityExists, EntityNotFound, QuotaExceeded
from emulator.broker.message import Message, StoredMessage
from emulator.broker.properties import MessageProperties
from emulator.broker.queue import MEGABYTE, Queue
from emulator.broker.rules import compile_rule
from emulator.broker.subscription import Subscription
from emulator.broker.surroundings import Surroundings

MAX_SUBSCRIPTIONS = 2000
SUBSCRIPTIONS = "/subscriptions/"


class Inbox(Queue):
    """The queue behind a topic. It refuses what its topic has no room for."""

    topic: Topic

    def check(self, messages: Sequence[Message]) -> None:
        super().check(messages)
        total = self.topic.size_bytes + sum(message.size for message in messages)
        if total > self.description.max_size_in_megabytes * MEGABYTE:
            raise QuotaExceeded

    @property
    def rules_looked_at(self) -> int:
        return sum(len(subscription.rules()) for subscription in self.topic.subscriptions())

    def idle_due(self) -> float:
        """A topic is in use as long as one of its subscriptions is."""
        last = max(queue.accessed_at for queue in self.topic.queues())
        return last + self.description.auto_delete_on_idle_s

    def is_idle(self, now: float) -> bool:
        receivers = any(subscription.queue.consumers() for subscription in self.topic.subscriptions())
        return now >= self.idle_due() and not receivers


class Topic:
    """One topic and its subscriptions, whose names are compared without case."""

    def __init__(self, description: TopicDescription, surroundings: Surroundings, now: float) -> None:
        self.description = description
        self.inbox = Inbox(_inbox_description(description), surroundings, now)
        self.inbox.topic = self
        self._surroundings = surroundings
        self._subscriptions: dict[str, Subscription] = {}
        self.inbox.wait(_Publisher(self), now)

    @property
    def path(self) -> str:
        """The topic's path, as people write it."""
        return self.description.name

    @property
    def size_bytes(self) -> int:
        """What the topic and all its subscriptions hold, dead-letter queues included."""
        return sum(queue.total_size_bytes for queue in self.queues())

    def queues(self) -> list[Queue]:
        """The queue behind the topic and those of its subscriptions."""
        return [self.inbox, *(subscription.queue for subscription in self.subscriptions())]

    def publish(self, stored: StoredMessage, now: float) -> None:
        """Give each subscription what its rules take."""
        properties = MessageProperties(stored.message, stored.sequence_number, now)
        for subscription in self._subscriptions.values():
            subscription.publish(properties, stored, now)

    # --- subscriptions ---------------------------------------------------------------------------------------------

    def subscriptions(self) -> list[Subscription]:
        """All subscriptions by name."""
        return [self._subscriptions[key] for key in sorted(self._subscriptions)]

    def subscription(self, name: str) -> Subscription:
        """The subscription of this name. Raises EntityNotFound."""
        found = self._subscriptions.get(name.lower())
        if found is None:
            raise EntityNotFound(f"The messaging entity '{self.path}/Subscriptions/{name}' could not be found.")
        return found

    def has_subscription(self, name: str) -> bool:
        """Whether there is a subscription of this name."""
        return name.lower() in self._subscriptions

    def create_subscription(
        self, description: SubscriptionDescription, now: float, rules: Iterable[RuleDescription] = (DEFAULT_RULE,)
    ) -> Subscription:
        """A new subscription with these rules. Raises EntityExists, QuotaExceeded or DescriptionError."""
        validate_subscription(description)
        if self.has_subscription(description.name):
            raise EntityExists(f"The messaging entity '{description.path}' already exists.")
        if len(self._subscriptions) >= MAX_SUBSCRIPTIONS:
            raise QuotaExceeded(f"A topic has at most {MAX_SUBSCRIPTIONS} subscriptions.")
        compiled = [compile_rule(rule, now) for rule in rules]
        subscription = Subscription(description, self.description, self._surroundings, now)
        subscription.restore_rules(compiled)
        self._subscriptions[description.name.lower()] = subscription
        self._changed(now)
        return subscription

    def update_subscription(self, description: SubscriptionDescription, now: float) -> Subscription:
        """Give a subscription other properties. Raises EntityNotFound."""
        subscription = self.subscription(description.name)
        subscription.update(description, self.description, now)
        self._surroundings.journal.entity(subscription.queue.path)
        return subscription

    def delete_subscription(self, name: str, now: float) -> Subscription:
        """Take a subscription and its messages away; returns it. Raises EntityNotFound."""
        subscription = self.subscription(name)
        del self._subscriptions[name.lower()]
        self._changed(now)
        return subscription

    def _changed(self, now: float) -> None:
        self.inbox.updated_at = now
        self._surroundings.journal.entity(self.path)

    # --- administration --------------------------------------------------------------------------------------------

    def update(self, description: TopicDescription, now: float) -> None:
        """Take new properties, the subscriptions with it."""
        self.description = description
        self.inbox.update(_inbox_description(description), now)
        for subscription in self._subscriptions.values():
            updated_at = subscription.queue.updated_at
            subscription.update(subscription.description, description, now)
            subscription.queue.updated_at = updated_at


class _Publisher:
    """Takes every active message out of a topic's queue at once."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic

    @property
    def deletes(self) -> bool:
        return True

    def accepts(self, now: float) -> bool:
        return True

    def deliver(self, stored: StoredMessage, now: float) -> None:
        self._topic.publish(stored, now)

    def entity_gone(self, condition: str, text: str) -> None:
        """Nothing is left to publish."""


def _inbox_description(topic: TopicDescription) -> QueueDescription:
    return QueueDescription(
        name=topic.name,
        max_size_in_megabytes=topic.max_size_in_megabytes,
        requires_duplicate_detection=topic.requires_duplicate_detection,
        duplicate_detection_history_time_window_s=topic.duplicate_detection_history_time_window_s,
        # A scheduled message is published when it is due, even if the topic takes no other by then.
        status=EntityStatus.ACTIVE if topic.status.accepts_sends else EntityStatus.SEND_DISABLED,
        auto_delete_on_idle_s=topic.auto_delete_on_idle_s,
    )
