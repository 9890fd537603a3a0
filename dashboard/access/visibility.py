"""Which pairs a person sees: the only place that decides it.

A pair without groups is seen by everybody with a role. A pair with groups is seen by the members of one of them, and by
superusers; what they may do is still decided by their role. Reading is limited by `dashboard.models.visibility`.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, cast

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.deletion import ProtectedError
from django.db.models.signals import pre_delete
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase, StreamingHttpResponse

from dashboard.access.rights import Refused
from dashboard.models import Pair
from dashboard.models.visibility import Visible, seen_as, visible_here

EVERYWHERE = "*"
LACKS_PAIRS, SEEN_PAIRS = "lacks_pairs", "seen_pairs"
"""Attributes of a person for whom this was asked."""
NOT_ALL = "This concerns all pairs, and some of them belong to other groups. Somebody who sees all pairs can do it."
NOT_YOURS = "The pair belongs to other groups."


def visible_pairs(user: AbstractBaseUser | AnonymousUser) -> QuerySet[Pair] | None:
    """The pairs that the person sees; None: all of them.

    At most one query for each request; none for superusers, and for people whom `GroupBackend` has read.
    """
    if not user.is_authenticated:
        return Pair._base_manager.none()
    if getattr(user, "is_superuser", False):
        return None
    if not hasattr(user, LACKS_PAIRS):  # kept on this object only: one request's
        setattr(user, LACKS_PAIRS, _links_without(user.pk).exists())
    if not getattr(user, LACKS_PAIRS):
        return None
    if not hasattr(user, SEEN_PAIRS):
        setattr(user, SEEN_PAIRS, Pair._base_manager.filter(~Exists(_links_without(user.pk, pair=OuterRef("pk")))))
    return cast(QuerySet[Pair], getattr(user, SEEN_PAIRS))


@cache
def people() -> QuerySet[User]:
    """All people, each read together with whether there are pairs that the person does not see.

    Built once and only filtered by callers, as each request reads a person.
    """
    return User.objects.annotate(**{LACKS_PAIRS: Exists(_links_without(OuterRef(OuterRef("pk"))))})


def _links_without(person: Any, **of: Any) -> QuerySet[Any]:
    """The links from pairs to groups of those pairs that the person does not see."""
    links = Pair.groups.through._base_manager
    return links.filter(~Exists(links.filter(pair=OuterRef("pair"), group__user=person)), **of)


def sees_all() -> bool:
    """Whether the present request may see every pair. Commands and workers do."""
    return visible_here() is None


def require_all() -> None:
    """Raise Refused unless the present request may see every pair: for what concerns all of them."""
    if not sees_all():
        raise Refused(NOT_ALL)


def require_visible(pair: str) -> None:
    """Raise Refused unless the present request may see the pair with this name; `*` stands for all pairs."""
    if pair == EVERYWHERE:
        return require_all()
    if not sees_all() and not Pair.objects.filter(name=pair).exists():
        raise Refused(NOT_YOURS)
    return None


class VisiblePairsMiddleware:
    """Limits what a request reads to the pairs of its person: of the session, or of the owner of its token."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        def visible() -> QuerySet[Pair] | None:
            return visible_pairs(request.user)  # asked late: a token is only known to the API

        with seen_as(visible):
            answer: HttpResponseBase = self.get_response(request)
        if isinstance(answer, StreamingHttpResponse) and not answer.is_async:
            answer.streaming_content = _streamed(iter(answer), visible)
        return answer


def _streamed(parts: Iterator[bytes], visible: Visible) -> Iterator[bytes]:
    """The rest of an answer, which is produced after the request, limited in the same way."""
    while True:
        with seen_as(visible):
            part = next(parts, None)
        if part is None:
            return
        yield part


@receiver(pre_delete, sender="auth.Group")
def keep_groups_of_pairs(sender: object, instance: object, **_: object) -> None:
    """A group of a pair is not deleted: everybody would see the pair."""
    pairs = list(Pair._base_manager.filter(groups=instance))  # type: ignore[misc]
    if pairs:
        raise ProtectedError("The group is one of a pair: take it from the pair first.", set(pairs))


class GroupBackend(ModelBackend):
    """Django's own backend without permissions granted to a single person."""

    def get_user(self, user_id: int) -> User | None:
        """The person of a session, read together with which pairs the person sees."""
        person = people().filter(pk=user_id).first()
        return person if person and self.user_can_authenticate(person) else None

    def has_perm(self, user_obj: AbstractBaseUser | AnonymousUser, perm: str, obj: object = None) -> bool:
        """People and groups are managed by those who see all pairs: others could become members of any group."""
        return (sees_all() or not perm.startswith("auth.")) and super().has_perm(user_obj, perm, obj)  # type: ignore[arg-type]

    def get_user_permissions(self, user_obj: AbstractBaseUser | AnonymousUser, obj: object = None) -> set[str]:
        return set()
