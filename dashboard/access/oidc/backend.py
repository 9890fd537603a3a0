"""The backend for people who sign in through the provider, identified by issuer and subject, with groups of a claim."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import structlog
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.core.exceptions import SuspiciousOperation
from django.db import IntegrityError, transaction
from django.http import HttpRequest
from django.utils import timezone

from dashboard.access.rights import GROUPS
from dashboard.access.team_groups import team_groups
from dashboard.access.visibility import GroupBackend
from dashboard.models import Identity

TRUSTED = timedelta(days=30)
"""How long after the last sign-in or renewal the tokens of a person work."""
LONGEST_SUBJECT = 255
"""A longer one is not cut off: its beginning may be somebody else's subject."""
_USUAL = re.compile(r"[^\w.@+-]+", re.ASCII)
log = structlog.get_logger(__name__)


class NoAccess(Exception):
    """The provider knows the person, but none of the person's groups has access here."""


class OidcBackend(GroupBackend):
    """Takes the claims of a verified ID token; it accepts no password, and e-mail addresses are not identities."""

    def authenticate(  # type: ignore[override]
        self, request: HttpRequest | None, claims: Mapping[str, Any] | None = None, **credentials: Any
    ) -> User | None:
        """The person with these claims. Raises NoAccess."""
        return None if claims is None else person_of(claims)


def person_of(claims: Mapping[str, Any]) -> User:
    """The person with this subject, in the groups of the claim. Raises NoAccess."""
    wanted = groups_of(claims, settings.OIDC_GROUPS_CLAIM, settings.OIDC_LETS_IN)
    person = _person(claims, may_be_new=bool(wanted))
    if person is not None:
        teams = team_groups(settings.OIDC_PAIR_GROUPS)
        _keep_groups(person, [*wanted, *groups_of(claims, settings.OIDC_GROUPS_CLAIM, teams)], {*GROUPS, *teams})
    if person is None or not wanted:
        raise NoAccess(username_of(claims))
    return person


def _person(claims: Mapping[str, Any], *, may_be_new: bool) -> User | None:
    subject = str(claims["sub"])
    if len(subject) > LONGEST_SUBJECT:
        raise SuspiciousOperation("The provider sent a subject that is longer than OpenID Connect allows.")
    key = {"issuer": settings.OIDC_ISSUER, "subject": subject}
    known = Identity.objects.filter(**key).select_related("user").first()
    if known is None:
        return _new_person(claims, key) if may_be_new else None
    Identity.objects.filter(pk=known.pk).update(trusted_until=timezone.now() + TRUSTED)
    return known.user


def _new_person(claims: Mapping[str, Any], key: dict[str, str]) -> User:
    """A new person. If the name belongs to somebody else, it gets a suffix."""
    name, now = username_of(claims), timezone.now()
    if User.objects.filter(username__iexact=name).exists():
        name = f"{name}-{digest(key['issuer'] + key['subject'])}"
    try:
        with transaction.atomic():
            person = User.objects.create_user(name)
            Identity.objects.create(**key, user=person, made_at=now, trusted_until=now + TRUSTED)
    except IntegrityError:  # the same person in another tab
        return Identity.objects.select_related("user").get(**key).user
    log.info("somebody signed in for the first time", user=name)
    return person


def _keep_groups(person: User, wanted: list[str], known: set[str]) -> None:
    """Add and remove groups until the person's groups among the known ones equal those of the claim.

    A group of pairs is created when its first member signs in, so that it can be given pairs.
    """
    ours = set(person.groups.filter(name__in=known).values_list("name", flat=True))
    if ours == set(wanted):
        return
    with transaction.atomic():
        for name in set(wanted) - set(GROUPS):
            Group.objects.get_or_create(name=name)
        person.groups.remove(*Group.objects.filter(name__in=ours - set(wanted)))
        person.groups.add(*Group.objects.filter(name__in=set(wanted) - ours))
    log.info("the provider changed somebody's groups", user=person.username, groups=wanted)


def groups_of(claims: Mapping[str, Any], claim: str, groups: Mapping[str, Sequence[str]]) -> list[str]:
    """The groups that the values of the claim map to: roles, without which there is no access, or groups of pairs.

    The claim is a list of texts, or one text with words separated by spaces or commas. Any other type maps to no group.
    """
    given = set(_texts(claims.get(claim)))
    return [group for group, values in groups.items() if given & set(values)]


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        return [value, *re.split(r"[\s,]+", value)]
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def username_of(claims: Mapping[str, Any]) -> str:
    """A readable name of the characters that Django allows; without any, from the digest of the subject."""
    given = claims.get("preferred_username") or claims.get("email") or ""
    name = _USUAL.sub("-", given if isinstance(given, str) else "").strip("-")[:100]
    return name or f"person-{digest(str(claims.get('sub', '')))}"


def digest(subject: str) -> str:
    """A short suffix that distinguishes two people with the same name."""
    return hashlib.sha256(subject.encode()).hexdigest()[:8]
