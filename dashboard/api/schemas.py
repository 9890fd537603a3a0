"""Parts of requests and answers that the operations of several rooms share."""

from datetime import datetime
from typing import Annotated

from ninja import Field, Schema

from pairing.events import KINDS

EventKind = Annotated[str, Field(description=f"One of {', '.join(KINDS)}.")]


class Pause(Schema):
    """A syphon that stands still: of one backlog queue, or (`*`) of the whole pair."""

    queue: str
    by: str
    reason: str
    at: datetime


class PaceLimit(Schema):
    """How fast the syphon may bring messages home: of the pair (`*`), of a queue, or to an entity."""

    target: str
    messages_per_s: float
    by: str
    reason: str
    at: datetime
