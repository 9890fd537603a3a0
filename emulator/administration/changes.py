"""Creating, updating and deleting entities as requests describe them."""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree.ElementTree import Element

from emulator.administration import documents, targets
from emulator.administration.atom import SERVICE_BUS
from emulator.administration.rule_documents import read_rule
from emulator.broker.descriptions import (
    DEFAULT_RULE,
    DescriptionError,
    QueueDescription,
    RuleDescription,
    SubscriptionDescription,
    TopicDescription,
    validate_queue,
    validate_subscription,
    validate_topic,
    validate_update,
)
from emulator.broker.errors import EntityNotFound
from emulator.broker.namespace import Namespace
from emulator.broker.queues.queue import Queue
from emulator.broker.rules import Rule
from emulator.broker.subscription import Subscription
from emulator.broker.topic import Topic


@dataclass(frozen=True, slots=True)
class Changes:
    """What one request does to the entities of a namespace.

    `is_update`: the entity must be there already; otherwise it must not. All methods raise DescriptionError for what
    the service answers with 400, and BrokerError if the entity exists or does not.
    """

    namespace: Namespace
    is_update: bool
    now: float

    def queue(self, path: str, element: Element) -> Queue:
        """Create or update a queue."""
        if not self.is_update:
            wanted = documents.read(element, QueueDescription(path))
            validate_queue(wanted)
            self._check_forwarding(wanted)
            return self.namespace.create_queue(path, wanted, self.now)
        before = self.namespace.queue(path).description
        wanted = documents.read(element, QueueDescription(before.name), before)
        validate_queue(wanted)
        validate_update(before, wanted)
        self._check_forwarding(wanted)
        return self.namespace.update_queue(path, wanted, self.now)

    def topic(self, path: str, element: Element) -> Topic:
        """Create or update a topic."""
        if not self.is_update:
            wanted = documents.read(element, TopicDescription(path))
            validate_topic(wanted)
            return self.namespace.create_topic(path, wanted, self.now)
        before = self.namespace.topic(path).description
        wanted = documents.read(element, TopicDescription(before.name), before)
        validate_topic(wanted)
        validate_update(before, wanted)
        return self.namespace.update_topic(path, wanted, self.now)

    def subscription(self, target: targets.Subscription, element: Element) -> Subscription:
        """Create or update a subscription; a new one matches every message unless the request contains a rule."""
        topic = self.namespace.topic(target.topic)
        if not self.is_update:
            wanted = documents.read(element, SubscriptionDescription(topic.path, target.name))
            validate_subscription(wanted)
            self._check_forwarding(wanted)
            return self.namespace.create_subscription(topic.path, wanted, self.now, [_first_rule(element)])
        before = topic.subscription(target.name).description
        wanted = documents.read(element, SubscriptionDescription(before.topic, before.name), before)
        validate_subscription(wanted)
        validate_update(before, wanted)
        self._check_forwarding(wanted)
        return topic.update_subscription(wanted, self.now)

    def rule(self, target: targets.Rule, element: Element) -> tuple[Subscription, Rule]:
        """Create or update a rule."""
        subscription = self.namespace.topic(target.topic).subscription(target.subscription)
        wanted = read_rule(element, target.name)
        put = subscription.update_rule if self.is_update else subscription.create_rule
        return subscription, put(wanted, self.now)

    def delete(self, target: targets.Target) -> bool:
        """Delete what the target names; False if it names nothing that can be deleted."""
        match target:
            case targets.Entity(path) if topic_at(self.namespace, path):
                self.namespace.delete_topic(path)
            case targets.Entity(path):
                self.namespace.delete_queue(path)
            case targets.Subscription(topic, name):
                self.namespace.delete_subscription(topic, name, self.now)
            case targets.Rule(topic, name, rule):
                self.namespace.topic(topic).subscription(name).delete_rule(rule, self.now)
            case _:
                return False
        return True

    def _check_forwarding(self, wanted: QueueDescription | SubscriptionDescription) -> None:
        for name, path in (
            ("ForwardTo", wanted.forward_to),
            ("ForwardDeadLetteredMessagesTo", wanted.forward_dead_lettered_messages_to),
        ):
            if path is not None and not self.namespace.exists(path):
                raise DescriptionError(f"The entity {path!r} named by {name} could not be found.")


def topic_at(namespace: Namespace, path: str) -> Topic | None:
    """The topic of this path, None if there is none."""
    try:
        return namespace.topic(path)
    except EntityNotFound:
        return None


def _first_rule(element: Element) -> RuleDescription:
    """The rule a subscription is created with: `DefaultRuleDescription`, or the default one."""
    given = element.find(f"{{{SERVICE_BUS}}}DefaultRuleDescription")
    if given is None:
        return DEFAULT_RULE
    name = given.findtext(f"{{{SERVICE_BUS}}}Name")
    return read_rule(given, name or DEFAULT_RULE.name)
