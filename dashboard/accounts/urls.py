"""The audit trail, tokens."""

from django.urls import path

from dashboard.accounts.views import audit, tokens
from dashboard.api import site
from dashboard.site.menu import Entry

MENU = (
    Entry("Audit", "audit", 70),
    Entry("Settings", "tokens", 80),
    Entry("Tokens", "tokens", 81, under="Settings"),
    Entry("API", "api-operations", 82, under="Settings"),
    Entry("Administration", "admin:index", 84, under="Settings", is_for_administrators=True),
)
urlpatterns = [
    path("audit/", audit.listing, name="audit"),
    path("audit.csv", audit.as_csv, name="audit-csv"),
    path("tokens/", tokens.listing, name="tokens"),
    path("tokens/make/", tokens.make, name="token-make"),
    path("tokens/<slug:prefix>/revoke/", tokens.revoke, name="token-revoke"),
    path("settings/api/", tokens.api, {"operations": site.operations}, name="api-operations"),
]
