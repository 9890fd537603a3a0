"""The backend of those who sign in through the provider: known by issuer and subject, their groups by a claim."""

from typing import Any

import jwt
import structlog
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.core.exceptions import SuspiciousOperation
from django.db import IntegrityError, transaction
from django.utils import timezone
from mozilla_django_oidc.auth import OIDCAuthenticationBackend  # type: ignore[import-untyped]

from dashboard.access.backends import GroupBackend
from dashboard.access.oidc.claims import digest, groups_of, username_of
from dashboard.access.oidc.discovery import TIMEOUT_S, provider
from dashboard.access.rights import GROUPS
from dashboard.models import Identity

log = structlog.get_logger(__name__)


class NoAccess(Exception):
    """The provider knows the person, but none of their groups is let in here."""


def setting(name: str, *default: Any) -> Any:
    """A setting of mozilla-django-oidc; the endpoints are those that the provider tells."""
    match name:
        case "OIDC_OP_AUTHORIZATION_ENDPOINT":
            return provider().authorization
        case "OIDC_OP_TOKEN_ENDPOINT":
            return provider().token
        case "OIDC_OP_USER_ENDPOINT":
            return provider().userinfo
        case "OIDC_OP_JWKS_ENDPOINT":
            return provider().jwks
        case "OIDC_TIMEOUT":
            return TIMEOUT_S
    return getattr(settings, name, *default)


class OidcBackend(GroupBackend, OIDCAuthenticationBackend):  # type: ignore[misc]
    """The package's flow, with what it leaves open closed: audience, issuer, one subject, no address as identity."""

    def __init__(self) -> None:  # asked on each request: the provider must not be
        self.UserModel = User
        self.OIDC_RP_CLIENT_ID = settings.OIDC_RP_CLIENT_ID
        self.OIDC_RP_CLIENT_SECRET = settings.OIDC_RP_CLIENT_SECRET
        self.OIDC_RP_SIGN_ALGO = settings.OIDC_RP_SIGN_ALGO
        self.OIDC_RP_IDP_SIGN_KEY = None

    get_settings = staticmethod(setting)

    @property
    def OIDC_OP_TOKEN_ENDPOINT(self) -> str:
        return provider().token

    @property
    def OIDC_OP_USER_ENDPOINT(self) -> str:
        return provider().userinfo

    @property
    def OIDC_OP_JWKS_ENDPOINT(self) -> str:
        return provider().jwks

    def authenticate(self, request: Any, **given: Any) -> User | None:  # type: ignore[override]
        """The person whom the callback tells of; passwords are none of this backend's business."""
        if "nonce" not in given:
            return None
        person: User | None = OIDCAuthenticationBackend.authenticate(self, request, **given)
        return person

    def get_user(self, user_id: Any) -> User | None:
        """Nobody who is inactive."""
        person = GroupBackend.get_user(self, user_id)
        return person if isinstance(person, User) else None

    def get_payload_data(self, token: str, key: Any) -> dict[str, Any]:
        """The claims of an ID token that is signed by our provider, for us, and not over. Else SuspiciousOperation."""
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[self.OIDC_RP_SIGN_ALGO],
                audience=self.OIDC_RP_CLIENT_ID,
                issuer=settings.OIDC_ISSUER,
                leeway=30,
                options={"require": ["exp", "iat", "iss", "aud", "sub"]},
            )
        except jwt.PyJWTError as error:
            raise SuspiciousOperation(f"The ID token is not to be trusted: {type(error).__name__}.") from None
        return claims

    def get_or_create_user(self, access_token: str, id_token: str, payload: dict[str, Any]) -> User:
        """The person of this subject, with the groups of today. Raises NoAccess or SuspiciousOperation."""
        told = self.get_userinfo(access_token, id_token, payload)
        if not isinstance(told, dict) or told.get("sub") != payload["sub"]:
            raise SuspiciousOperation("The provider tells of one person in the token and of another elsewhere.")
        claims = {**payload, **told}
        wanted = groups_of(claims, settings.OIDC_GROUPS_CLAIM, settings.OIDC_LETS_IN)
        person = self._person(claims, may_be_new=bool(wanted))
        if person is not None:
            _keep_groups(person, wanted)
        if person is None or not wanted:
            raise NoAccess(username_of(claims, settings.OIDC_NAME_CLAIM))
        return person

    def _person(self, claims: dict[str, Any], *, may_be_new: bool) -> User | None:
        now, key = timezone.now(), {"issuer": settings.OIDC_ISSUER, "subject": str(claims["sub"])[:255]}
        known = Identity.objects.filter(**key).select_related("user").first()
        if known is None:
            return _new_person(claims, key) if may_be_new else None
        Identity.objects.filter(pk=known.pk).update(seen_at=now)
        return known.user


def _new_person(claims: dict[str, Any], key: dict[str, str]) -> User:
    """A person nobody has seen yet. A name that is somebody's already is theirs: it gets some letters more."""
    name, now = username_of(claims, settings.OIDC_NAME_CLAIM), timezone.now()
    if User.objects.filter(username__iexact=name).exists():
        name = f"{name}-{digest(key['issuer'] + key['subject'])}"
    try:
        with transaction.atomic():
            person = User.objects.create_user(name)
            Identity.objects.create(**key, user=person, made_at=now, seen_at=now)
    except IntegrityError:  # the same person in another tab
        return Identity.objects.select_related("user").get(**key).user
    log.info("somebody signed in for the first time", user=name)
    return person


def _keep_groups(person: User, wanted: list[str]) -> None:
    """The person's groups among ours become those of the claim, in both directions."""
    ours = set(person.groups.filter(name__in=GROUPS).values_list("name", flat=True))
    if ours == set(wanted):
        return
    with transaction.atomic():
        person.groups.remove(*Group.objects.filter(name__in=ours - set(wanted)))
        person.groups.add(*Group.objects.filter(name__in=set(wanted) - ours))
    log.info("the provider changed somebody's groups", user=person.username, groups=wanted)
