"""Who may do what. All permission decisions are made here."""

from enum import StrEnum

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

from dashboard.access.team_groups import ROLES

VIEWER, OPERATOR, ADMINISTRATOR = GROUPS = ROLES


class Right(StrEnum):
    """A right that pages and actions require. Each includes the previous one."""

    VIEW = "dashboard.view_pair"
    OPERATE = "dashboard.operate_pair"
    ADMINISTER = "dashboard.administer_pair"


class Refused(Exception):
    """The person may not do this. The text says which right is missing."""


def limit(user: AbstractBaseUser, most: Right) -> AbstractBaseUser:
    """The person with the rights of a token: at most `most`, whatever the groups allow."""
    user._most_right = most  # type: ignore[attr-defined]  # on this object only: one request's
    return user


def _is_within(user: AbstractBaseUser | AnonymousUser, right: Right) -> bool:
    most, ladder = getattr(user, "_most_right", None), tuple(Right)
    return most is None or ladder.index(right) <= ladder.index(most)


def may(user: AbstractBaseUser | AnonymousUser, right: Right) -> bool:
    """Whether the person has the right: by group or as a superuser, limited by the token, if any. Inactive: never."""
    if not _is_within(user, right):
        return False
    return bool(getattr(user, "is_active", False)) and user.has_perm(str(right))  # type: ignore[union-attr]


def require(user: AbstractBaseUser | AnonymousUser, right: Right) -> None:
    """Raise Refused if the person lacks the right."""
    if not _is_within(user, right):
        raise Refused("The scope of this token does not allow that. Its owner can create one with a wider scope.")
    if not may(user, right):
        group = {Right.VIEW: VIEWER, Right.OPERATE: OPERATOR, Right.ADMINISTER: ADMINISTRATOR}[right]
        raise Refused(f"This needs the group {group}. An administrator can add you to it.")
