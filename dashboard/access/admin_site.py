"""Django's admin for the group administrator, and lists in it that nobody can change."""

from functools import update_wrapper
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.contenttypes.models import ContentType
from django.contrib.contenttypes.views import shortcut
from django.db.models import BooleanField, CharField, JSONField, Model, TextField
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern, URLResolver, path

from dashboard.access.rights import Right, may, require

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin

MOST_COLUMNS = 9
HIDDEN = ("digest", "event_id", "request_id")
FILTERED = ("pair", "month", "kind")


class ControlPlaneAdminSite(admin.AdminSite):
    """Open to administrators and superusers, by group; a separate staff flag is not used."""

    site_header = site_title = "Paired namespaces"
    index_title = "Administration"

    def has_permission(self, request: HttpRequest) -> bool:
        return may(request.user, Right.ADMINISTER)

    def get_urls(self) -> list[URLPattern | URLResolver]:
        """Django's own, but a link to the page of an object is no way to what the person does not see."""
        shown = path("r/<int:content_type_id>/<path:object_id>/", self.admin_view(self.on_site), name="view_on_site")
        return [shown, *super().get_urls()]

    def on_site(self, request: HttpRequest, content_type_id: int, object_id: str) -> HttpResponse:
        """Redirect to the page of an object that the person sees."""
        model = ContentType.objects.get_for_id(content_type_id).model_class()
        try:
            is_seen = model is not None and model._default_manager.filter(pk=object_id).exists()
        except ValueError:
            is_seen = False
        if not is_seen:
            raise Http404
        found: HttpResponse = shortcut(request, content_type_id, object_id)
        return found

    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        """Tell signed-in people who are not administrators what they lack; signing in again would not help."""
        inner = super().admin_view(view, cacheable)

        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if request.user.is_authenticated:
                require(request.user, Right.ADMINISTER)
            answer: HttpResponse = inner(request, *args, **kwargs)
            return answer

        return update_wrapper(guarded, inner)


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
