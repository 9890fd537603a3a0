"""Limits of a session: idle time, total time, and renewal for people who signed in through the provider."""

import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import BACKEND_SESSION_KEY, logout
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.signals import user_logged_in
from django.contrib.auth.views import redirect_to_login
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

BEGAN, SEEN, RENEWS = "began_at", "seen_at", "oidc_id_token_expiration"
NOTED_EACH_S = 60
GRACE_S = 300
"""How long after the renewal is due a form can still be submitted."""


@receiver(user_logged_in)
def begin(sender: object, request: HttpRequest, **_: Any) -> None:
    """Signing in starts the session's clock."""
    request.session[BEGAN] = request.session[SEEN] = int(time.time())


class SessionLimitsMiddleware:
    """Ends sessions that are idle or old, and redirects to the provider when a renewal is due."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not request.user.is_authenticated:
            answer = self.get_response(request)
            return _again() if is_htmx(request) and answer.status_code == 302 else answer
        now = int(time.time())
        if is_over(request.session, now):
            logout(request)
            return _again() if is_htmx(request) else self.get_response(request)
        # The automatic refreshes of a page do not keep a session alive.
        is_by_a_person = request.method != "GET" or not (is_htmx(request) or _is_machine(request))
        if is_by_a_person and now - request.session[SEEN] >= NOTED_EACH_S:
            request.session[SEEN] = now
        return self._renewed(request, now) or self.get_response(request)

    def _renewed(self, request: HttpRequest, now: int) -> HttpResponse | None:
        if request.session.get(BACKEND_SESSION_KEY) != "dashboard.access.oidc.backend.OidcBackend":
            return None
        late = now - request.session.get(RENEWS, 0)
        if late < 0 or request.path.startswith("/oidc/") or request.path == reverse("logout"):
            return None
        if is_htmx(request) and request.method == "GET":
            return _again()
        if request.method == "GET" and not _is_machine(request):
            return redirect(
                f"{reverse('oidc_authentication_init')}?{urlencode({'renew': 1, 'next': request.get_full_path()})}"
            )
        if late > GRACE_S:
            logout(request)
        return None


class SignInFirstMiddleware(LoginRequiredMiddleware):
    """Redirects to the sign-in and back; after a POST, back to the page with the button."""

    def handle_no_permission(
        self, request: HttpRequest, view_func: Callable[..., HttpResponseBase]
    ) -> HttpResponseRedirect:
        if request.method in ("GET", "HEAD"):
            return super().handle_no_permission(request, view_func)
        if request.path != reverse("logout"):
            messages.warning(request, "Nothing was done because you were signed out. Sign in, then repeat the action.")
        return redirect_to_login(_page_before(request), str(self.get_login_url(view_func)))


def _page_before(request: HttpRequest) -> str:
    """The page with the button, if the Referer header names one of this site."""
    referrer = request.headers.get("Referer", "")
    if not url_has_allowed_host_and_scheme(referrer, {request.get_host()}, require_https=request.is_secure()):
        return reverse("overview")
    parts = urlsplit(referrer)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path or reverse("overview")


def is_over(session: Any, now: float) -> bool:
    """Whether the session of somebody who signed in has been idle for too long, or is too old."""
    idle_s, longest_s = settings.SESSION_IDLE_MINUTES * 60, settings.SESSION_HOURS * 3600
    return now - session[BEGAN] >= longest_s or (idle_s > 0 and now - session[SEEN] >= idle_s)


def is_htmx(request: HttpRequest) -> bool:
    return request.headers.get("HX-Request") == "true"


def _is_machine(request: HttpRequest) -> bool:
    return request.path.startswith(("/api/", "/live/", "/metrics"))


def _again() -> HttpResponse:
    """Make htmx reload the whole page, which then redirects to the sign-in."""
    answer = HttpResponse(status=204)
    answer["HX-Refresh"] = "true"
    return answer
