"""Lists of Django's admin that nobody can change: the base of what the rooms register."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin

Columns = tuple[str, ...]
Filters = tuple[str | tuple[str, Any], ...]


class ReadOnly(ModelAdmin):
    """Facts: they cannot be added, changed or deleted by hand."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return False

    def has_view_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return self.admin_site.has_permission(request)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.admin_site.has_permission(request)


def register(model: type[Model], columns: Columns, filters: Filters = (), searched: Columns = ()) -> None:
    """Show a table with these columns. Related rows among the columns are joined; rows are not counted for a list."""
    joined = tuple(name for name in columns if model._meta.get_field(name).is_relation)
    body: dict[str, Any] = {
        "list_display": columns,
        "list_filter": filters,
        "search_fields": searched,
        "list_select_related": joined or False,
        "show_full_result_count": False,  # counting a million samples would slow down the list
    }
    admin.site.register(model, type(f"{model.__name__}Admin", (ReadOnly,), body))
