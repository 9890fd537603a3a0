"""Tokens for programs: created by people for themselves, shown once, looked up by prefix, revocable at any time."""

import hashlib
import re
import secrets
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q

from dashboard.access.audited import ActionError, note
from dashboard.access.declaration import Action, Command
from dashboard.access.rights import Right, require
from dashboard.models import ApiToken

MARK = "pns"
SHAPE = re.compile(rf"{MARK}_([0-9a-f]{{10}})_[\w-]{{43}}", re.ASCII)
LONGEST = timedelta(days=365)
MOST_OF_A_PERSON = 50
USED_TO_THE = timedelta(minutes=1)
RIGHTS = {"read": Right.VIEW, "operate": Right.OPERATE, "administer": Right.ADMINISTER}
"""The right that each scope gives at most."""


def right_of(token: ApiToken) -> Right:
    """The highest right of the token."""
    return RIGHTS[token.scope]


MAKE_TOKEN = Action(
    name="make_token",
    label="Create token",
    undo="Revoke token",
    right=Right.VIEW,
    asks_reason=False,
    command=Command("make-token", "create a token and print it once"),
)
REVOKE_TOKEN = Action(
    name="revoke_token",
    label="Revoke token",
    right=Right.VIEW,
    asks_reason=False,
    command=Command("revoke-token", "revoke a token immediately"),
)
ACTIONS = (MAKE_TOKEN, REVOKE_TOKEN)


def make(owner: User, name: str, scope: str, days: int, now: datetime, *, by: str = "") -> tuple[ApiToken, str]:
    """Create a token; returns it and its text, which is not stored. Raises Refused or ActionError. Audited."""
    lifetime = timedelta(days=days) if 0 < days <= LONGEST.days else timedelta(0)  # others may not fit a timedelta
    row = ApiToken(owner=owner, name=name.strip(), scope=scope, made_at=now, expires_at=now + lifetime)
    require(owner, right_of(row))
    if not row.name or not lifetime:
        raise ActionError(f"Enter a name, and a lifetime of 1 to {LONGEST.days} days.")
    if usable(owner, now) >= MOST_OF_A_PERSON:
        raise ActionError(f"You have {MOST_OF_A_PERSON} tokens. Revoke unused ones first.")
    row.prefix = secrets.token_hex(5)
    text = f"{MARK}_{row.prefix}_{secrets.token_urlsafe(32)}"
    row.digest = _digest(text)
    with transaction.atomic():
        row.save()
        _note(by or owner.username, MAKE_TOKEN, row, f"scope {scope}, until {row.expires_at:%Y-%m-%d %H:%M} UTC", now)
    return row, text


def revoke(row: ApiToken, person: User, now: datetime) -> bool:
    """Revoke a token immediately, as its owner or an administrator. False if it had ended already. Audited."""
    if row.owner_id != person.pk:
        require(person, Right.ADMINISTER)
    with transaction.atomic():
        ended = ApiToken.objects.filter(pk=row.pk, revoked_at__isnull=True)
        if not ended.update(revoked_at=now, revoked_by=person.username):
            return False
        _note(person.username, REVOKE_TOKEN, row, "It is no longer accepted.", now)
    return True


def find(text: str, now: datetime, address: str = "") -> ApiToken | None:
    """The token with this text, if it is valid and its owner may still sign in. Stores when and where it was used."""
    parts = SHAPE.fullmatch(text)
    row = ApiToken.objects.select_related("owner").filter(prefix=parts[1]).first() if parts else None
    if row is None or not secrets.compare_digest(row.digest, _digest(text)):
        return None
    if not row.is_usable(now) or not row.owner.is_active:
        return None
    stale = Q(used_at__isnull=True) | Q(used_at__lt=now - USED_TO_THE)
    ApiToken.objects.filter(stale, pk=row.pk).update(used_at=now, used_from=address or None)
    return row


def usable(owner: User, now: datetime) -> int:
    """The number of a person's valid tokens."""
    return ApiToken.objects.filter(owner=owner, revoked_at__isnull=True, expires_at__gt=now).count()


def _digest(text: str) -> str:
    """A plain digest is enough: 256 random bits cannot be guessed."""
    return hashlib.sha256(text.encode()).hexdigest()


def _note(person: str, action: Action, row: ApiToken, detail: str, now: datetime) -> None:
    note(person, "*", action.name, f"{row.name} ({row.prefix}) of {row.owner.username}", detail, now)
