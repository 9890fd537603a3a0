"""The messages of one entity during an incident, as metered: how many went to the backlog, and how many came back."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dashboard.fleet import metered
from dashboard.incidents.folding import Incident

MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Moved:
    """Messages from the failover to the end, in whole minutes. A backlog queue's ledger is of all entities together."""

    to_backlog: int
    to_primary: int

    def as_json(self) -> dict[str, Any]:
        """For the API and the file."""
        return {"to_backlog": self.to_backlog, "to_primary": self.to_primary}


def moved(incident: Incident, now: datetime) -> Moved | None:
    """The messages of the incident's entity; None if nothing was metered."""
    since = incident.failed_over_at.replace(second=0, microsecond=0)
    until = incident.ended_at(now).replace(second=0, microsecond=0) + MINUTE
    which = {"pair": incident.pair, "entity": incident.entity, "kind__in": ("send_backlog", "syphon_send")}
    rows = metered.since(since, until, **which)
    if not rows:
        return None
    counts = Counter[str]()
    for row in rows:
        counts[row["kind"]] += row["messages"]
    return Moved(counts["send_backlog"], counts["syphon_send"])
