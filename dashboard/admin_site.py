"""Django's admin for the group administrator."""

from django.contrib.admin import AdminSite
from django.http import HttpRequest

from dashboard.access import Right, may


class ControlPlaneAdminSite(AdminSite):
    """Open to administrators and superusers, by their group and not by a flag of its own."""

    site_header = site_title = "Paired namespaces"
    index_title = "Administration"

    def has_permission(self, request: HttpRequest) -> bool:
        return may(request.user, Right.ADMINISTER)
