"""Who may do what: the one place that decides."""

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


def may(user: AbstractBaseUser | AnonymousUser, right: Right) -> bool:
    """Whether the person has the right, by group or as a superuser. Inactive people have none."""
    return bool(getattr(user, "is_active", False)) and user.has_perm(str(right))  # type: ignore[union-attr]


def require(user: AbstractBaseUser | AnonymousUser, right: Right) -> None:
    """Raise Refused where the person lacks the right."""
    if not may(user, right):
        group = {Right.VIEW: VIEWER, Right.OPERATE: OPERATOR, Right.ADMINISTER: ADMINISTRATOR}[right]
        raise Refused(f"This needs the group {group}. An administrator can add you to it.")
