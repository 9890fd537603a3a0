"""Tokens for programs: made by a person for themselves, shown once, found by their prefix, ended at any time."""

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
"""The most that a token of each scope gives."""


def right_of(token: ApiToken) -> Right:
    """The most it gives."""
    return RIGHTS[token.scope]


MAKE_TOKEN = Action(
    name="make_token",
    label="Make token",
    undo="Revoke token",
    right=Right.VIEW,
    asks_reason=False,
    command=Command("make-token", "make a token and print it, once"),
)
REVOKE_TOKEN = Action(
    name="revoke_token",
    label="Revoke token",
    right=Right.VIEW,
    asks_reason=False,
    command=Command("revoke-token", "end a token at once"),
)
ACTIONS = (MAKE_TOKEN, REVOKE_TOKEN)


def make(owner: User, name: str, scope: str, days: int, now: datetime, *, by: str = "") -> tuple[ApiToken, str]:
    """A new token and its text, which nobody can find out again. Raises Refused or ActionError. Audited."""
    row = ApiToken(owner=owner, name=name.strip(), scope=scope, made_at=now, expires_at=now + timedelta(days=days))
    require(owner, right_of(row))
    if not row.name or not timedelta(0) < timedelta(days=days) <= LONGEST:
        raise ActionError(f"Give the token a name, and 1 to {LONGEST.days} days to live.")
    if usable(owner, now) >= MOST_OF_A_PERSON:
        raise ActionError(f"You have {MOST_OF_A_PERSON} tokens. Revoke those that nothing uses any more first.")
    row.prefix = secrets.token_hex(5)
    text = f"{MARK}_{row.prefix}_{secrets.token_urlsafe(32)}"
    row.digest = _digest(text)
    with transaction.atomic():
        row.save()
        _note(by or owner.username, MAKE_TOKEN, row, f"scope {scope}, until {row.expires_at:%Y-%m-%d %H:%M} UTC", now)
    return row, text


def revoke(row: ApiToken, person: User, now: datetime) -> bool:
    """End a token at once: its owner, or an administrator. False where it had ended already. Audited."""
    if row.owner_id != person.pk:
        require(person, Right.ADMINISTER)
    with transaction.atomic():
        ended = ApiToken.objects.filter(pk=row.pk, revoked_at__isnull=True)
        if not ended.update(revoked_at=now, revoked_by=person.username):
            return False
        _note(person.username, REVOKE_TOKEN, row, "It opens nothing any more.", now)
    return True


def find(text: str, now: datetime, address: str = "") -> ApiToken | None:
    """The token whose text this is, if it is usable and its owner may sign in still. Notes that it was used."""
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
    """How many of a person's tokens would open something."""
    return ApiToken.objects.filter(owner=owner, revoked_at__isnull=True, expires_at__gt=now).count()


def _digest(text: str) -> str:
    """256 random bits need no slow hash: there is nothing to guess."""
    return hashlib.sha256(text.encode()).hexdigest()


def _note(person: str, action: Action, row: ApiToken, detail: str, now: datetime) -> None:
    note(person, "*", action.name, f"{row.name} ({row.prefix}) of {row.owner.username}", detail, now)
