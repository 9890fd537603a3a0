"""Rules as XML: typed filters, actions and parameters."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import assert_never
from xml.etree.ElementTree import Element

from emulator.administration import atom
from emulator.administration.documents import read_boolean, wrap
from emulator.administration.durations import format_duration, format_time, parse_duration
from emulator.broker.descriptions import DescriptionError, RuleDescription
from emulator.broker.filters import (
    COMPATIBILITY_LEVEL,
    CorrelationFilter,
    FalseFilter,
    PropertyValue,
    RuleFilter,
    SqlFilter,
    SqlRuleAction,
    TrueFilter,
)

_INT32 = range(-(2**31), 2**31)
_INT64 = range(-(2**63), 2**63)

CORRELATION_PROPERTIES = {
    "CorrelationId": "correlation_id",
    "MessageId": "message_id",
    "To": "to",
    "ReplyTo": "reply_to",
    "Label": "label",
    "SessionId": "session_id",
    "ReplyToSessionId": "reply_to_session_id",
    "ContentType": "content_type",
}


def read_rule(element: Element, name: str) -> RuleDescription:
    """Return the rule an element describes; without a filter it matches every message. Raises DescriptionError."""
    rule_filter, action = _child(element, "Filter"), _child(element, "Action")
    return RuleDescription(
        name=name,
        filter=TrueFilter() if rule_filter is None else _read_filter(rule_filter),
        action=None if action is None else _read_action(action),
    )


def write_rule(rule: RuleDescription, created_at: float) -> str:
    """Return the rule's XML; `created_at` in seconds since the epoch."""
    created = f"<CreatedAt>{format_time(created_at)}</CreatedAt>"
    name = atom.element("Name", rule.name)
    return wrap("RuleDescription", _write_filter(rule.filter) + _write_action(rule.action) + created + name)


def _read_filter(element: Element) -> RuleFilter:
    match _type_of(element):
        case "TrueFilter":
            return TrueFilter()
        case "FalseFilter":
            return FalseFilter()
        case "SqlFilter":
            return SqlFilter(_text(element, "SqlExpression") or "", _values(element, "Parameters"))
        case "CorrelationFilter":
            given = {field: _text(element, name) for name, field in CORRELATION_PROPERTIES.items()}
            return CorrelationFilter(**given, properties=_values(element, "Properties"))
        case other:
            raise DescriptionError(f"{other!r} is not a kind of filter.")


def _read_action(element: Element) -> SqlRuleAction | None:
    match _type_of(element):
        case "EmptyRuleAction":
            return None
        case "SqlRuleAction":
            return SqlRuleAction(_text(element, "SqlExpression") or "", _values(element, "Parameters"))
        case other:
            raise DescriptionError(f"{other!r} is not a kind of action.")


def _write_filter(rule_filter: RuleFilter) -> str:
    match rule_filter:
        case TrueFilter():
            return _sql("Filter", "TrueFilter", "1=1", {})
        case FalseFilter():
            return _sql("Filter", "FalseFilter", "1=0", {})
        case SqlFilter(expression, parameters):
            return _sql("Filter", "SqlFilter", expression, parameters)
        case CorrelationFilter():
            return f'<Filter i:type="CorrelationFilter">{_correlation(rule_filter)}</Filter>'
        case _:
            assert_never(rule_filter)


def _write_action(action: SqlRuleAction | None) -> str:
    if action is None:
        return '<Action i:type="EmptyRuleAction"/>'
    return _sql("Action", "SqlRuleAction", action.expression, action.parameters)


def _sql(element: str, kind: str, expression: str, parameters: Mapping[str, PropertyValue]) -> str:
    level = f"<CompatibilityLevel>{COMPATIBILITY_LEVEL}</CompatibilityLevel>"
    given = _write_values("Parameters", parameters) if parameters else ""
    return f'<{element} i:type="{kind}">{atom.element("SqlExpression", expression)}{level}{given}</{element}>'


def _correlation(given: CorrelationFilter) -> str:
    known = ((name, getattr(given, field)) for name, field in CORRELATION_PROPERTIES.items())
    texts = "".join(atom.element(name, value) for name, value in known if value is not None)
    return texts + (_write_values("Properties", given.properties) if given.properties else "")


def _values(parent: Element, name: str) -> dict[str, PropertyValue]:
    """The typed pairs below `name`: filter properties or parameters."""
    values: dict[str, PropertyValue] = {}
    for pair in _child(parent, name) or ():
        key, value = _text(pair, "Key"), _child(pair, "Value")
        if not key or value is None:
            raise DescriptionError(f"Each of the {name} needs a key and a value.")
        values[key] = _read_value(key, _type_of(value), value.text or "")
    return values


def _read_value(key: str, kind: str, text: str) -> PropertyValue:
    reader = _READERS.get(kind)
    if reader is None:
        raise DescriptionError(f"The type {kind!r} of {key!r} is not supported.")
    try:
        return reader(text)
    except (ValueError, OverflowError, binascii.Error):
        raise DescriptionError(f"The value of {key!r} is not of the type {kind!r}.") from None


def _read_int(limits: range) -> Callable[[str], int]:
    def read(text: str) -> int:
        value = int(text)
        if value not in limits:
            raise ValueError
        return value

    return read


_READERS: Mapping[str, Callable[[str], PropertyValue]] = {
    "string": str,
    "int": _read_int(_INT32),
    "short": _read_int(_INT32),
    "long": _read_int(_INT64),
    "boolean": read_boolean,
    "double": float,
    "float": float,
    "decimal": float,
    "dateTime": datetime.fromisoformat,
    "duration": lambda text: timedelta(seconds=parse_duration(text)),
    "base64Binary": lambda text: base64.b64decode(text, validate=True),
}


def _write_values(name: str, values: Mapping[str, PropertyValue]) -> str:
    pairs = "".join(
        f"<KeyValueOfstringanyType>{atom.element('Key', key)}{_write_value(value)}</KeyValueOfstringanyType>"
        for key, value in values.items()
    )
    return f"<{name}>{pairs}</{name}>"


def _write_value(value: PropertyValue) -> str:
    kind, written = _typed(value)
    return f'<Value i:type="d6p1:{kind}" xmlns:d6p1="{atom.SCHEMA}">{atom.text(written)}</Value>'


def _typed(value: PropertyValue) -> tuple[str, str]:
    match value:
        case bool():
            return "boolean", "true" if value else "false"
        case int():
            return "int" if value in _INT32 else "long", str(value)
        case float():
            return "double", repr(value)
        case datetime():
            return "dateTime", _format_datetime(value)
        case timedelta():
            return "duration", format_duration(value.total_seconds())
        case bytes():
            return "base64Binary", base64.b64encode(value).decode()
        case None:
            return "string", ""
        case str():
            return "string", value
        case _:
            assert_never(value)


def _format_datetime(value: datetime) -> str:
    """The time as it was given: one without an offset stays without."""
    if value.tzinfo is None:
        return value.isoformat()
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _child(element: Element, name: str) -> Element | None:
    return element.find(f"{{{atom.SERVICE_BUS}}}{name}")


def _text(element: Element, name: str) -> str | None:
    child = _child(element, name)
    return None if child is None else child.text or ""


def _type_of(element: Element) -> str:
    """The local part of `xsi:type`."""
    return element.get(f"{{{atom.INSTANCE}}}type", "").rpartition(":")[2]
