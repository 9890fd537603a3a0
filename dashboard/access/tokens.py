"""Tokens for programs: created by people for themselves, shown once, looked up by prefix, revocable at any time."""

import hashlib
import re
import secrets
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from dashboard.access.audited import ActionError, Outcome, Request, done, unchanged
from dashboard.access.declaration import Action, Operation
from dashboard.access.rights import Right, may, require
from dashboard.models import ApiToken

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


MAKE_TOKEN = Action(
    name="make_token",
    label="Create token",
    undo="Revoke token",
    right=Right.VIEW,
    is_limited=True,
    asks_reason=False,
    operation=Operation("/tokens", "make_token", "Create a token. Its text is shown once."),
)
REVOKE_TOKEN = Action(
    name="revoke_token",
    label="Revoke token",
    right=Right.VIEW,
    is_limited=True,
    asks_reason=False,
    operation=Operation("/tokens/{prefix}/revoke", "revoke_token", "Revoke a token immediately."),
)
ACTIONS = (MAKE_TOKEN, REVOKE_TOKEN)


def make(
    owner: User, name: str, scope: str, days: int, now: datetime, *, request_id: str = "", via: str = ""
) -> tuple[ApiToken, str]:
    """Create a token; returns it and its text, which is not stored. Raises Refused or ActionError. Audited."""
    lifetime = timedelta(days=days) if 0 < days <= LONGEST.days else timedelta(0)  # others may not fit a timedelta
    row = ApiToken(owner=owner, name=name.strip(), scope=scope, made_at=now, expires_at=now + lifetime)
    row.prefix = secrets.token_hex(5)
    text = f"{MARK}_{row.prefix}_{secrets.token_urlsafe(32)}"
    row.digest = _digest(text)
    request = Request(owner, target=_named(row), request_id=request_id, via=via, at=now)
    if _make(request, row, owner).outcome != "done":
        raise ActionError(SENT_TWICE)
    return row, text


@MAKE_TOKEN.audited
def _make(request: Request, row: ApiToken, owner: User) -> Outcome:
    require(owner, RIGHTS[row.scope])
    if not row.name or row.expires_at == row.made_at:
        raise ActionError(f"Enter a name, and a lifetime of 1 to {LONGEST.days} days.")
    if usable(owner, request.at) >= MOST_OF_A_PERSON:
        raise ActionError(f"You have {MOST_OF_A_PERSON} tokens. Revoke unused ones first.")
    row.save()
    return done(f"scope {row.scope}, until {row.expires_at:%Y-%m-%d %H:%M} UTC")


def revoke(row: ApiToken, person: User, now: datetime, *, via: str = "") -> Outcome:
    """Revoke a token immediately, as its owner or an administrator. Audited."""
    return _revoke(Request(person, target=_named(row), via=via, at=now), row)


@REVOKE_TOKEN.audited
def _revoke(request: Request, row: ApiToken) -> Outcome:
    if row.owner_id != request.user.pk:
        require(request.user, Right.ADMINISTER)
    ended = ApiToken.objects.filter(pk=row.pk, revoked_at__isnull=True)
    if ended.update(revoked_at=request.at, revoked_by=request.operator):
        return done(f"{row} is revoked.")
    return unchanged(f"{row} was already revoked.")


def find(text: str, now: datetime, address: str = "") -> ApiToken | None:
    """The token with this text, if it is valid and its owner may still sign in. Stores when and where it was used."""
    parts = SHAPE.fullmatch(text)
    row = ApiToken.objects.select_related("owner").filter(prefix=parts[1]).first() if parts else None
    if row is None or not secrets.compare_digest(row.digest, _digest(text)):
        return None
    if not row.is_usable(now) or not row.owner.is_active or _has_left(row.owner, now):
        return None
    stale = Q(used_at__isnull=True) | Q(used_at__lt=now - USED_TO_THE)
    ApiToken.objects.filter(stale, pk=row.pk).update(used_at=now, used_from=address or None)
    return row


def _has_left(owner: User, now: datetime) -> bool:
    """Whether the person comes from a provider that has refused them since, or has not confirmed them for long."""
    trusted = list(owner.identities.values_list("trusted_until", flat=True))
    return bool(trusted) and max(trusted) <= now


def visible_to(person: User) -> QuerySet[ApiToken]:
    """The tokens of the person; of everybody for administrators."""
    everybody = ApiToken.objects.all()
    return everybody if may(person, Right.ADMINISTER) else everybody.filter(owner=person)


def usable(owner: User, now: datetime) -> int:
    """The number of a person's valid tokens."""
    return ApiToken.objects.filter(owner=owner, revoked_at__isnull=True, expires_at__gt=now).count()


def _digest(text: str) -> str:
    """A plain digest is enough: 256 random bits cannot be guessed."""
    return hashlib.sha256(text.encode()).hexdigest()


def _named(row: ApiToken) -> str:
    """The token in the audit trail."""
    return f"{row.name} ({row.prefix}) of {row.owner.username}"
