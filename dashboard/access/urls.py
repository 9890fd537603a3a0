"""Signing in and out."""

from django.conf import settings
from django.contrib.auth import views as auth
from django.contrib.auth.decorators import login_not_required
from django.urls import path

from dashboard.access.logins import LoginForm
from dashboard.access.oidc import views as oidc

urlpatterns = [
    path(
        "login/",
        auth.LoginView.as_view(template_name="access/login.html", authentication_form=LoginForm),
        name="login",
    ),
    path("logout/", oidc.sign_out, name="logout"),
]
if settings.OIDC_ISSUER:
    urlpatterns += [
        path("oidc/authenticate/", login_not_required(oidc.leave), name="oidc_authentication_init"),
        path("oidc/callback/", login_not_required(oidc.come_back), name="oidc_authentication_callback"),
    ]
