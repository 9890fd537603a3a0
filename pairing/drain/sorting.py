"""Sorts the messages of one receive: restored messages by destination, and those that cannot be restored. Pure."""

from collections import defaultdict
from datetime import datetime, timedelta
from typing import Any

from pairing.drain.backlog_queue import Item
from pairing.drain.ledger import Fate
from pairing.events import EXPIRED
from pairing.health.faults import describe
from pairing.messages.property_types import CannotEncodeError
from pairing.messages.rewriting import PoisonedMessage, restore
from pairing.messages.undecodable import Undecoded

Refused = tuple[Item, Fate, str]
Sorted = tuple[list[Item], list[Refused]]
"""The messages as they were sent; and those that cannot be restored, with their fate and the reason."""


def sort(received: list[Any], *, fetched: bool, now: datetime | None) -> Sorted:
    """Restores each message; ``now`` is given only if the time in the backlog counts against the time-to-live."""
    items, refused = list[Item](), list[Refused]()
    for message in received:
        found = _restored(message, fetched)
        if isinstance(found, Item):
            late = "" if now is None else _expired(found, now)
            refused.append((found, "expired", late)) if late else items.append(found)
        else:
            refused.append((Item(message, message.sequence_number, "", None, fetched=fetched), *found))
    return items, refused


def _restored(message: Any, fetched: bool) -> Item | tuple[Fate, str]:
    if isinstance(message, Undecoded):
        return "set_aside", "the SDK cannot decode it"
    try:
        path, restored = restore(message)
    except PoisonedMessage as error:
        return "dead_lettered", str(error)
    except CannotEncodeError as error:
        return "set_aside", str(error)
    except Exception as error:  # no message may stop its whole queue
        return "set_aside", f"it cannot be restored ({describe(error)})"
    return Item(message, message.sequence_number, path, restored, fetched=fetched)


def _expired(item: Item, now: datetime) -> str:
    """Reduce the time-to-live by the time in the backlog; returns a reason if nothing is left."""
    lives = item.message.time_to_live
    if lives is None:
        return ""
    waited = max(now - item.received.enqueued_time_utc, timedelta(0))
    if lives - waited < timedelta(seconds=1):
        return f"{EXPIRED}{lives} was over after {waited} in the backlog"
    item.message.time_to_live = lives - waited
    return ""


def groups(items: list[Item]) -> list[tuple[str, list[Item]]]:
    """The messages by destination and session, in the order in which each comes first.

    One batch holds one session: sessions and partitions of an entity do not mix in a batch.
    """
    found: defaultdict[tuple[str, Any], list[Item]] = defaultdict(list)
    for item in items:
        found[item.path, item.message.session_id or item.message.partition_key].append(item)
    return [(path, group) for (path, _), group in found.items()]


def path_of(message: Any) -> str:
    """The destination of a message from the backlog; empty if it has none."""
    value = (message.application_properties or {}).get(b"x-ms-path", b"")
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
