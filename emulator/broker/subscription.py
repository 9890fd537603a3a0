"""A subscription: the rules that select messages of a topic, and the queue that stores them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from emulator.broker import dead_letter
from emulator.broker.descriptions import (
    EntityStatus,
    QueueDescription,
    RuleDescription,
    SubscriptionDescription,
    TopicDescription,
)
from emulator.broker.errors import EntityExists, EntityNotFound
from emulator.broker.message import Message, StoredMessage
from emulator.broker.properties import MessageProperties
from emulator.broker.queues.queue import Environment, Queue
from emulator.broker.rules import Rule, compile_rule, copies

FILTER_FAILED = "FilterException"
NO_SESSION = (
    "Session ID is null.",
    "An entity that requires sessions does not accept a message whose session id is null.",
)

# A subscription has no quota: that of its topic is checked before a message is published.
_UNBOUNDED_MB = 2**40


class Subscription:
    """One subscription of a topic. Messages come from its topic only."""

    def __init__(
        self, description: SubscriptionDescription, topic: TopicDescription, environment: Environment, now: float
    ) -> None:
        self.description = description
        self.queue = Queue(queue_description(description, topic), environment, now)
        self._environment = environment
        self._rules: dict[str, Rule] = {}

    @property
    def name(self) -> str:
        return self.description.name

    # --- messages --------------------------------------------------------------------------------------------------

    def publish(self, properties: MessageProperties, source: StoredMessage, now: float) -> None:
        """Store the copies of a message that the rules produce. Errors of filters are dead-lettered, never raised."""
        if not self.description.status.accepts_sends:
            return
        messages, failed = copies(list(self._rules.values()), properties)
        accessed_at = self.queue.accessed_at
        for message in messages:
            if self.description.requires_session and message.session_id is None:
                self._dead_letter(message, *NO_SESSION, source, now)
            else:
                self.queue.enqueue(message, now, source=source)
        if failed and self.description.dead_lettering_on_filter_evaluation_exceptions:
            self._dead_letter(properties.message, FILTER_FAILED, str(failed[0]), source, now)
        # Published messages do not count as use for AutoDeleteOnIdle, only receivers do.
        self.queue.accessed_at = accessed_at

    def _dead_letter(self, message: Message, reason: str, text: str, source: StoredMessage, now: float) -> None:
        self.queue.counters.dead_lettered += 1
        dead = dead_letter.with_reason(message, reason, text)
        self.queue.dead_letters.add_dead_letter(replace(source, message=dead, dead_letter_source=self.queue.path), now)

    # --- rules -----------------------------------------------------------------------------------------------------

    def rules(self) -> list[Rule]:
        """All rules by name."""
        return [self._rules[key] for key in sorted(self._rules)]

    def rule(self, name: str) -> Rule:
        """The rule of this name. Raises EntityNotFound."""
        found = self._rules.get(name.lower())
        if found is None:
            raise EntityNotFound(f"The rule '{name}' of '{self.queue.path}' could not be found.")
        return found

    def has_rule(self, name: str) -> bool:
        """Whether there is a rule of this name."""
        return name.lower() in self._rules

    def create_rule(self, description: RuleDescription, now: float) -> Rule:
        """Add a rule, in force for the next message. Raises EntityExists or DescriptionError."""
        if self.has_rule(description.name):
            raise EntityExists(f"The rule '{description.name}' of '{self.queue.path}' already exists.")
        return self._keep(compile_rule(description, now), now)

    def update_rule(self, description: RuleDescription, now: float) -> Rule:
        """Replace the filter and action of a rule. Raises EntityNotFound or DescriptionError."""
        before = self.rule(description.name)
        return self._keep(compile_rule(replace(description, name=before.name), before.created_at), now)

    def delete_rule(self, name: str, now: float) -> None:
        """Delete a rule; a subscription without rules receives no message. Raises EntityNotFound."""
        del self._rules[self.rule(name).name.lower()]
        self._changed(now)

    def restore_rules(self, rules: Iterable[Rule]) -> None:
        """Replace all rules, for example by those of a store, without reporting it."""
        self._rules = {rule.name.lower(): rule for rule in rules}

    def _keep(self, rule: Rule, now: float) -> Rule:
        self._rules[rule.name.lower()] = rule
        self._changed(now)
        return rule

    def _changed(self, now: float) -> None:
        self.queue.updated_at = now
        self._environment.journal.entity(self.queue.path)

    # --- administration --------------------------------------------------------------------------------------------

    def update(self, description: SubscriptionDescription, topic: TopicDescription, now: float) -> None:
        """Apply new properties; messages already stored keep their own times."""
        self.description = description
        self.queue.update(queue_description(description, topic), now)


def queue_description(subscription: SubscriptionDescription, topic: TopicDescription) -> QueueDescription:
    """The description of a subscription's queue: its own properties, within the limits of its topic."""
    return QueueDescription(
        name=subscription.path,
        lock_duration_s=subscription.lock_duration_s,
        max_size_in_megabytes=_UNBOUNDED_MB,
        requires_session=subscription.requires_session,
        default_message_time_to_live_s=min(
            subscription.default_message_time_to_live_s, topic.default_message_time_to_live_s
        ),
        dead_lettering_on_message_expiration=subscription.dead_lettering_on_message_expiration,
        max_delivery_count=subscription.max_delivery_count,
        enable_batched_operations=subscription.enable_batched_operations,
        status=_status(subscription.status, topic.status),
        forward_to=subscription.forward_to,
        auto_delete_on_idle_s=subscription.auto_delete_on_idle_s,
        forward_dead_lettered_messages_to=subscription.forward_dead_lettered_messages_to,
    )


def _status(own: EntityStatus, topic: EntityStatus) -> EntityStatus:
    """A topic that is disabled for receiving disables its subscriptions too."""
    if topic.accepts_receives:
        return own
    return EntityStatus.RECEIVE_DISABLED if own.accepts_sends else EntityStatus.DISABLED
