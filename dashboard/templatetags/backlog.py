"""Template filters of the backlog pages: labels of counts and values of properties."""

from datetime import timedelta
from typing import Any

from django import template

from pairing.backlog.administration import is_forever

register = template.Library()
LABELS = {
    "active": "active",
    "scheduled": "scheduled",
    "dead_lettered": "dead-lettered",
    "transfer": "in transfer",
    "transfer_dead_lettered": "dead-lettered in transfer",
}


@register.filter
def count_label(name: str) -> str:
    """The label of a message count."""
    return LABELS.get(name, name.replace("_", " "))


@register.filter(name="property")
def shown_property(value: Any) -> str:
    """A property of a queue, formatted for people."""
    if isinstance(value, timedelta | str) and is_forever(value):
        return "unlimited"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int) else str(value)
