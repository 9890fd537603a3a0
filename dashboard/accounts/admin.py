"""People, groups, the audit trail, tokens and identities in Django's admin."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.http import HttpRequest

from dashboard import models
from dashboard.access.visibility import sees_all
from dashboard.site.read_only import ReadOnly, register


class SeesAll:
    """People and groups are managed by those who see all pairs: others could make themselves members of any group."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        allowed: Any = super()
        return sees_all() and bool(allowed.has_module_permission(request))

    def has_view_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        allowed: Any = super()
        return sees_all() and bool(allowed.has_view_permission(request, obj))

    def has_add_permission(self, request: HttpRequest) -> bool:
        allowed: Any = super()
        return sees_all() and bool(allowed.has_add_permission(request))

    def has_change_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        allowed: Any = super()
        return sees_all() and bool(allowed.has_change_permission(request, obj))

    def has_delete_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        allowed: Any = super()
        return sees_all() and bool(allowed.has_delete_permission(request, obj))


if TYPE_CHECKING:
    Users = UserAdmin[User]
else:
    Users = UserAdmin
admin.site.unregister((User, Group))


@admin.register(User)
class PeopleAdmin(SeesAll, Users):
    """Django's own."""


@admin.register(Group)
class GroupsAdmin(SeesAll, GroupAdmin):
    """Django's own; a group of a pair cannot be deleted, because everybody would see the pair."""

    def has_delete_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        is_of_a_pair = isinstance(obj, Group) and models.Pair._base_manager.filter(groups=obj).exists()
        return super().has_delete_permission(request, obj) and not is_of_a_pair


@admin.register(models.AuditEntry)
class AuditAdmin(ReadOnly):
    list_display = ("at", "operator", "verb", "pair", "target", "outcome", "reason")
    list_filter = ("verb", "outcome", "pair")
    search_fields = ("operator", "target", "reason", "detail")
    date_hierarchy = "at"


register(
    models.ApiToken,
    ("prefix", "name", "owner", "scope", "made_at", "expires_at", "used_at", "revoked_at", "revoked_by"),
    ("scope", ("revoked_at", admin.EmptyFieldListFilter)),
    ("name", "prefix", "owner__username"),
)
register(
    models.Identity,
    ("user", "issuer", "subject", "made_at", "seen_at"),
    ("issuer",),
    ("subject", "user__username"),
)
