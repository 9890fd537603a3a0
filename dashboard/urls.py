"""URLs by noun."""

from django.conf import settings
from django.contrib import admin
from django.contrib.auth import views as auth
from django.contrib.auth.decorators import login_not_required
from django.templatetags.static import static
from django.urls import URLPattern, URLResolver, include, path, register_converter
from django.urls.converters import StringConverter
from django.views.generic import RedirectView

from dashboard.access.logins import LoginForm
from dashboard.access.oidc import views as oidc
from dashboard.access.views import audit, tokens
from dashboard.actions import views as actions
from dashboard.alerts import views as alerts
from dashboard.api import site
from dashboard.backlog.actions import QUEUE_ACTIONS
from dashboard.backlog.views import cleanup, messages
from dashboard.backlog.views import queues as backlog
from dashboard.costs.views import forecast, reconciliation
from dashboard.costs.views import report as costs
from dashboard.demo import views as demo
from dashboard.drills import views as drills
from dashboard.fleet.views import entities, events, live, overview, pairs, workers
from dashboard.incidents import views as incidents
from dashboard.metrics import views as probes
from dashboard.readiness import views as readiness

Urls = list[URLPattern | URLResolver]


class QueueActionName(StringConverter):
    """The name of an action on a backlog queue, with `-` or `_`."""

    regex = "|".join(action.name.replace("_", "[_-]") for action in QUEUE_ACTIONS)

    def to_url(self, value: str) -> str:
        if value not in {action.name for action in QUEUE_ACTIONS}:
            raise ValueError
        return value


register_converter(QueueActionName, "queue_action")
pair_urls: Urls = [
    path("", overview.overview, name="overview"),
    path("pairs/<slug:pair>/", pairs.detail, name="pair-detail"),
    path("pairs/<slug:pair>/entities/<path:path>/", entities.detail, name="entity-detail"),
    path("pairs/<slug:pair>/incidents/<slug:event_id>/", incidents.detail, name="incident"),
    path("pairs/<slug:pair>/incidents/<slug:event_id>.json", incidents.as_json, name="incident-json"),
    path("pairs/<slug:pair>/actions/<queue_action:verb>/", cleanup.action, name="pair-action"),
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
    path("alerts/", alerts.current, name="alerts"),
    path("alerts/acknowledge/", alerts.acknowledge, name="alerts-acknowledge"),
    path("alerts/deliveries/", alerts.deliveries, name="alert-deliveries"),
    path("alerts/rules/", alerts.rules, name="alert-rules"),
    path("alerts/rules/new/", alerts.rule, name="alert-rule-new"),
    path("alerts/rules/<int:rule>/", alerts.rule, name="alert-rule"),
    path("alerts/rules/<int:rule>/delete/", alerts.delete_rule, name="alert-rule-delete"),
    path("alerts/channels/<slug:channel>/<slug:verb>/", alerts.channel, name="alert-channel"),
    path("alerts/<int:alert>/acknowledge/", alerts.acknowledge, name="alert-acknowledge"),
    path("audit/", audit.listing, name="audit"),
    path("workers/", workers.listing, name="workers"),
    path("drills/", drills.listing, name="drills"),
    path("drills/start/", drills.start, name="drill-start"),
    path("drills/<int:drill>/", drills.detail, name="drill-detail"),
    path("drills/<int:drill>.json", drills.document, name="drill-json"),
    path("drills/<int:drill>/abort/", drills.abort, name="drill-abort"),
    path("readiness/", readiness.listing, name="readiness"),
    path("readiness/<slug:pair>/<path:path>/", readiness.entity, name="readiness-entity"),
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
    path("api/v1/", include((site.urls(), "api"), namespace="api-v1")),
]
account_urls: Urls = [
    path(
        "login/",
        auth.LoginView.as_view(template_name="access/login.html", authentication_form=LoginForm),
        name="login",
    ),
    path("logout/", oidc.sign_out, name="logout"),
    path("tokens/", tokens.listing, {"operations": site.operations}, name="tokens"),
    path("tokens/make/", tokens.make, {"operations": site.operations}, name="token-make"),
    path("tokens/<slug:prefix>/revoke/", tokens.revoke, name="token-revoke"),
    path("admin/login/", login_not_required(RedirectView.as_view(pattern_name="login", query_string=True))),
    path("admin/", admin.site.urls),
]

provider_urls: Urls = [
    path("oidc/authenticate/", login_not_required(oidc.Leave.as_view()), name="oidc_authentication_init"),
    path("oidc/callback/", login_not_required(oidc.Return.as_view()), name="oidc_authentication_callback"),
]
if settings.OIDC_ISSUER:
    account_urls += provider_urls

urlpatterns: Urls = [*pair_urls, *record_urls, *machine_urls, *account_urls]
handler400 = "dashboard.site.error_pages.bad_request"
handler403 = "dashboard.site.error_pages.forbidden"
handler404 = "dashboard.site.error_pages.not_found"
handler500 = "dashboard.site.error_pages.broken"
