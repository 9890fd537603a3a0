"""What happened to a pair, reported once: the same record for callbacks, Redis and the database."""

import json
from dataclasses import asdict, dataclass
from datetime import datetime

from pairing.stored_json import moment, reading, record, text, text_or_none

KINDS = frozenset(
    {
        "failing",
        "failed_over",
        "recovered",
        "forced",
        "held",
        "released",
        "queue_pulled",
        "queue_returned",
        "dead_lettered",
        "set_aside",
        "syphon_started",
        "syphon_paused",
        "syphon_resumed",
        "syphon_stopped",
        "capacity_warning",
        "order_at_risk",
        "ledger_unbalanced",
    }
)
"""Every kind of event there is."""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened. ``id`` stays the same however often the event is delivered."""

    id: str
    """32 hex digits (UUID4)."""
    time: datetime
    """When, aware and UTC."""
    pair: str
    entity: str
    """The entity's path; a backlog queue's for what concerns that queue; ``*`` where there is none."""
    kind: str
    """One of ``KINDS``."""
    reason: str
    """Why, for an operator; it never contains a credential."""
    process: str
    """Who saw it: ``<host>:<pid>:<8 hex digits>``."""
    operator: str | None = None
    """The person who did it, where one did."""

    def to_json(self) -> str:
        """The event as one line of JSON."""
        return json.dumps(asdict(self) | {"time": self.time.isoformat()})

    @classmethod
    def from_json(cls, written: str | bytes) -> "Event":
        """The event that ``to_json`` wrote; ValueError where the text is none."""
        with reading("an event"):
            fields = record(written)
            known = {name: text(fields, name) for name in ("id", "pair", "entity", "kind", "reason", "process")}
            return cls(time=moment(fields, "time"), operator=text_or_none(fields, "operator"), **known)
