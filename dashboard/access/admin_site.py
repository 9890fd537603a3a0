"""Django's admin for the group administrator."""

from functools import update_wrapper
from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponse

from dashboard.access.rights import Right, may, require


class ControlPlaneAdminSite(AdminSite):
    """Open to administrators and superusers, by group; a separate staff flag is not used."""

    site_header = site_title = "Paired namespaces"
    index_title = "Administration"

    def has_permission(self, request: HttpRequest) -> bool:
        return may(request.user, Right.ADMINISTER)

    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        """Tell signed-in people who are not administrators what they lack; signing in again would not help."""
        inner = super().admin_view(view, cacheable)

        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if request.user.is_authenticated:
                require(request.user, Right.ADMINISTER)
            answer: HttpResponse = inner(request, *args, **kwargs)
            return answer

        return update_wrapper(guarded, inner)
