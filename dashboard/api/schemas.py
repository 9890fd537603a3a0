"""Parts of requests and responses that several rooms share."""

from datetime import datetime
from typing import Annotated

from ninja import Field, Schema

from pairing.events import KINDS

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
