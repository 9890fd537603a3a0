"""The addresses of all rooms, and what rooms show of others on their pages."""

from django.contrib import admin
from django.contrib.auth.decorators import login_not_required
from django.templatetags.static import static
from django.urls import URLPattern, URLResolver, include, path
from django.views.generic import RedirectView

from dashboard.access import urls as access
from dashboard.accounts import urls as accounts
from dashboard.actions import urls as actions
from dashboard.alerts import urls as alerts
from dashboard.backlog import urls as backlog
from dashboard.costs import urls as costs
from dashboard.demo import urls as demo
from dashboard.demo.panel import panel
from dashboard.drills import urls as drills
from dashboard.fleet import urls as fleet
from dashboard.incidents import urls as incidents
from dashboard.incidents.listing import of_entity
from dashboard.metrics import urls as metrics
from dashboard.readiness import urls as readiness
from dashboard.routes import urls as api_urls
from dashboard.site.menu import menu_of

urlpatterns: list[URLPattern | URLResolver] = [
    *fleet.urls(panel_of=panel, outages_of=of_entity),
    *incidents.urlpatterns,
    *backlog.urlpatterns,  # before actions: its addresses of actions name those on queues
    *actions.urlpatterns,
    *demo.urlpatterns,
    *alerts.urlpatterns,
    *drills.urlpatterns,
    *readiness.urlpatterns,
    *costs.urlpatterns,
    *metrics.urlpatterns,
    path("favicon.ico", login_not_required(RedirectView.as_view(url=static("dashboard/icon.svg")))),
    path("api/v1/", include((api_urls(), "api"), namespace="api-v1")),
    *access.urlpatterns,
    *accounts.urlpatterns,
    path("admin/login/", login_not_required(RedirectView.as_view(pattern_name="login", query_string=True))),
    path("admin/", admin.site.urls),
]
MENU = menu_of((fleet, incidents, backlog, actions, demo, alerts, drills, readiness, costs, metrics, accounts))
handler400 = "dashboard.site.error_pages.bad_request"
handler403 = "dashboard.site.error_pages.forbidden"
handler404 = "dashboard.site.error_pages.not_found"
handler500 = "dashboard.site.error_pages.broken"
