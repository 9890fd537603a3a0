"""The client of the provider: authorization code with PKCE, state and nonce, and verified tokens, by Authlib."""

from collections.abc import Mapping
from typing import Any

from authlib.integrations.django_client import DjangoIntegration, DjangoOAuth2App
from django.conf import settings
from django.contrib.sessions.backends.base import SessionBase
from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest

NAME = "oidc"
TIMEOUT_S = 5
LEEWAY_S = 30
ALGORITHMS = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512")
MOST_STATES = 50
"""The number of unfinished sign-ins per browser, which limits the size of a session."""


class States(DjangoIntegration):  # type: ignore[misc]
    """State, nonce and code verifier of each unfinished sign-in, in the session of the browser that started it."""

    def set_state_data(self, session: SessionBase, state: str, data: Mapping[str, Any]) -> None:
        """Also removes the oldest sign-ins beyond the limit."""
        under_way = [key for key, _ in session.items() if key.startswith(f"_state_{self.name}_")]
        under_way.sort(key=lambda key: float(session[key]["exp"]))
        for key in under_way[: max(0, len(under_way) + 1 - MOST_STATES)]:
            del session[key]
        super().set_state_data(session, state, data)

    def clear_state_data(self, session: SessionBase, state: str | None) -> None:
        """Saved immediately: the provider's response is valid once, even if the following requests are slow or fail."""
        super().clear_state_data(session, state)
        if session.modified:
            session.save()


class Client(DjangoOAuth2App):  # type: ignore[misc]
    """Authlib's client, which accepts only signatures with a public key."""

    def load_server_metadata(self) -> Any:
        """The provider's description, asked for once. Raises RequestException."""
        found = super().load_server_metadata()
        found["id_token_signing_alg_values_supported"] = ALGORITHMS
        return found


def client() -> Any:
    """A client of the provider. A new one is made for each request and caches no keys, which may be withdrawn."""
    return Client(
        States(NAME),
        NAME,
        client_id=settings.OIDC_RP_CLIENT_ID,
        client_secret=settings.OIDC_RP_CLIENT_SECRET,
        client_kwargs={
            "scope": settings.OIDC_RP_SCOPES,
            "code_challenge_method": "S256",
            "token_endpoint_auth_method": "client_secret_post",
            "default_timeout": TIMEOUT_S,
        },
        server_metadata_url=f"{settings.OIDC_ISSUER.rstrip('/')}/.well-known/openid-configuration",
    )


def trusted() -> dict[str, dict[str, Any]]:
    """The required claims of an ID token: issuer, audience, subject, and expiry."""
    return {
        "iss": {"essential": True, "value": settings.OIDC_ISSUER},
        "aud": {"essential": True, "value": settings.OIDC_RP_CLIENT_ID},
        **{name: {"essential": True} for name in ("sub", "exp", "iat")},
    }


def claims_of(request: HttpRequest) -> dict[str, Any]:
    """The claims of the ID token and of the user info for the person who returns from the provider.

    Raises SuspiciousOperation, or an error of Authlib, joserfc or requests.
    """
    ours = client()
    token = ours.authorize_access_token(request, claims_options=trusted(), leeway=LEEWAY_S)
    if not token.get("userinfo"):
        raise SuspiciousOperation("The provider sent no ID token.")
    return merged(token["userinfo"], ours.userinfo(token=token))


def merged(claims: Mapping[str, Any], userinfo: Mapping[str, Any]) -> dict[str, Any]:
    """The claims of both, if both are about the same person. Otherwise SuspiciousOperation."""
    if userinfo.get("sub") != claims["sub"]:
        raise SuspiciousOperation("The provider describes one person in the ID token and another in the user info.")
    return {**claims, **userinfo}
