"""The descriptions of queues, topics, subscriptions and rules.

Names are those of the service in Python's spelling, defaults are the service's defaults. Durations are seconds, with
`math.inf` for unlimited. Creating a description does not validate it; `validate_*` does, so that tests of the
broker can use values that the administration refuses. The text of the error is the detail of the answer 400.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from enum import StrEnum

from emulator.broker.filters import CorrelationFilter, RuleFilter, SqlRuleAction, TrueFilter

MAX_ENTITY_NAME = 260
MAX_SUBSCRIPTION_NAME = 50
MAX_USER_METADATA = 1024
MAX_LOCK_DURATION_S = 300.0
MIN_AUTO_DELETE_ON_IDLE_S = 300.0
DUPLICATE_DETECTION_WINDOW_S = (20.0, 7 * 86400.0)
MAX_DELIVERY_COUNT = 2**31 - 1
QUOTAS_MB = (1024, 2048, 3072, 4096, 5120)
STANDARD_MESSAGE_KB = 256

_ENTITY_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_./~-]*[A-Za-z0-9])?", re.ASCII)
_PART_NAME = re.compile(r"[A-Za-z0-9$](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?", re.ASCII)


class DescriptionError(ValueError):
    """A description the service refuses; the text says which property and why."""


class EntityStatus(StrEnum):
    """Whether an entity allows sending and receiving."""

    ACTIVE = "Active"
    DISABLED = "Disabled"
    SEND_DISABLED = "SendDisabled"
    RECEIVE_DISABLED = "ReceiveDisabled"

    @property
    def accepts_sends(self) -> bool:
        return self in (EntityStatus.ACTIVE, EntityStatus.RECEIVE_DISABLED)

    @property
    def accepts_receives(self) -> bool:
        return self in (EntityStatus.ACTIVE, EntityStatus.SEND_DISABLED)


@dataclass(frozen=True, slots=True)
class AuthorizationRule:
    """A shared access rule of one entity: keys with rights (Send, Listen, Manage) to this entity only."""

    key_name: str
    rights: tuple[str, ...] = ()
    claim_type: str = "SharedAccessKey"
    claim_value: str = "None"
    primary_key: str = field(default="", repr=False)
    secondary_key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class QueueDescription:
    """A queue's properties. `forward_to` and `forward_dead_lettered_messages_to` are entity paths, not addresses."""

    name: str
    lock_duration_s: float = 60.0
    max_size_in_megabytes: int = 1024
    requires_duplicate_detection: bool = False
    requires_session: bool = False
    default_message_time_to_live_s: float = math.inf
    dead_lettering_on_message_expiration: bool = False
    duplicate_detection_history_time_window_s: float = 600.0
    max_delivery_count: int = 10
    enable_batched_operations: bool = True
    authorization_rules: tuple[AuthorizationRule, ...] = ()
    status: EntityStatus = EntityStatus.ACTIVE
    forward_to: str | None = None
    user_metadata: str | None = None
    auto_delete_on_idle_s: float = math.inf
    enable_partitioning: bool = False
    enable_express: bool = False
    forward_dead_lettered_messages_to: str | None = None
    max_message_size_in_kilobytes: int = STANDARD_MESSAGE_KB


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic's properties; its subscriptions hold the messages."""

    name: str
    default_message_time_to_live_s: float = math.inf
    max_size_in_megabytes: int = 1024
    requires_duplicate_detection: bool = False
    duplicate_detection_history_time_window_s: float = 600.0
    enable_batched_operations: bool = True
    filtering_messages_before_publishing: bool = False
    authorization_rules: tuple[AuthorizationRule, ...] = ()
    status: EntityStatus = EntityStatus.ACTIVE
    support_ordering: bool = True
    user_metadata: str | None = None
    auto_delete_on_idle_s: float = math.inf
    enable_partitioning: bool = False
    enable_subscription_partitioning: bool = False
    enable_express: bool = False
    max_message_size_in_kilobytes: int = STANDARD_MESSAGE_KB


@dataclass(frozen=True, slots=True)
class SubscriptionDescription:
    """A subscription's properties: those of its queue, and what happens if a filter fails."""

    topic: str
    name: str
    lock_duration_s: float = 60.0
    requires_session: bool = False
    default_message_time_to_live_s: float = math.inf
    dead_lettering_on_message_expiration: bool = False
    dead_lettering_on_filter_evaluation_exceptions: bool = True
    max_delivery_count: int = 10
    enable_batched_operations: bool = True
    status: EntityStatus = EntityStatus.ACTIVE
    forward_to: str | None = None
    user_metadata: str | None = None
    auto_delete_on_idle_s: float = math.inf
    forward_dead_lettered_messages_to: str | None = None

    @property
    def path(self) -> str:
        """The path a receiver uses, `<topic>/Subscriptions/<name>`."""
        return f"{self.topic}/Subscriptions/{self.name}"


@dataclass(frozen=True, slots=True)
class RuleDescription:
    """One rule of a subscription: which messages match and what is done to the copy."""

    name: str
    filter: RuleFilter = field(default_factory=TrueFilter)
    action: SqlRuleAction | None = None


DEFAULT_RULE = RuleDescription("$Default")

EntityDescription = QueueDescription | TopicDescription | SubscriptionDescription


def validate_queue(queue: QueueDescription) -> None:
    """Raise DescriptionError unless a Standard namespace would accept this queue."""
    validate_entity_name(queue.name)
    _validate_receivable(queue)
    _validate_quota(queue)


def validate_topic(topic: TopicDescription) -> None:
    """Raise DescriptionError unless a Standard namespace would accept this topic."""
    validate_entity_name(topic.name)
    _validate_common(topic)
    _validate_quota(topic)


def validate_subscription(subscription: SubscriptionDescription) -> None:
    """Raise DescriptionError unless a Standard namespace would accept this subscription."""
    validate_part_name(subscription.name, "subscription")
    _validate_receivable(subscription)


def validate_rule(rule: RuleDescription) -> None:
    """Raise DescriptionError unless the name and a correlation filter are valid; SQL is checked when it is parsed."""
    validate_part_name(rule.name, "rule")
    if isinstance(rule.filter, CorrelationFilter) and rule.filter == CorrelationFilter():
        raise DescriptionError("A correlation filter needs at least one property to compare.")


def validate_entity_name(name: str) -> None:
    """Raise DescriptionError unless the text may name a queue or topic."""
    if len(name) > MAX_ENTITY_NAME:
        raise DescriptionError(f"The entity path/name exceeds {MAX_ENTITY_NAME} characters.")
    if not _ENTITY_NAME.fullmatch(name) or "//" in name:
        raise DescriptionError(
            f"The entity name or path {name!r} contains an invalid character: only letters, digits, periods, hyphens, "
            "tildes, slashes and underscores, beginning and ending with a letter or digit."
        )


def validate_part_name(name: str, what: str) -> None:
    """Raise DescriptionError unless the text may name a subscription or rule (`what` says which)."""
    if len(name) > MAX_SUBSCRIPTION_NAME:
        raise DescriptionError(f"The {what} name exceeds {MAX_SUBSCRIPTION_NAME} characters.")
    if not _PART_NAME.fullmatch(name):
        raise DescriptionError(f"The {what} name {name!r} contains an invalid character.")


def validate_update(before: EntityDescription, after: EntityDescription) -> None:
    """Raise DescriptionError if the update changes a property that is fixed at creation."""
    for fixed in ("requires_session", "requires_duplicate_detection", "enable_partitioning"):
        if getattr(before, fixed, None) != getattr(after, fixed, None):
            kind, name = type(after).__name__.removesuffix("Description"), _service_name(fixed)
            raise DescriptionError(f"The value for the {name} property of an existing {kind} cannot be changed.")


def _validate_receivable(entity: QueueDescription | SubscriptionDescription) -> None:
    """Validate what queues and subscriptions have in common: locks, delivery count and forwarding."""
    _validate_common(entity)
    if not 0 < entity.lock_duration_s <= MAX_LOCK_DURATION_S:
        raise DescriptionError("The value of LockDuration must be above zero and at most 5 minutes.")
    if not 1 <= entity.max_delivery_count <= MAX_DELIVERY_COUNT:
        raise DescriptionError("The value of MaxDeliveryCount must be at least 1.")


def _validate_common(entity: EntityDescription) -> None:
    if entity.default_message_time_to_live_s <= 0:
        raise DescriptionError("The value of DefaultMessageTimeToLive must be above zero.")
    if entity.auto_delete_on_idle_s < MIN_AUTO_DELETE_ON_IDLE_S:
        raise DescriptionError("The value of AutoDeleteOnIdle must be at least 5 minutes.")
    if entity.user_metadata is not None and len(entity.user_metadata) > MAX_USER_METADATA:
        raise DescriptionError(f"The length of UserMetadata exceeds {MAX_USER_METADATA} characters.")


def _validate_quota(entity: QueueDescription | TopicDescription) -> None:
    """Validate what queues and topics have in common: quota and duplicate detection."""
    if entity.max_size_in_megabytes not in QUOTAS_MB:
        raise DescriptionError(f"The value of MaxSizeInMegabytes must be one of {', '.join(map(str, QUOTAS_MB))}.")
    shortest, longest = DUPLICATE_DETECTION_WINDOW_S
    if not shortest <= entity.duplicate_detection_history_time_window_s <= longest:
        raise DescriptionError("DuplicateDetectionHistoryTimeWindow must be between 20 seconds and 7 days.")
    if entity.enable_express and entity.requires_duplicate_detection:
        raise DescriptionError("EnableExpress and RequiresDuplicateDetection cannot be enabled together.")
    if entity.max_message_size_in_kilobytes != STANDARD_MESSAGE_KB:
        raise DescriptionError("MaxMessageSizeInKilobytes can be set on premium namespaces only.")


def _service_name(field_name: str) -> str:
    return field_name.title().replace("_", "")
