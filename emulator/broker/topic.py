"""A topic: messages sent to it are copied to its subscriptions at once, or at their scheduled time.

A topic is a queue without receivers: scheduling, duplicate detection, pings and the checks of a send are those of the
queue, and a message that becomes active there is published and removed.
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
from emulator.broker.queues.queue import MEGABYTE, Environment, Queue
from emulator.broker.rules import compile_rule
from emulator.broker.subscription import Subscription

MAX_SUBSCRIPTIONS = 2000
SUBSCRIPTIONS = "/subscriptions/"


class Inbox(Queue):
    """The queue behind a topic. Its quota covers the whole topic."""

    topic: Topic

    def check(self, messages: Sequence[Message]) -> None:
        super().check(messages)
        total = self.topic.size_bytes + sum(message.size for message in messages)
        if total > self.description.max_size_in_megabytes * MEGABYTE:
            raise QuotaExceeded

    @property
    def rules_evaluated(self) -> int:
        return sum(len(subscription.rules()) for subscription in self.topic.subscriptions())

    def idle_due(self) -> float:
        """A topic is in use while one of its subscriptions is."""
        last = max(queue.accessed_at for queue in self.topic.queues())
        return last + self.description.auto_delete_on_idle_s

    def is_idle(self, now: float) -> bool:
        receivers = any(subscription.queue.receivers.consumers() for subscription in self.topic.subscriptions())
        return now >= self.idle_due() and not receivers


class Topic:
    """One topic and its subscriptions, whose names are compared without case."""

    def __init__(self, description: TopicDescription, environment: Environment, now: float) -> None:
        self.description = description
        self.inbox = Inbox(_inbox_description(description), environment, now)
        self.inbox.topic = self
        self._environment = environment
        self._subscriptions: dict[str, Subscription] = {}
        self.inbox.receivers.wait(_Publisher(self), now)

    @property
    def path(self) -> str:
        """The topic's path, as it was spelled at creation."""
        return self.description.name

    @property
    def size_bytes(self) -> int:
        """The size of the topic and all its subscriptions, dead-letter queues included."""
        return sum(queue.total_size_bytes for queue in self.queues())

    def queues(self) -> list[Queue]:
        """The queue behind the topic and those of its subscriptions."""
        return [self.inbox, *(subscription.queue for subscription in self.subscriptions())]

    def publish(self, stored: StoredMessage, now: float) -> None:
        """Copy the message to each subscription whose rules match."""
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
        """Create a subscription with these rules. Raises EntityExists, QuotaExceeded or DescriptionError."""
        validate_subscription(description)
        if self.has_subscription(description.name):
            raise EntityExists(f"The messaging entity '{description.path}' already exists.")
        if len(self._subscriptions) >= MAX_SUBSCRIPTIONS:
            raise QuotaExceeded(f"A topic has at most {MAX_SUBSCRIPTIONS} subscriptions.")
        compiled = [compile_rule(rule, now) for rule in rules]
        subscription = Subscription(description, self.description, self._environment, now)
        subscription.restore_rules(compiled)
        self._subscriptions[description.name.lower()] = subscription
        self._changed(now)
        return subscription

    def update_subscription(self, description: SubscriptionDescription, now: float) -> Subscription:
        """Apply new properties to a subscription. Raises EntityNotFound."""
        subscription = self.subscription(description.name)
        subscription.update(description, self.description, now)
        self._environment.journal.entity(subscription.queue.path)
        return subscription

    def delete_subscription(self, name: str, now: float) -> Subscription:
        """Delete a subscription with its messages; returns it. Raises EntityNotFound."""
        subscription = self.subscription(name)
        del self._subscriptions[name.lower()]
        self._changed(now)
        return subscription

    def _changed(self, now: float) -> None:
        self.inbox.updated_at = now
        self._environment.journal.entity(self.path)

    # --- administration --------------------------------------------------------------------------------------------

    def update(self, description: TopicDescription, now: float) -> None:
        """Apply new properties, to the subscriptions as well."""
        self.description = description
        self.inbox.update(_inbox_description(description), now)
        for subscription in self._subscriptions.values():
            updated_at = subscription.queue.updated_at
            subscription.update(subscription.description, description, now)
            subscription.queue.updated_at = updated_at


class _Publisher:
    """The consumer of a topic's queue: publishes each message as soon as it is active."""

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
        """Nothing to do: no message is waiting."""


def _inbox_description(topic: TopicDescription) -> QueueDescription:
    return QueueDescription(
        name=topic.name,
        max_size_in_megabytes=topic.max_size_in_megabytes,
        requires_duplicate_detection=topic.requires_duplicate_detection,
        duplicate_detection_history_time_window_s=topic.duplicate_detection_history_time_window_s,
        # A scheduled message is published when it is due, even if the topic no longer accepts sends.
        status=EntityStatus.ACTIVE if topic.status.accepts_sends else EntityStatus.SEND_DISABLED,
        auto_delete_on_idle_s=topic.auto_delete_on_idle_s,
    )
