"""The audited path of every action: permission check, audit entry, and idempotency of repeated requests.

The audit entry is committed before the action, and completed after it with its outcome, in one transaction with the
event and the projection: a power failure in between leaves an entry without an outcome, never an action without an
entry.
"""

import uuid
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import transaction
from django.utils import timezone

from dashboard.access.idempotency import admit
from dashboard.access.rights import Refused, Right, require
from dashboard.access.visibility import EVERYWHERE, require_visible
from dashboard.models import AuditEntry, Pair
from dashboard.site.redis import RedisError, announce_change

Person = AbstractBaseUser | AnonymousUser
REDIS_AWAY = "Redis does not answer, so the fleet cannot be notified. Nothing was changed; try again when it is back."
STILL_RUNNING = "This request was sent twice, and the first one is still in progress. Check again in a moment."


class ActionError(Exception):
    """The action could not be carried out. The text is a sentence with the reason; nothing was changed."""


ALL_PAIRS = Pair(name=EVERYWHERE)
"""The pair of a request that concerns no single pair. It is not stored."""


@dataclass(frozen=True, slots=True)
class Request:
    """Who requests what, why and when. Requests with the same `request_id` are one action; `via`: the client."""

    user: Person
    pair: Pair = ALL_PAIRS
    target: str = "*"
    reason: str = ""
    request_id: str = ""
    via: str = ""
    at: datetime = field(default_factory=timezone.now)

    @classmethod
    def sent(cls, user: Person, pair: Pair, target: str, given: Mapping[str, Any]) -> Self:
        """The request of a form with a reason; `request_id` is that of its page."""
        return cls(user, pair, target, given["reason"], given["request_id"].hex if given["request_id"] else "")

    @property
    def operator(self) -> str:
        return self.user.get_username()

    @property
    def errand(self) -> dict[str, Any]:
        """The columns of a row by which a worker carries the action out."""
        return {
            "pair": self.pair,
            "path": self.target,
            "by": self.operator,
            "reason": self.reason,
            "at": timezone.now(),
            "request_id": self.request_id or uuid.uuid4().hex,
        }

    def entry(self, name: str) -> AuditEntry:
        """The entry of the action with this name in the audit trail, without an outcome."""
        return AuditEntry(
            request_id=self.request_id or uuid.uuid4().hex,
            at=self.at,
            operator=self.operator,
            via=self.via,
            verb=name,
            pair=self.pair.name,
            target=self.target,
            reason=self.reason,
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an action: `done` or `unchanged` (the state was as requested already), and a sentence for the
    person.
    """

    outcome: str
    sentence: str


def done(sentence: str) -> Outcome:
    """The action has changed something."""
    return Outcome("done", sentence)


def unchanged(sentence: str) -> Outcome:
    """The state was as requested already."""
    return Outcome("unchanged", sentence)


def carry_out(
    entry: AuditEntry,
    user: Person,
    run: Callable[[], Outcome],
    *,
    right: Right,
    atomic: bool = True,
    is_limited: bool = False,
) -> Outcome:
    """Store the entry, run the action, store its outcome. Raises Refused and ActionError.

    `is_limited`: the action itself changes only what the person sees.
    """
    if known := admit(entry):
        return earlier(known)
    try:
        require(user, right)
        if not is_limited:
            require_visible(entry.pair)
        with transaction.atomic() if atomic else nullcontext():
            result = run()
            AuditEntry.complete(entry.request_id, result.outcome, result.sentence)
    except Refused as refusal:
        AuditEntry.complete(entry.request_id, "refused", str(refusal))
        raise
    except RedisError as error:
        AuditEntry.complete(entry.request_id, "failed", REDIS_AWAY)
        raise ActionError(REDIS_AWAY) from error
    except ActionError as error:
        AuditEntry.complete(entry.request_id, "failed", str(error))
        raise
    announce_change()
    return result


def earlier(entry: AuditEntry) -> Outcome:
    """The answer to a request that was sent twice, by the entry of the first."""
    if not entry.outcome:
        raise ActionError(STILL_RUNNING)
    return unchanged(entry.detail)
