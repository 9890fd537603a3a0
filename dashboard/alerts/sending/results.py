"""The state of a message and its channel after an attempt. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from dashboard.alerts.sending.transport import Answer

FIRST, LONGEST = timedelta(seconds=5), timedelta(minutes=15)
PATIENCE = timedelta(hours=24)
GONE = 410

Fare = Literal["well", "as before", "failing", "disabled"]


@dataclass(frozen=True, slots=True)
class Result:
    """The new `state` of the message, `due_at` of the next attempt, and the `fare` of the channel."""

    state: str
    fare: Fare
    due_at: datetime | None = None


def judge(answer: Answer, attempts: int, due_since: datetime, now: datetime) -> Result:
    """The result after this many attempts, including this one, for a message first due at `due_since`.

    A permanent error ends the message and marks the channel as failing; gone (410) disables the channel. Other errors
    are retried with increasing delays for a day.
    """
    if not answer.problem:
        return Result("sent", "well")
    if answer.status == GONE:
        return Result("given_up", "disabled")
    if answer.is_permanent or now - due_since >= PATIENCE:
        return Result("given_up", "failing")
    return Result("waiting", "failing" if attempts >= 3 else "as before", now + backoff(attempts, answer.retry_after_s))


def backoff(attempts: int, asked_s: float | None = None) -> timedelta:
    """The delay after this many attempts: doubled each time, and at least the delay that the server requests."""
    doubled = min(LONGEST, FIRST * float(2 ** min(attempts - 1, 20)))
    return max(doubled, timedelta(seconds=asked_s or 0))
