"""Going to the provider, coming back, and leaving."""

from typing import Any
from urllib.parse import urlencode

import requests
import structlog
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, logout
from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST
from jwt import PyJWTError
from mozilla_django_oidc.views import (  # type: ignore[import-untyped]
    OIDCAuthenticationCallbackView,
    OIDCAuthenticationRequestView,
)

from dashboard.access.oidc.backend import NoAccess, setting
from dashboard.access.oidc.discovery import ProviderError, provider

BACKEND = "dashboard.access.oidc.backend.OidcBackend"
log = structlog.get_logger(__name__)


class Leave(OIDCAuthenticationRequestView):  # type: ignore[misc]
    """To the provider. With `renew` it asks nobody anything: who is signed in there comes back at once."""

    get_settings = staticmethod(setting)

    def __init__(self, **kwargs: Any) -> None:
        super(OIDCAuthenticationRequestView, self).__init__(**kwargs)
        self.OIDC_RP_CLIENT_ID = settings.OIDC_RP_CLIENT_ID

    @property
    def OIDC_OP_AUTH_ENDPOINT(self) -> str:
        return provider().authorization

    def get(self, request: HttpRequest) -> HttpResponse:
        try:
            answer: HttpResponse = super().get(request)
        except ProviderError as error:
            return _failed(request, f"{error} Try again, or sign in with a password of this control plane.", 503)
        return answer

    def get_extra_params(self, request: HttpRequest) -> dict[str, str]:
        return {"prompt": "none"} if request.GET.get("renew") else {}


class Return(OIDCAuthenticationCallbackView):  # type: ignore[misc]
    """Back from the provider. What went wrong is a page; the log has its kind, and no token."""

    get_settings = staticmethod(setting)

    def get(self, request: HttpRequest) -> HttpResponse:
        try:
            answer: HttpResponse = super().get(request)
        except NoAccess as error:
            logout(request)
            return _failed(request, f"You are {error} there, but in no group that is let in here.", 403)
        except (ProviderError, requests.RequestException) as error:
            log.warning("the provider failed in a sign-in", error=type(error).__name__)
            return _failed(request, "The provider does not answer as it should. Try again in a moment.", 503)
        except (SuspiciousOperation, PyJWTError, KeyError, ValueError, TypeError) as error:
            log.warning("a sign-in was refused", error=type(error).__name__)
            return _failed(request, "This sign-in cannot be trusted, or is too old. Begin anew.", 403)
        return answer

    def login_failure(self) -> HttpResponse:
        return redirect("login")


def _failed(request: HttpRequest, sentence: str, status: int) -> HttpResponse:
    return render(request, "access/sign_in_failed.html", {"sentence": sentence}, status=status)


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """Here, and for those who came through the provider there, too."""
    came_through = request.session.get(BACKEND_SESSION_KEY) == BACKEND
    logout(request)
    home = reverse("login")
    if not came_through:
        return redirect(home)
    try:
        place = provider().end_session
    except ProviderError:
        place = ""
    if not place:
        return redirect(home)
    words = {"client_id": settings.OIDC_RP_CLIENT_ID, "post_logout_redirect_uri": request.build_absolute_uri(home)}
    return HttpResponseRedirect(f"{place}?{urlencode(words)}")
