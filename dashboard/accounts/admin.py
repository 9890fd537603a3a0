"""People, groups, the audit trail, tokens and identities in Django's admin."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.http import HttpRequest

from dashboard import models
from dashboard.access.audited import Request
from dashboard.access.people import CHANGES


class Recorded:
    """Who was given which rights is in the audit trail, beside the history of Django's admin."""

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        _note(request, "add", obj, _rights(obj))
        logged: Any = super()
        return logged.log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        logged: Any = super()
        entry: LogEntry = logged.log_change(request, obj, message)
        _note(request, "change", obj, f"{entry.get_change_message()} {_rights(obj)}")
        return entry

    def log_deletions(self, request: HttpRequest, queryset: Iterable[Any]) -> Any:
        for obj in queryset:
            _note(request, "delete", obj, _rights(obj))
        logged: Any = super()
        return logged.log_deletions(request, queryset)


def _note(request: HttpRequest, verb: str, obj: User | Group, detail: str) -> None:
    by = Request(request.user, target=str(obj), via="administration")
    CHANGES[verb, str(obj._meta.model_name)].record(by, detail)


def _rights(obj: User | Group) -> str:
    """What decides the rights of a person or of the members of a group."""
    if isinstance(obj, Group):
        return f"Permissions: {_listed(obj.permissions.values_list('codename', flat=True))}."
    of_role = "Superuser. " if obj.is_superuser else ""
    is_shut = "" if obj.is_active else " Not active."
    return f"{of_role}Groups: {_listed(obj.groups.values_list('name', flat=True))}.{is_shut}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


if TYPE_CHECKING:
    Users = UserAdmin[User]
else:
    Users = UserAdmin
admin.site.unregister((User, Group))


@admin.register(User)
class PeopleAdmin(Recorded, Users):
    """Django's own, with each change on record."""


@admin.register(Group)
class GroupsAdmin(Recorded, GroupAdmin):
    """Django's own; a group of a pair cannot be deleted, because everybody would see the pair."""

    def has_delete_permission(self, request: HttpRequest, obj: Group | None = None) -> bool:
        is_of_a_pair = obj is not None and models.Pair._base_manager.filter(groups=obj).exists()
        return super().has_delete_permission(request, obj) and not is_of_a_pair
