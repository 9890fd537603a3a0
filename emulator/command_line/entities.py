"""Creates the entities that the command line and the configuration file name, unless they exist."""

from __future__ import annotations

from emulator.broker.descriptions import (
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
    validate_queue,
    validate_topic,
)
from emulator.broker.namespace import Namespace
from emulator.command_line.config_file import NamespaceConfig

TOPIC = "topic:"


def create(namespace: Namespace, path: str, now: float) -> None:
    """Create the queue, or topic and subscription, of an `--entity`. Raises DescriptionError or BrokerError."""
    if path.startswith(TOPIC):
        _create_topic(namespace, path.removeprefix(TOPIC), now)
    elif not namespace.exists(path):
        validate_queue(QueueDescription(path))
        namespace.create_queue(path, QueueDescription(path), now)


def _create_topic(namespace: Namespace, path: str, now: float) -> None:
    topic, separator, subscription = path.rpartition("/")
    if not separator:
        topic, subscription = path, ""
    if not namespace.exists(topic):
        validate_topic(TopicDescription(topic))
        namespace.create_topic(topic, TopicDescription(topic), now)
    if subscription and not namespace.topic(topic).has_subscription(subscription):
        namespace.create_subscription(topic, SubscriptionDescription(topic, subscription), now)


def create_configured(namespace: Namespace, config: NamespaceConfig, now: float) -> None:
    """Create the entities of a configuration file. Raises BrokerError, for example for a topic that exists as a queue.

    What exists is left as it is: a store, not the file, says how it was changed since.
    """
    for queue in config.queues:
        if not namespace.exists(queue.name):
            namespace.create_queue(queue.name, queue, now)
    for topic in config.topics:
        if not namespace.exists(topic.name):
            namespace.create_topic(topic.name, topic, now)
    for subscribed in config.subscriptions:
        description = subscribed.description
        if not namespace.topic(description.topic).has_subscription(description.name):
            namespace.create_subscription(description.topic, description, now, subscribed.rules)
