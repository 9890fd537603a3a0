"""Parts of requests and responses that several rooms share."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any

from ninja import Field, Schema

from pairing.events import KINDS
from pairing.fleet.shared_health import Pace

EventKind = Annotated[str, Field(description=f"One of {', '.join(KINDS)}.")]


class Pause(Schema):
    """A pause of the syphon: for one backlog queue, or (`*`) for the whole pair."""

    queue: str
    by: str
    reason: str
    at: datetime


class PaceLimit(Schema):
    """A limit of the drain rate: of the pair (`*`), of a queue, or for an entity."""

    target: str
    messages_per_s: float
    by: str
    reason: str
    at: datetime


def pace_limits(paces: Iterable[tuple[str, Pace]]) -> list[dict[str, Any]]:
    """The values of `PaceLimit` by target."""
    return [
        {"target": target, "messages_per_s": pace.rate, "by": pace.by, "reason": pace.reason, "at": pace.at}
        for target, pace in paces
    ]
