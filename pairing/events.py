"""Events of a pair, each reported once: the same record for callbacks, Redis and the database."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from pairing.stored_json import Stored

Tone = Literal["healthy", "draining", "held", "failing", "failed-over", "unknown"]


class EventKind(NamedTuple):
    """A kind of event, as pages, the API and the docs show it."""

    label: str
    meaning: str
    """What it reports, for the docs."""
    tone: Tone
    """The state of an entity whose colour and shape its label has."""
    outage: Literal["begins", "ends"] | None = None
    """Its effect on the outage of its entity."""
    is_of_entity: bool = False
    """Whether it is about an entity, and not about a backlog queue or the pair."""
    is_repeated: bool = False
    """Whether processes report it again after an operator's action."""


KINDS: Mapping[str, EventKind] = {
    "failing": EventKind(
        "Failing", "a send to the entity failed with a qualifying error", "failing", is_of_entity=True
    ),
    "failed_over": EventKind(
        "Failed over", "no send succeeded for a failover interval", "failed-over", outage="begins", is_of_entity=True
    ),
    "recovered": EventKind(
        "Recovered",
        "the entity is healthy again: by a success, an accepted ping, or manually",
        "healthy",
        outage="ends",
        is_of_entity=True,
    ),
    "forced": EventKind(
        "Failover forced", "an operator forced a failover", "failed-over", outage="begins", is_of_entity=True
    ),
    "held": EventKind("Held", "an operator holds the failover: no ping ends it", "held", is_of_entity=True),
    "released": EventKind("Released", "an operator released a hold", "draining", is_of_entity=True),
    "queue_pulled": EventKind("Backlog queue pulled", "a client no longer uses a backlog queue", "failing"),
    "queue_returned": EventKind("Backlog queue returned", "a client uses the backlog queue again", "healthy"),
    "dead_lettered": EventKind("Dead-lettered", "the syphon dead-lettered a message, with the reason", "failing"),
    "set_aside": EventKind(
        "Set aside",
        'a message cannot be decoded, or not encoded again; or a queue "receives nothing, N waiting"',
        "failing",
    ),
    "syphon_started": EventKind("Syphon started", "a worker started draining a queue", "draining"),
    "syphon_paused": EventKind(
        "Syphon paused", "an operator paused the syphon of a queue, or of the pair", "held", is_repeated=True
    ),
    "syphon_resumed": EventKind(
        "Syphon resumed", "an operator ended a pause of the syphon", "draining", is_repeated=True
    ),
    "syphon_stopped": EventKind("Syphon stopped", "a worker stopped draining a queue", "unknown"),
    "capacity_warning": EventKind(
        "Backlog filling up", "a backlog queue is 80 % full, or will be full within 30 min", "failing"
    ),
    "order_at_risk": EventKind(
        "Order at risk",
        "with `preserve_session_order`: messages of a session may arrive out of order, and why",
        "failing",
        is_of_entity=True,
    ),
    "out_of_resources": EventKind(
        "Out of resources",
        "a process has no file descriptor, memory or thread left to open a link; no entity is at fault",
        "failing",
    ),
    "coordination_refused": EventKind(
        "Coordination refused",
        "Redis refuses a client, or was never reached by it: the process decides alone",
        "failing",
    ),
    "ledger_unbalanced": EventKind(
        "Ledger unbalanced",
        "a backlog queue was drained, and its ledger does not account for all messages",
        "failed-over",
    ),
}
"""Every kind of event, by the name that is stored; at most 20 letters and underscores."""


@dataclass(frozen=True, slots=True)
class Event(Stored):
    """One event. ``id`` stays the same however often the event is delivered."""

    id: str
    """32 hex digits (UUID4)."""
    time: datetime
    """The time, aware and UTC."""
    pair: str
    entity: str
    """The path of the entity, or of the backlog queue that it is about; ``*`` for neither."""
    kind: str
    """One of ``KINDS``."""
    reason: str
    """Why, for an operator; it never contains a credential."""
    process: str
    """Who saw it: ``<host>:<pid>:<8 hex digits>``."""
    operator: str | None = None
    """The person who did it, where one did."""


_COUNTED = re.compile(r"(\d+) messages? in ")
EXPIRED = "its time-to-live of "
"""How a reason begins if a message expired in the backlog."""


def counted(count: int, queue: str, reason: str) -> str:
    """The reason of an event about messages that a syphon took out of a backlog queue: how many, where, and why."""
    return f"{count} message{'s' if count > 1 else ''} in {queue}: {reason}"


def count_in(reason: str) -> int:
    """The number of messages in a reason that ``counted`` wrote; 0 in any other."""
    found = _COUNTED.match(reason)
    return int(found.group(1)) if found else 0


def is_expiry(reason: str) -> bool:
    """Whether the messages of a reason that ``counted`` wrote had expired in the backlog."""
    return bool(_COUNTED.match(reason)) and f": {EXPIRED}" in reason
