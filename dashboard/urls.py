"""The addresses of all rooms, and what rooms show of others on their pages."""

from django.contrib import admin
from django.contrib.auth.decorators import login_not_required
from django.templatetags.static import static
from django.urls import URLPattern, URLResolver, include, path
from django.views.generic import RedirectView

from dashboard.access.urls import urlpatterns as access
from dashboard.actions.urls import urlpatterns as actions
from dashboard.alerts.urls import urlpatterns as alerts
from dashboard.backlog.urls import urlpatterns as backlog
from dashboard.costs.urls import urlpatterns as costs
from dashboard.demo.panel import panel
from dashboard.demo.urls import urlpatterns as demo
from dashboard.drills.urls import urlpatterns as drills
from dashboard.fleet import urls as fleet
from dashboard.incidents.finding import for_its_page
from dashboard.incidents.urls import urlpatterns as incidents
from dashboard.metrics.urls import urlpatterns as metrics
from dashboard.readiness.urls import urlpatterns as readiness
from dashboard.routes import urls as api_urls

urlpatterns: list[URLPattern | URLResolver] = [
    *fleet.urls(panel_of=panel, outages_of=for_its_page),
    *incidents,
    *backlog,  # before actions: its addresses of actions name those on queues
    *actions,
    *demo,
    *alerts,
    *drills,
    *readiness,
    *costs,
    *metrics,
    path("favicon.ico", login_not_required(RedirectView.as_view(url=static("dashboard/icon.svg")))),
    path("api/v1/", include((api_urls(), "api"), namespace="api-v1")),
    *access,
    path("admin/login/", login_not_required(RedirectView.as_view(pattern_name="login", query_string=True))),
    path("admin/", admin.site.urls),
]
handler400 = "dashboard.site.error_pages.bad_request"
handler403 = "dashboard.site.error_pages.forbidden"
handler404 = "dashboard.site.error_pages.not_found"
handler500 = "dashboard.site.error_pages.broken"
