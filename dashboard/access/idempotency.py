"""The identity of a request: repeated requests with one id are one action, and failed ones can be tried again."""

import uuid
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction

from dashboard.models import AuditEntry

UNSEEN_END = timedelta(minutes=2)
"""After this time, an action without an outcome is no longer considered to be in progress and may be repeated."""
_REQUESTS = uuid.UUID("6c1f4a52-3d0e-5a8b-9d59-0f4f6f0c7b21")


def following(request_id: str, what: str) -> str:
    """The id of a follow-up action, derived from the action's id, which may be any text; 32 hex digits."""
    return uuid.uuid5(_REQUESTS, f"{request_id} {what}").hex


def admit(entry: AuditEntry) -> AuditEntry | None:
    """Store an action before it is carried out; None if it is new. Otherwise the earlier entry of the same request.

    A failed or refused request may be tried again; it then gets a new entry with its own id.
    """
    while True:
        try:
            with transaction.atomic():
                entry.save()
        except IntegrityError:
            known = AuditEntry._base_manager.get(request_id=entry.request_id)
        else:
            return None
        if not may_be_tried_again(known, entry.at):
            return known
        entry.request_id = _next(known)


def last_try(request_id: str) -> AuditEntry | None:
    """The last entry of a request; None if the request is new."""
    last, known = None, _entry(request_id)
    while known:
        last, known = known, _entry(_next(known))
    return last


def may_be_tried_again(entry: AuditEntry, now: datetime) -> bool:
    """Whether the same request counts as a new action: it has failed, or can no longer be in progress."""
    return entry.outcome in ("failed", "refused") or (not entry.outcome and now - entry.at >= UNSEEN_END)


def _next(entry: AuditEntry) -> str:
    return following(entry.request_id, "again")


def _entry(request_id: str) -> AuditEntry | None:
    return AuditEntry._base_manager.filter(request_id=request_id).first()
