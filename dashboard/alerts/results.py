"""What becomes of a message and its channel after an attempt. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from dashboard.alerts.transport import Answer

FIRST, LONGEST = timedelta(seconds=5), timedelta(minutes=15)
PATIENCE = timedelta(hours=24)
GONE = 410

Fare = Literal["well", "as before", "failing", "disabled"]


@dataclass(frozen=True, slots=True)
class Result:
    """`state` of the message from now on; `due_at` where it is tried again. `fare` of the channel."""

    state: str
    fare: Fare
    due_at: datetime | None = None


def judge(answer: Answer, attempts: int, due_since: datetime, now: datetime) -> Result:
    """After so many attempts, this one included, for a message that was first due at `due_since`.

    Refused for good: given up, and the channel is failing; gone (410): the channel is not used any more. All else is
    tried again, later and later, for a day.
    """
    if not answer.problem:
        return Result("sent", "well")
    if answer.status == GONE:
        return Result("given_up", "disabled")
    if answer.is_permanent or now - due_since >= PATIENCE:
        return Result("given_up", "failing")
    return Result("waiting", "failing" if attempts >= 3 else "as before", now + backoff(attempts, answer.retry_after_s))


def backoff(attempts: int, asked_s: float | None = None) -> timedelta:
    """How long to wait after so many attempts: doubled each time, and at least what the other side asks for."""
    doubled = min(LONGEST, FIRST * float(2 ** min(attempts - 1, 20)))
    return max(doubled, timedelta(seconds=asked_s or 0))
