"""Why a message was stored twice: the only reasons at which delivery is documented to be at least once."""

from collections.abc import Sequence
from itertools import pairwise

from tests.campaign.evidence import Attempt, Receipt, Window
from tests.campaign.plan import DETECTS_DUPLICATES
from tests.campaign.schedule import GATEWAYS

SLACK_S = 1.5
"""Between the clock of a namespace and the moments of the journals, and for what is on its way."""
UNSETTLED_S = 30.0
"""For so long after a copy was stored in the primary, its original may be unsettled in the backlog."""
HISTORY_S = 600.0
"""The default window of duplicate detection: a copy that is drained from the backlog later than that is stored."""
LOSE_ANSWERS = ("kill", "fault", "detach", "network", "deploy", "disk", "clock")
"""Disturbances by which an answer is lost that was on its way. A freeze of a drain is not among them: it may lose only
what was on its way when it began."""


def reason(sent: Sequence[Attempt], copies: Sequence[Receipt], inbox: str, windows: Sequence[Window]) -> str | None:
    """Why there is more than one copy; None if there is no reason that the documentation gives."""
    if inbox == DETECTS_DUPLICATES and any(
        after.enqueued - before.enqueued < HISTORY_S for before, after in pairwise(copies)
    ):
        return None
    if len(sent) > 1:
        return "the application sent it again"
    if sent[0].outcome != "accepted":
        return "the application does not know its outcome"
    attempt = sent[0]
    if any(_touches(one, attempt.began, attempt.ended) for one in windows if _concerns_send(one, attempt)):
        return "an answer to the sender may have been lost"
    for before, after in pairwise(copies):
        if not any(_concerns_drain(one, before, after) for one in windows):
            return None
    return "an answer to the drain may have been lost"


def _touches(window: Window, began: float, ended: float) -> bool:
    return window.began - SLACK_S <= ended and window.ended + SLACK_S >= began


def _concerns_send(window: Window, attempt: Attempt) -> bool:
    if window.what == "network":
        return window.target.startswith("senders-")
    if window.what == "freeze":
        return window.target in ("primary", "secondary", *GATEWAYS, attempt.process)
    return window.target in ("primary", "secondary", *GATEWAYS) and window.what in LOSE_ANSWERS


def _concerns_drain(window: Window, before: Receipt, after: Receipt) -> bool:
    """Whether it may have kept the first copy from being settled in the backlog, so that it was sent again."""
    if not _touches(window, before.enqueued, min(before.enqueued + UNSETTLED_S, after.enqueued)):
        return False
    if window.what == "freeze":
        is_of_drain = window.target.startswith(("worker-", "drainer-"))
        is_cause = window.began - SLACK_S <= before.enqueued + UNSETTLED_S and before.enqueued <= window.began + SLACK_S
        return is_cause if is_of_drain else window.target in ("primary", "secondary", "redis")
    if window.what == "network":
        return not window.target.startswith("senders-")
    if window.what in ("operate", "outage"):  # what an entity does not answer, it has not stored
        return False
    return not window.target.startswith(("sender-", "receiver-"))
