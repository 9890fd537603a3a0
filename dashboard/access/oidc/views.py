"""Redirect to the provider, callback, and sign-out."""

import time

import requests
import structlog
from authlib.integrations.base_client.errors import MismatchingStateError
from authlib.integrations.django_client import OAuthError
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, authenticate, login, logout
from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render, resolve_url
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_GET, require_POST
from joserfc.errors import JoseError

from dashboard.access.oidc.backend import NoAccess
from dashboard.access.oidc.client import NAME, States, claims_of, client
from dashboard.access.sessions import RENEWS
from dashboard.models import Identity

BACKEND = "dashboard.access.oidc.backend.OidcBackend"
NEXT = "oidc_login_next"
AWAY = "The provider does not answer. Try again, or sign in with a password of this control plane."
RENEWED_EACH_S = 15 * 60
"""How often the identity and the groups of a person are verified with the provider."""
log = structlog.get_logger(__name__)


@require_GET
def leave(request: HttpRequest) -> HttpResponse:
    """Redirect to the provider. With `renew` the provider must not prompt: the person with a session there returns at
    once.
    """
    home = request.build_absolute_uri(reverse("oidc_authentication_callback"))
    silently = {"prompt": "none"} if request.GET.get("renew") else {}
    try:
        answer: HttpResponse = client().authorize_redirect(request, home, **silently)
    except requests.RequestException as error:
        log.warning("the provider does not answer", error=type(error).__name__)
        return _failed(request, AWAY, 503)
    request.session[NEXT] = _next(request)
    return answer


def _next(request: HttpRequest) -> str | None:
    """The page to return to, if it is one of ours."""
    wanted = request.GET.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    return wanted if is_ours else None


@require_GET
def come_back(request: HttpRequest) -> HttpResponse:
    """The callback. A failure gets an error page; the log contains the class of the error, and no token."""
    if request.GET.get("error"):
        return _refused_there(request)
    if request.session.is_empty() or not {"code", "state"} <= request.GET.keys():
        return redirect("login")
    try:
        return _signed_in(request)
    except NoAccess as error:
        logout(request)
        return _failed(request, f"You are {error} at the provider, but none of your groups has access here.", 403)
    except MismatchingStateError as error:
        return _untrusted(request, error)
    except (OAuthError, requests.RequestException, ValueError) as error:
        log.warning("the provider failed in a sign-in", error=type(error).__name__)
        return _failed(request, "The provider did not respond correctly. Try again in a moment.", 503)
    except (SuspiciousOperation, JoseError, AttributeError, KeyError, TypeError, RecursionError) as error:
        return _untrusted(request, error)


def _untrusted(request: HttpRequest, error: Exception) -> HttpResponse:
    log.warning("a sign-in was refused", error=type(error).__name__)
    return _failed(request, "This sign-in is invalid or has expired. Sign in again.", 403)


def _refused_there(request: HttpRequest) -> HttpResponse:
    """Also ends the session: otherwise every page would redirect to the provider again.

    The tokens of a person whom the provider refuses stop until the person signs in again: it answers the renewal of
    somebody who has left in the same way as that of somebody who has signed out there.
    """
    state, states = request.GET.get("state"), States(NAME)
    is_ours = bool(states.get_state_data(request.session, state))
    states.clear_state_data(request.session, state)
    if request.user.is_authenticated:
        if is_ours:
            Identity.objects.filter(user_id=request.user.pk).update(trusted_until=timezone.now())
        logout(request)
    return redirect("login")


def _signed_in(request: HttpRequest) -> HttpResponse:
    """A renewal keeps the session and its CSRF token; other sign-ins get new ones. Raises what `come_back` handles."""
    claims = claims_of(request)
    # Other tabs may have stored something in the session during the requests to the provider: read it again.
    request.session = type(request.session)(request.session.session_key)
    person = authenticate(request, claims=claims)
    if person is None or not person.is_active:
        return redirect("login")
    wanted = request.session.get(NEXT)  # login() clears the session of another person
    if request.user != person:
        login(request, person)
    request.session[RENEWS] = time.time() + RENEWED_EACH_S
    return HttpResponseRedirect(wanted or resolve_url(settings.LOGIN_REDIRECT_URL))


def _failed(request: HttpRequest, sentence: str, status: int) -> HttpResponse:
    return render(request, "access/sign_in_failed.html", {"sentence": sentence}, status=status)


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """End the session here, and also at the provider if the person signed in through it."""
    came_through = request.session.get(BACKEND_SESSION_KEY) == BACKEND
    logout(request)
    home = reverse("login")
    place = _end_of_session(request.build_absolute_uri(home)) if came_through else ""
    return redirect(place or home)


def _end_of_session(home: str) -> str:
    """The address that ends the provider's session and redirects back; empty if the provider has none."""
    try:
        ours = client()
        metadata = ours.load_server_metadata()
    except requests.RequestException:
        return ""
    if not metadata.get("end_session_endpoint"):
        return ""
    found = ours.create_logout_url(post_logout_redirect_uri=home, client_id=settings.OIDC_RP_CLIENT_ID)
    return str(found["url"])
