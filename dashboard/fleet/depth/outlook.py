"""What an outage of a pair would bring: the messages that are expected, and how long its backlog has room for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dashboard.fleet.usage.metered import NOTHING_SENT, Sent, sent_by_pair
from dashboard.fleet.usage.rates import Expected
from dashboard.models import Pair


@dataclass(frozen=True, slots=True)
class Outlook:
    """The traffic of a pair for the next hour, and the time until its backlog is full if all of it goes there.

    `full_in` is None if the traffic, the size of its messages or the room is unknown. `room`: the messages that fit
    into the backlog; 0 if that is unknown.
    """

    expected: Expected | None
    full_in: timedelta | None
    room: float = 0

    def as_json(self) -> dict[str, Any]:
        """For the API."""
        if self.expected is None:
            return {"messages_per_hour": None, "low": None, "high": None, "basis": None, "full_in_s": None}
        return {
            "messages_per_hour": round(self.expected.per_hour),
            "low": round(self.expected.low),
            "high": round(self.expected.high),
            "basis": self.expected.words,
            "full_in_s": self.full_in.total_seconds() if self.full_in else None,
        }


def outlook(sent: Sent, room_bytes: int, now: datetime) -> Outlook:
    """The outlook of a pair whose backlog has so much room."""
    room = room_bytes / sent.message_bytes if sent.message_bytes else 0
    return Outlook(sent.traffic.expected(now), sent.traffic.lasts(room, now) if room else None, room)


def outlooks(pairs: Iterable[Pair], now: datetime) -> Mapping[int, Outlook]:
    """The outlooks of `watched_pairs` by key, in two queries."""
    found = sent_by_pair(now)
    return {pair.pk: outlook(found.get(pair.name, NOTHING_SENT), vars(pair)["room"] or 0, now) for pair in pairs}
