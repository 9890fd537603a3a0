"""Django's admin for the group administrator."""

from functools import update_wrapper
from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.contenttypes.models import ContentType
from django.contrib.contenttypes.views import shortcut
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern, URLResolver, path

from dashboard.access.rights import Right, may, require


class ControlPlaneAdminSite(AdminSite):
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
