"""Queues, topics and subscriptions as XML.

One table per kind of entity maps elements to properties, another gives the order of the elements.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlsplit
from xml.etree.ElementTree import Element

from emulator.administration import atom
from emulator.administration.durations import format_duration, format_time, parse_duration
from emulator.broker.descriptions import (
    AuthorizationRule,
    DescriptionError,
    EntityStatus,
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
)

Described = TypeVar("Described", QueueDescription, TopicDescription, SubscriptionDescription)

_RIGHTS = ("Manage", "Send", "Listen")


@dataclass(frozen=True, slots=True)
class Runtime:
    """The current state of an entity. Times in seconds since the epoch, sizes in bytes; other counts are zero."""

    created_at: float
    updated_at: float
    accessed_at: float
    size_in_bytes: int = 0
    active: int = 0
    dead_lettered: int = 0
    scheduled: int = 0
    transfer: int = 0
    transfer_dead_lettered: int = 0
    subscriptions: int = 0
    sql_filters: int = 0
    correlation_filters: int = 0

    @property
    def messages(self) -> int:
        return self.active + self.dead_lettered + self.scheduled + self.transfer + self.transfer_dead_lettered


@dataclass(frozen=True, slots=True)
class Kind:
    """How one type of property is read and written."""

    read: Callable[[str], Any]
    write: Callable[[Any], str]


def _read_integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise DescriptionError(f"{text[:40]!r} is not a whole number.") from None


def read_boolean(text: str) -> bool:
    """Return the boolean of an XML text; raise DescriptionError for other text."""
    try:
        return {"true": True, "1": True, "false": False, "0": False}[text.strip().lower()]
    except KeyError:
        raise DescriptionError(f"{text[:40]!r} is neither true nor false.") from None


def _read_status(text: str) -> EntityStatus:
    try:
        return EntityStatus(text.strip())
    except ValueError:
        raise DescriptionError(f"{text[:40]!r} is not a status an entity can be given.") from None


def read_entity_path(address: str) -> str:
    """Return the entity path of a forwarding address: `sb://host:port/path`, or a path as it is."""
    return unquote(urlsplit(address).path).strip("/") if "://" in address else address.strip("/")


DURATION = Kind(parse_duration, format_duration)
INTEGER = Kind(_read_integer, str)
BOOLEAN = Kind(read_boolean, lambda value: "true" if value else "false")
STATUS = Kind(_read_status, str)
TEXT = Kind(str, str)
ADDRESS = Kind(read_entity_path, str)

Table = Mapping[str, tuple[str, Kind]]

_COMMON: Table = {
    "DefaultMessageTimeToLive": ("default_message_time_to_live_s", DURATION),
    "EnableBatchedOperations": ("enable_batched_operations", BOOLEAN),
    "Status": ("status", STATUS),
    "UserMetadata": ("user_metadata", TEXT),
    "AutoDeleteOnIdle": ("auto_delete_on_idle_s", DURATION),
}
_HOLDER: Table = {
    "LockDuration": ("lock_duration_s", DURATION),
    "RequiresSession": ("requires_session", BOOLEAN),
    "DeadLetteringOnMessageExpiration": ("dead_lettering_on_message_expiration", BOOLEAN),
    "MaxDeliveryCount": ("max_delivery_count", INTEGER),
    "ForwardTo": ("forward_to", ADDRESS),
    "ForwardDeadLetteredMessagesTo": ("forward_dead_lettered_messages_to", ADDRESS),
}
_ROOT: Table = {
    "MaxSizeInMegabytes": ("max_size_in_megabytes", INTEGER),
    "RequiresDuplicateDetection": ("requires_duplicate_detection", BOOLEAN),
    "DuplicateDetectionHistoryTimeWindow": ("duplicate_detection_history_time_window_s", DURATION),
    "EnablePartitioning": ("enable_partitioning", BOOLEAN),
    "EnableExpress": ("enable_express", BOOLEAN),
    "MaxMessageSizeInKilobytes": ("max_message_size_in_kilobytes", INTEGER),
}
_TABLES: Mapping[type, Table] = {
    QueueDescription: {**_COMMON, **_HOLDER, **_ROOT},
    TopicDescription: {
        **_COMMON,
        **_ROOT,
        "FilteringMessagesBeforePublishing": ("filtering_messages_before_publishing", BOOLEAN),
        "SupportOrdering": ("support_ordering", BOOLEAN),
        "EnableSubscriptionPartitioning": ("enable_subscription_partitioning", BOOLEAN),
    },
    SubscriptionDescription: {
        **_COMMON,
        **_HOLDER,
        "DeadLetteringOnFilterEvaluationExceptions": ("dead_lettering_on_filter_evaluation_exceptions", BOOLEAN),
    },
}


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


ORDER: Mapping[type, tuple[str, ...]] = {
    QueueDescription: _names(
        "LockDuration MaxSizeInMegabytes RequiresDuplicateDetection RequiresSession DefaultMessageTimeToLive "
        "DeadLetteringOnMessageExpiration DuplicateDetectionHistoryTimeWindow MaxDeliveryCount "
        "EnableBatchedOperations SizeInBytes MessageCount IsAnonymousAccessible AuthorizationRules Status ForwardTo "
        "UserMetadata CreatedAt UpdatedAt AccessedAt SupportOrdering CountDetails AutoDeleteOnIdle EnablePartitioning "
        "EntityAvailabilityStatus EnableExpress ForwardDeadLetteredMessagesTo MaxMessageSizeInKilobytes"
    ),
    TopicDescription: _names(
        "DefaultMessageTimeToLive MaxSizeInMegabytes RequiresDuplicateDetection DuplicateDetectionHistoryTimeWindow "
        "EnableBatchedOperations SizeInBytes FilteringMessagesBeforePublishing IsAnonymousAccessible "
        "AuthorizationRules Status UserMetadata CreatedAt UpdatedAt AccessedAt SupportOrdering CountDetails "
        "SubscriptionCount SqlFilterCount CorrelationFilterCount AutoDeleteOnIdle EnablePartitioning "
        "EntityAvailabilityStatus EnableSubscriptionPartitioning EnableExpress MaxMessageSizeInKilobytes"
    ),
    SubscriptionDescription: _names(
        "LockDuration RequiresSession DefaultMessageTimeToLive DeadLetteringOnMessageExpiration "
        "DeadLetteringOnFilterEvaluationExceptions MessageCount MaxDeliveryCount EnableBatchedOperations Status "
        "ForwardTo CreatedAt UpdatedAt AccessedAt CountDetails UserMetadata ForwardDeadLetteredMessagesTo "
        "AutoDeleteOnIdle EntityAvailabilityStatus"
    ),
}
# Properties fixed at creation keep their value when an update leaves them out.
_FIXED = ("RequiresSession", "RequiresDuplicateDetection", "EnablePartitioning")


def read(element: Element, blank: Described, before: Described | None = None) -> Described:
    """Return `blank` with the properties the element gives; `before` is the entity an update replaces.

    Raises DescriptionError for a value of the wrong type, naming the property. Unknown elements are passed over: an
    update sends back what it was shown.
    """
    table = _TABLES[type(blank)]
    values: dict[str, Any] = {}
    for name, (field, kind) in table.items():
        child = element.find(f"{{{atom.SERVICE_BUS}}}{name}")
        if child is not None:
            values[field] = _value(name, kind, child.text or "")
        elif before is not None and name in _FIXED:
            values[field] = getattr(before, field)
    rules = element.find(f"{{{atom.SERVICE_BUS}}}AuthorizationRules")
    if rules is not None and not isinstance(blank, SubscriptionDescription):
        values["authorization_rules"] = tuple(_read_authorization(rule) for rule in rules)
    return replace(blank, **values)


def mentions(element: Element, name: str) -> bool:
    """Whether the description contains this property."""
    return element.find(f"{{{atom.SERVICE_BUS}}}{name}") is not None


def _value(name: str, kind: Kind, text: str) -> Any:
    if kind in (TEXT, ADDRESS):
        return kind.read(text) or None
    try:
        return kind.read(text)
    except DescriptionError as error:
        raise DescriptionError(f"The value of {name} is invalid: {error}") from None


def write(
    entity: QueueDescription | TopicDescription | SubscriptionDescription,
    runtime: Runtime,
    host: str,
    hidden: frozenset[str] = frozenset(),
) -> str:
    """Return the description's XML, in the service's order; `host` completes forwarding addresses."""
    table = _TABLES[type(entity)]
    parts = []
    for name in ORDER[type(entity)]:
        if name in hidden:
            continue
        if name in table:
            field, kind = table[name]
            value = getattr(entity, field)
            if value is not None:
                written = f"sb://{host}/{quote(value)}" if kind is ADDRESS else kind.write(value)
                parts.append(f"<{name}>{atom.text(written)}</{name}>")
        else:
            parts.append(_RUNTIME[name](entity, runtime))
    return wrap(type(entity).__name__, "".join(parts))


def wrap(name: str, inner: str) -> str:
    """A description element with the two namespaces its children use."""
    return f'<{name} xmlns="{atom.SERVICE_BUS}" xmlns:i="{atom.INSTANCE}">{inner}</{name}>'


def _count_details(_entity: object, runtime: Runtime) -> str:
    counts = (
        ("Active", runtime.active),
        ("DeadLetter", runtime.dead_lettered),
        ("Scheduled", runtime.scheduled),
        ("Transfer", runtime.transfer),
        ("TransferDeadLetter", runtime.transfer_dead_lettered),
    )
    inner = "".join(f"<d2p1:{name}MessageCount>{n}</d2p1:{name}MessageCount>" for name, n in counts)
    return f'<CountDetails xmlns:d2p1="{atom.COUNTS}">{inner}</CountDetails>'


def _authorization_rules(entity: Any, runtime: Runtime) -> str:
    rules = "".join(_write_authorization(rule, runtime) for rule in entity.authorization_rules)
    return f"<AuthorizationRules>{rules}</AuthorizationRules>" if rules else "<AuthorizationRules/>"


_RUNTIME: Mapping[str, Callable[[Any, Runtime], str]] = {
    "SizeInBytes": lambda _, runtime: f"<SizeInBytes>{runtime.size_in_bytes}</SizeInBytes>",
    "MessageCount": lambda _, runtime: f"<MessageCount>{runtime.messages}</MessageCount>",
    "IsAnonymousAccessible": lambda *_: "<IsAnonymousAccessible>false</IsAnonymousAccessible>",
    "AuthorizationRules": _authorization_rules,
    "CreatedAt": lambda _, runtime: f"<CreatedAt>{format_time(runtime.created_at)}</CreatedAt>",
    "UpdatedAt": lambda _, runtime: f"<UpdatedAt>{format_time(runtime.updated_at)}</UpdatedAt>",
    "AccessedAt": lambda _, runtime: f"<AccessedAt>{format_time(runtime.accessed_at)}</AccessedAt>",
    "SupportOrdering": lambda *_: "<SupportOrdering>true</SupportOrdering>",
    "CountDetails": _count_details,
    "SubscriptionCount": lambda _, runtime: f"<SubscriptionCount>{runtime.subscriptions}</SubscriptionCount>",
    "SqlFilterCount": lambda _, runtime: f"<SqlFilterCount>{runtime.sql_filters}</SqlFilterCount>",
    "CorrelationFilterCount": lambda _, runtime: (
        f"<CorrelationFilterCount>{runtime.correlation_filters}</CorrelationFilterCount>"
    ),
    "EntityAvailabilityStatus": lambda *_: "<EntityAvailabilityStatus>Available</EntityAvailabilityStatus>",
}


def _read_authorization(element: Element) -> AuthorizationRule:
    def text_of(name: str) -> str:
        return element.findtext(f"{{{atom.SERVICE_BUS}}}{name}") or ""

    rights = _read_rights(element.find(f"{{{atom.SERVICE_BUS}}}Rights"))
    if not text_of("KeyName"):
        raise DescriptionError("An authorization rule needs a KeyName.")
    return AuthorizationRule(
        key_name=text_of("KeyName"),
        rights=rights,
        claim_type=text_of("ClaimType") or "SharedAccessKey",
        claim_value=text_of("ClaimValue") or "None",
        primary_key=text_of("PrimaryKey") or _new_key(),
        secondary_key=text_of("SecondaryKey") or _new_key(),
    )


def _new_key() -> str:
    """A key for a rule without one, generated as by the service."""
    return base64.b64encode(secrets.token_bytes(32)).decode()


def _read_rights(element: Iterable[Element] | None) -> tuple[str, ...]:
    rights = tuple(right.text or "" for right in element or ())
    unknown = [right for right in rights if right not in _RIGHTS]
    if unknown:
        raise DescriptionError(f"{unknown[0][:40]!r} is not one of the rights {', '.join(_RIGHTS)}.")
    return rights


def _write_authorization(rule: AuthorizationRule, runtime: Runtime) -> str:
    rights = "".join(f"<AccessRights>{right}</AccessRights>" for right in rule.rights)
    fields = (
        atom.element("ClaimType", rule.claim_type),
        atom.element("ClaimValue", rule.claim_value),
        f"<Rights>{rights}</Rights>",
        f"<CreatedTime>{format_time(runtime.created_at)}</CreatedTime>",
        f"<ModifiedTime>{format_time(runtime.updated_at)}</ModifiedTime>",
        atom.element("KeyName", rule.key_name),
        atom.element("PrimaryKey", rule.primary_key),
        atom.element("SecondaryKey", rule.secondary_key),
    )
    return f'<AuthorizationRule i:type="SharedAccessAuthorizationRule">{"".join(fields)}</AuthorizationRule>'
