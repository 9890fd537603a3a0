"""Lists of Django's admin that nobody can change: the base of what the rooms register."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import BooleanField, CharField, JSONField, Model, TextField
from django.http import HttpRequest

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin

MOST_COLUMNS = 9
HIDDEN = ("digest", "event_id", "request_id")
FILTERED = ("pair", "month", "kind")


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


def register(model: type[Model]) -> None:
    """Show a table with its short fields, filters of its pairs and choices, and a search in its texts."""
    fields = [field for field in model._meta.concrete_fields if not field.primary_key and field.name not in HIDDEN]
    columns = [field for field in fields if not isinstance(field, JSONField | TextField)][:MOST_COLUMNS]
    body: dict[str, Any] = {
        "list_display": [field.name for field in columns],
        "list_filter": [field.name for field in fields if field.name in FILTERED or _is_choice(field)],
        "search_fields": [field.name for field in fields if isinstance(field, CharField | TextField)],
        "list_select_related": [field.name for field in columns if field.is_relation] or False,
        "show_full_result_count": False,  # counting a million samples would slow down the list
    }
    admin.site.register(model, type(f"{model.__name__}Admin", (ReadOnly,), body))


def _is_choice(field: Any) -> bool:
    return bool(field.choices) or isinstance(field, BooleanField)
