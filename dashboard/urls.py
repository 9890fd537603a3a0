"""URLs by noun."""

from django.contrib import admin
from django.contrib.auth import views as auth
from django.contrib.auth.decorators import login_not_required
from django.templatetags.static import static
from django.urls import URLPattern, URLResolver, path
from django.views.generic import RedirectView

from dashboard.logins import LoginForm
from dashboard.views import (
    actions,
    audit,
    backlog,
    costs,
    demo,
    entities,
    events,
    forecast,
    incidents,
    live,
    messages,
    overview,
    pairs,
    probes,
    reconciliation,
    workers,
)

Urls = list[URLPattern | URLResolver]
pair_urls: Urls = [
    path("", overview.overview, name="overview"),
    path("pairs/<slug:pair>/", pairs.detail, name="pair-detail"),
    path("pairs/<slug:pair>/entities/<path:path>/", entities.detail, name="entity-detail"),
    path("pairs/<slug:pair>/incidents/<slug:event_id>/", incidents.detail, name="incident"),
    path("pairs/<slug:pair>/incidents/<slug:event_id>.json", incidents.as_json, name="incident-json"),
    path("pairs/<slug:pair>/actions/<slug:verb>/", actions.action, name="pair-action"),
    path("pairs/<slug:pair>/demo/<slug:verb>/", demo.break_or_mend, name="pair-demo"),
]
record_urls: Urls = [
    path("events/", events.listing, name="events"),
    path("events.csv", events.as_csv, name="events-csv"),
    path("backlog/", backlog.listing, name="backlog"),
    path("backlog/<slug:pair>/messages/", messages.listing, name="backlog-messages"),
    path("backlog/<slug:pair>/messages.json", messages.download, name="backlog-download"),
    path("backlog/<slug:pair>/dead-letters/", messages.dead_letter_action, name="dead-letters"),
    path("backlog/<slug:pair>/jobs/", messages.jobs, name="backlog-jobs"),
    path("audit/", audit.listing, name="audit"),
    path("workers/", workers.listing, name="workers"),
    path("costs/", costs.report, name="costs"),
    path("costs/run/", costs.run, name="costs-run"),
    path("costs/compute/", costs.compute, name="costs-compute"),
    path("costs/forecast/", forecast.page, name="costs-forecast"),
    path("costs/failover/", forecast.before_failover, name="costs-before-failover"),
    path("costs/budget/", costs.budget, name="costs-budget"),
    path("costs/reconcile/", reconciliation.page, name="costs-reconcile"),
    path("costs/reconcile/upload/", reconciliation.upload, name="costs-reconcile-upload"),
    path("costs.parquet", costs.as_parquet, name="costs-parquet"),
    path("costs.csv", costs.as_csv, name="costs-csv"),
]
machine_urls: Urls = [
    path("live/", live.stream, name="live"),
    path("favicon.ico", login_not_required(RedirectView.as_view(url=static("dashboard/icon.svg")))),
    path("healthz", probes.healthz, name="healthz"),
    path("readyz", probes.readyz, name="readyz"),
    path("metrics", probes.metrics, name="metrics"),
]
account_urls: Urls = [
    path(
        "login/",
        auth.LoginView.as_view(template_name="account/login.html", authentication_form=LoginForm),
        name="login",
    ),
    path("logout/", auth.LogoutView.as_view(), name="logout"),
    path("admin/login/", login_not_required(RedirectView.as_view(pattern_name="login", query_string=True))),
    path("admin/", admin.site.urls),
]

urlpatterns: Urls = [*pair_urls, *record_urls, *machine_urls, *account_urls]
handler403 = "dashboard.views.errors.forbidden"
handler404 = "dashboard.views.errors.not_found"
handler500 = "dashboard.views.errors.broken"
