"""Rights come from groups only, so the groups of a person show all of the person's rights."""

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User

from dashboard.access.visibility import people


class GroupBackend(ModelBackend):
    """Django's own backend without permissions granted to a single person."""

    def get_user(self, user_id: int) -> User | None:
        """The person of a session, read together with which pairs the person sees."""
        person = people().filter(pk=user_id).first()
        return person if person and self.user_can_authenticate(person) else None

    def get_user_permissions(self, user_obj: AbstractBaseUser | AnonymousUser, obj: object = None) -> set[str]:
        return set()
