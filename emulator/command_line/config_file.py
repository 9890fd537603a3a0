"""Reads the `Config.json` of Microsoft's Service Bus emulator: its namespaces, and the entities to create in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from emulator.administration.durations import parse_duration
from emulator.administration.rule_documents import CORRELATION_PROPERTIES
from emulator.broker.descriptions import (
    DEFAULT_RULE,
    DUPLICATE_DETECTION_WINDOW_S,
    DescriptionError,
    EntityStatus,
    QueueDescription,
    RuleDescription,
    SubscriptionDescription,
    TopicDescription,
    validate_queue,
    validate_subscription,
    validate_topic,
)
from emulator.broker.filters import CorrelationFilter, FalseFilter, RuleFilter, SqlFilter, SqlRuleAction, TrueFilter
from emulator.broker.namespace import strip_host
from emulator.broker.rules import compile_rule

Json = dict[str, Any]
Description = TypeVar("Description", QueueDescription, TopicDescription, SubscriptionDescription)
SHORTEST_WINDOW_S = 5.0
"""Of duplicate detection in Microsoft's emulator; its files may have windows that are too short for the service."""
NOT_SET = frozenset({"name", "topic", "authorization_rules"})
"""Fields of a description that its properties do not contain."""


class ConfigError(Exception):
    """An invalid configuration file; the text says where and why."""


@dataclass(frozen=True, slots=True)
class Subscribed:
    """A subscription, and its rules."""

    description: SubscriptionDescription
    rules: tuple[RuleDescription, ...]


@dataclass(frozen=True, slots=True)
class NamespaceConfig:
    """The entities of one namespace of the file."""

    name: str
    queues: tuple[QueueDescription, ...] = ()
    topics: tuple[TopicDescription, ...] = ()
    subscriptions: tuple[Subscribed, ...] = ()


def read_config(path: Path) -> tuple[NamespaceConfig, ...]:
    """The namespaces of a configuration file. Raises ConfigError."""
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"The configuration {path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise ConfigError(f"The configuration {path} contains no JSON.") from None
    try:
        config = _object(_object(document, "the file").get("UserConfig"), "UserConfig")
        found = tuple(_namespace(entry) for entry in _list(config, "Namespaces", "UserConfig"))
    except DescriptionError as error:
        raise ConfigError(f"The configuration {path} cannot be used: {error}") from None
    if not found:
        raise ConfigError(f"The configuration {path} has no namespace: UserConfig.Namespaces is empty.")
    return found


def _namespace(entry: Any) -> NamespaceConfig:
    name = _name(entry, "a namespace")
    _check_keys(entry, {"Name", "Queues", "Topics"}, name)
    queues = tuple(_queue(queue) for queue in _list(entry, "Queues", name))
    topics = _list(entry, "Topics", name)
    config = NamespaceConfig(
        name,
        queues,
        tuple(_topic(topic) for topic in topics),
        tuple(subscribed for topic in topics for subscribed in _subscriptions(topic)),
    )
    _check_paths(config)
    return config


def _check_paths(config: NamespaceConfig) -> None:
    """Each path once, and messages are forwarded to queues and topics of the file."""
    subscriptions = [subscribed.description for subscribed in config.subscriptions]
    targets = [queue.name.lower() for queue in config.queues] + [topic.name.lower() for topic in config.topics]
    paths = targets + [subscription.path.lower() for subscription in subscriptions]
    for path in paths:
        if paths.count(path) > 1:
            raise DescriptionError(f"{path} is in the file twice.")
    forwarding: list[QueueDescription | SubscriptionDescription] = [*config.queues, *subscriptions]
    for entity in forwarding:
        for target in filter(None, (entity.forward_to, entity.forward_dead_lettered_messages_to)):
            if target.lower() not in targets:
                raise DescriptionError(f"{entity.name} forwards to {target}, which is not in the file.")


def _queue(entry: Any) -> QueueDescription:
    name = _name(entry, "a queue")
    _check_keys(entry, {"Name", "Properties"}, name)
    return _validated(QueueDescription(name, **_properties(entry, QueueDescription, name)), validate_queue)


def _topic(entry: Any) -> TopicDescription:
    name = _name(entry, "a topic")
    _check_keys(entry, {"Name", "Properties", "Subscriptions"}, name)
    return _validated(TopicDescription(name, **_properties(entry, TopicDescription, name)), validate_topic)


def _subscriptions(topic: Json) -> Iterator[Subscribed]:
    for entry in _list(topic, "Subscriptions", topic["Name"]):
        name = _name(entry, f"a subscription of {topic['Name']}")
        where = f"{topic['Name']}/{name}"
        _check_keys(entry, {"Name", "Properties", "Rules"}, where)
        given = _properties(entry, SubscriptionDescription, where)
        description = _validated(SubscriptionDescription(topic["Name"], name, **given), validate_subscription)
        rules = tuple(_rule(rule, where) for rule in _list(entry, "Rules", where))
        yield Subscribed(description, rules or (DEFAULT_RULE,))


def _validated(description: Description, validate: Callable[[Description], None]) -> Description:
    try:
        validate(_as_for_the_service(description))
    except DescriptionError as error:
        raise DescriptionError(f"{description.name}: {error}") from None
    return description


def _as_for_the_service(description: Description) -> Description:
    """The description with the service's shortest window for duplicates, if the one given is allowed in such files."""
    if isinstance(description, SubscriptionDescription):
        return description
    shortest = DUPLICATE_DETECTION_WINDOW_S[0]
    if not SHORTEST_WINDOW_S <= description.duplicate_detection_history_time_window_s < shortest:
        return description
    return replace(description, duplicate_detection_history_time_window_s=shortest)


# --- properties of entities ------------------------------------------------------------------------------------------


def _properties(entry: Json, kind: type[Description], where: str) -> dict[str, Any]:
    """The properties of an entity as fields of its description; left out or empty ones take the default."""
    hints = get_type_hints(kind)
    known = {_service_name(field.name): field.name for field in fields(kind) if field.name not in NOT_SET}
    given = _object(entry.get("Properties") or {}, f"Properties of {where}")
    _check_keys(given, known, f"Properties of {where}")
    return {
        known[name]: _value(value, known[name], hints[known[name]], f"{name} of {where}")
        for name, value in given.items()
        if value not in (None, "")
    }


def _service_name(field_name: str) -> str:
    """`lock_duration_s` is `LockDuration` in the file."""
    return field_name.removesuffix("_s").title().replace("_", "")


def _value(value: Any, field_name: str, hint: Any, where: str) -> Any:
    if hint is bool and isinstance(value, bool):
        return value
    if hint is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if hint is float and isinstance(value, str):
        return parse_duration(value)
    if hint is EntityStatus and value in set(EntityStatus):
        return EntityStatus(value)
    if hint == str | None and isinstance(value, str):
        return strip_host(value).strip("/") if field_name.startswith("forward_") else value
    raise DescriptionError(f"{where} cannot be {json.dumps(value)}.")


# --- rules -----------------------------------------------------------------------------------------------------------


def _rule(entry: Any, where: str) -> RuleDescription:
    name = _name(entry, f"a rule of {where}")
    where = f"the rule {name} of {where}"
    _check_keys(entry, {"Name", "Properties"}, where)
    given = _object(entry.get("Properties") or {}, f"Properties of {where}")
    _check_keys(given, {"FilterType", "SqlFilter", "CorrelationFilter", "Action"}, where)
    rule = RuleDescription(name, _filter(given, where), _action(given, where))
    try:
        compile_rule(rule, 0.0)
    except DescriptionError as error:
        raise DescriptionError(f"{where}: {error}") from None
    return rule


def _filter(given: Json, where: str) -> RuleFilter:
    match given.get("FilterType") or _implied_type(given, where):
        case "Sql":
            return SqlFilter(_expression(given.get("SqlFilter"), f"SqlFilter of {where}"))
        case "Correlation":
            return _correlation(_object(given.get("CorrelationFilter"), f"CorrelationFilter of {where}"), where)
        case "True":
            return TrueFilter()
        case "False":
            return FalseFilter()
        case other:
            raise DescriptionError(f"FilterType of {where} is {json.dumps(other)}: use Sql or Correlation.")


def _implied_type(given: Json, where: str) -> str:
    """The type of a rule that states none: that of the filter it has; one without a filter matches everything."""
    types = [name.removesuffix("Filter") for name in ("SqlFilter", "CorrelationFilter") if given.get(name)]
    if len(types) > 1:
        raise DescriptionError(f"{where} has two filters: FilterType has to say which, Sql or Correlation.")
    return types[0] if types else "True"


def _correlation(given: Json, where: str) -> CorrelationFilter:
    _check_keys(given, {*CORRELATION_PROPERTIES, "Properties"}, f"CorrelationFilter of {where}")
    fixed = {field: given[name] for name, field in CORRELATION_PROPERTIES.items() if given.get(name)}
    properties = _object(given.get("Properties") or {}, f"Properties of the filter of {where}")
    if not all(isinstance(value, str) for value in fixed.values()):
        raise DescriptionError(f"The system properties in the filter of {where} are texts.")
    if not all(isinstance(value, str | int | float | bool) for value in properties.values()):
        raise DescriptionError(f"The properties in the filter of {where} are texts, numbers, true or false.")
    return CorrelationFilter(**fixed, properties=properties)


def _action(given: Json, where: str) -> SqlRuleAction | None:
    if not given.get("Action"):
        return None
    return SqlRuleAction(_expression(given["Action"], f"Action of {where}"))


def _expression(value: Any, where: str) -> str:
    expression = _object(value, where).get("SqlExpression")
    if not isinstance(expression, str) or not expression:
        raise DescriptionError(f"{where} needs a SqlExpression.")
    return expression


# --- JSON ------------------------------------------------------------------------------------------------------------


def _object(value: Any, where: str) -> Json:
    if not isinstance(value, dict):
        raise DescriptionError(f"{where} must be a JSON object.")
    return value


def _list(entry: Json, name: str, where: str) -> Sequence[Any]:
    value = entry.get(name) or []
    if not isinstance(value, list):
        raise DescriptionError(f"{name} of {where} must be a list.")
    return value


def _name(entry: Any, what: str) -> str:
    name = _object(entry, what).get("Name")
    if not isinstance(name, str) or not name:
        raise DescriptionError(f"{what} has no Name.")
    return name


def _check_keys(entry: Json, known: Mapping[str, Any] | set[str], where: str) -> None:
    unknown = [name for name in entry if name not in known]
    if unknown:
        raise DescriptionError(f"{where} has no {unknown[0]}: use {', '.join(sorted(known))}.")
