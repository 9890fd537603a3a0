"""The audit trail, tokens."""

from django.urls import path

from dashboard.accounts.views import audit, tokens
from dashboard.api import site
from dashboard.site.menu import Entry

MENU = (Entry("Audit", "audit", 70),)
urlpatterns = [
    path("audit/", audit.listing, name="audit"),
    path("tokens/", tokens.listing, {"operations": site.operations}, name="tokens"),
    path("tokens/make/", tokens.make, {"operations": site.operations}, name="token-make"),
    path("tokens/<slug:prefix>/revoke/", tokens.revoke, name="token-revoke"),
]
