"""Sign-in, tokens, the audit trail."""

from django.conf import settings
from django.contrib.auth import views as auth
from django.contrib.auth.decorators import login_not_required
from django.urls import path

from dashboard.access.logins import LoginForm
from dashboard.access.oidc import views as oidc
from dashboard.access.views import audit, tokens
from dashboard.api import site
from dashboard.site.menu import Entry

MENU = (Entry("Audit", "audit", 70),)
urlpatterns = [
    path("audit/", audit.listing, name="audit"),
    path(
        "login/",
        auth.LoginView.as_view(template_name="access/login.html", authentication_form=LoginForm),
        name="login",
    ),
    path("logout/", oidc.sign_out, name="logout"),
    path("tokens/", tokens.listing, {"operations": site.operations}, name="tokens"),
    path("tokens/make/", tokens.make, {"operations": site.operations}, name="token-make"),
    path("tokens/<slug:prefix>/revoke/", tokens.revoke, name="token-revoke"),
]
if settings.OIDC_ISSUER:
    urlpatterns += [
        path("oidc/authenticate/", login_not_required(oidc.leave), name="oidc_authentication_init"),
        path("oidc/callback/", login_not_required(oidc.come_back), name="oidc_authentication_callback"),
    ]
