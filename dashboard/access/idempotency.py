"""The identity of a request: what makes the same one sent twice one action, and when it may be tried again."""

import uuid
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction

from dashboard.models import AuditEntry

UNSEEN_END = timedelta(minutes=2)
"""An action whose end nobody saw is not under way any more after so long; each may be done again."""
_REQUESTS = uuid.UUID("6c1f4a52-3d0e-5a8b-9d59-0f4f6f0c7b21")


def following(request_id: str, what: str) -> str:
    """The id of what follows from an action, by its own, which may be any text: 32 hex digits, always the same."""
    return uuid.uuid5(_REQUESTS, f"{request_id} {what}").hex


def admit(entry: AuditEntry) -> AuditEntry | None:
    """Write an action down before it is done; None: it is to be done. Else the entry of the same request before it.

    What failed or was refused may be tried again, and is an entry of its own: its id is another then.
    """
    while True:
        try:
            with transaction.atomic():
                entry.save()
        except IntegrityError:
            known = AuditEntry.objects.get(request_id=entry.request_id)
        else:
            return None
        if not may_be_tried_again(known, entry.at):
            return known
        entry.request_id = _next(known)


def last_try(request_id: str) -> AuditEntry | None:
    """The last entry of a request; None where it is a new one."""
    last, known = None, _entry(request_id)
    while known:
        last, known = known, _entry(_next(known))
    return last


def may_be_tried_again(entry: AuditEntry, now: datetime) -> bool:
    """Whether the same request is a new action: it has failed, or nobody will see its end any more."""
    return entry.outcome in ("failed", "refused") or (not entry.outcome and now - entry.at >= UNSEEN_END)


def _next(entry: AuditEntry) -> str:
    return following(entry.request_id, "again")


def _entry(request_id: str) -> AuditEntry | None:
    return AuditEntry.objects.filter(request_id=request_id).first()
