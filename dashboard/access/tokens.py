"""Tokens for programs: created by people for themselves, shown once, looked up by prefix, revocable at any time."""

import hashlib
import re
import secrets
import uuid
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db.models import Q

from dashboard.access.audited import ActionError, Outcome, carry_out, done, unchanged
from dashboard.access.declaration import Action, Command
from dashboard.access.rights import Right
from dashboard.models import ApiToken, AuditEntry

MARK = "pns"
SHAPE = re.compile(rf"{MARK}_([0-9a-f]{{10}})_[\w-]{{43}}", re.ASCII)
LONGEST = timedelta(days=365)
MOST_OF_A_PERSON = 50
USED_TO_THE = timedelta(minutes=1)
RIGHTS = {"read": Right.VIEW, "operate": Right.OPERATE, "administer": Right.ADMINISTER}
"""The right that each scope gives at most."""
SENT_TWICE = (
    "This form was sent twice. The token was created once, and only the first answer shows it. If you have not seen "
    "it, revoke the token and create another one."
)


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


def make(owner: User, name: str, scope: str, days: int, now: datetime, *, request_id: str = "") -> tuple[ApiToken, str]:
    """Create a token; returns it and its text, which is not stored. Raises Refused or ActionError. Audited."""
    lifetime = timedelta(days=days) if 0 < days <= LONGEST.days else timedelta(0)  # others may not fit a timedelta
    row = ApiToken(owner=owner, name=name.strip(), scope=scope, made_at=now, expires_at=now + lifetime)
    row.prefix = secrets.token_hex(5)
    text = f"{MARK}_{row.prefix}_{secrets.token_urlsafe(32)}"
    row.digest = _digest(text)

    def run() -> Outcome:
        if not row.name or not lifetime:
            raise ActionError(f"Enter a name, and a lifetime of 1 to {LONGEST.days} days.")
        if usable(owner, now) >= MOST_OF_A_PERSON:
            raise ActionError(f"You have {MOST_OF_A_PERSON} tokens. Revoke unused ones first.")
        row.save()
        return done(f"scope {scope}, until {row.expires_at:%Y-%m-%d %H:%M} UTC")

    entry = _entry(owner, MAKE_TOKEN, row, now, request_id)
    if carry_out(entry, owner, run, right=right_of(row), is_limited=True).outcome != "done":
        raise ActionError(SENT_TWICE)
    return row, text


def revoke(row: ApiToken, person: User, now: datetime) -> bool:
    """Revoke a token immediately, as its owner or an administrator. False if it had ended already. Audited."""

    def run() -> Outcome:
        ended = ApiToken.objects.filter(pk=row.pk, revoked_at__isnull=True)
        if ended.update(revoked_at=now, revoked_by=person.username):
            return done("It is no longer accepted.")
        return unchanged("It was already revoked.")

    right = REVOKE_TOKEN.right if row.owner_id == person.pk else Right.ADMINISTER
    return (
        carry_out(_entry(person, REVOKE_TOKEN, row, now), person, run, right=right, is_limited=True).outcome == "done"
    )


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


def _entry(person: User, action: Action, row: ApiToken, now: datetime, request_id: str = "") -> AuditEntry:
    return AuditEntry(
        request_id=request_id or uuid.uuid4().hex,
        at=now,
        operator=person.username,
        verb=action.name,
        pair="*",
        target=f"{row.name} ({row.prefix}) of {row.owner.username}",
    )
