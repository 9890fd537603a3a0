"""The control plane's app, and its admin site."""

from importlib import import_module

from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig
from django.db.models.signals import post_migrate, pre_migrate

from dashboard.access.groups import keep_groups
from dashboard.site.database import refuse_unreleased


class DashboardConfig(AppConfig):
    """Models, pages and commands of the control plane."""

    name = "dashboard"
    verbose_name = "Control plane"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        pre_migrate.connect(refuse_unreleased, sender=self)
        post_migrate.connect(keep_groups, sender=self)
        import_module("dashboard.access.sessions")  # it listens for who signs in
        import_module("dashboard.access.visibility")  # it keeps groups of pairs from being deleted


class ControlPlaneAdminConfig(AdminConfig):
    """Django's admin, open to the group administrator."""

    default = False
    default_site = "dashboard.access.admin_site.ControlPlaneAdminSite"
