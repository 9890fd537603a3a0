"""Template tags of the backlog pages: names, values of properties and bits of messages."""

from datetime import timedelta
from typing import Any

from django import template

from pairing.backlog.administration import is_forever

register = template.Library()
WORDS = {
    "active": "active",
    "scheduled": "scheduled",
    "dead_lettered": "dead-lettered",
    "transfer": "in transfer",
    "transfer_dead_lettered": "dead-lettered in transfer",
}


@register.filter
def words(name: str) -> str:
    """The words for a count."""
    return WORDS.get(name, name.replace("_", " "))


@register.filter(name="property")
def shown_property(value: Any) -> str:
    """A property of a queue as people write it."""
    if isinstance(value, timedelta | str) and is_forever(value):
        return "for ever"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int) else str(value)
