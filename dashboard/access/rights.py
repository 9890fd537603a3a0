"""Who may do what: the only place that decides it."""

from enum import StrEnum

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

VIEWER, OPERATOR, ADMINISTRATOR = "viewer", "operator", "administrator"
GROUPS = (VIEWER, OPERATOR, ADMINISTRATOR)


class Right(StrEnum):
    """What a page or an action asks for. Each includes the one before."""

    VIEW = "dashboard.view_pair"
    OPERATE = "dashboard.operate_pair"
    ADMINISTER = "dashboard.administer_pair"


class Refused(Exception):
    """The person may not do this. The sentence says what is missing."""


def limit(user: AbstractBaseUser, most: Right) -> AbstractBaseUser:
    """The person with the rights of a token: none beyond `most`, whatever the groups allow."""
    user._most_right = most  # type: ignore[attr-defined]  # on this object only: one request's
    return user


def _is_within(user: AbstractBaseUser | AnonymousUser, right: Right) -> bool:
    most, ladder = getattr(user, "_most_right", None), tuple(Right)
    return most is None or ladder.index(right) <= ladder.index(most)


def may(user: AbstractBaseUser | AnonymousUser, right: Right) -> bool:
    """Whether the person has the right, by group or as a superuser, and the token if there is one. Inactive: none."""
    if not _is_within(user, right):
        return False
    return bool(getattr(user, "is_active", False)) and user.has_perm(str(right))  # type: ignore[union-attr]


def require(user: AbstractBaseUser | AnonymousUser, right: Right) -> None:
    """Raise Refused where the person lacks the right."""
    if not _is_within(user, right):
        raise Refused("This token may not do that. Its owner can make one with a wider scope.")
    if not may(user, right):
        group = {Right.VIEW: VIEWER, Right.OPERATE: OPERATOR, Right.ADMINISTER: ADMINISTRATOR}[right]
        raise Refused(f"This needs the group {group}. An administrator can add you to it.")
