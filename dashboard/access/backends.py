"""Rights come from groups only, so the groups of a person show all of the person's rights."""

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import AbstractBaseUser, Permission
from django.db.models import QuerySet


class GroupBackend(ModelBackend):
    """Django's own backend without permissions granted to a single person."""

    def _get_user_permissions(self, user_obj: AbstractBaseUser) -> QuerySet[Permission]:
        return Permission.objects.none()
