"""The discovery document of the provider, fetched on first use: neither the start nor other pages wait for it."""

import threading
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import requests
from django.conf import settings

from dashboard.access.oidc.transport import bound

TIMEOUT_S = 5
KEPT_S = 3600
FAILED_S = 2
"""How long nobody asks again. Each request to sign in would wait for all before it otherwise."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_lock = threading.Lock()
_known: dict[str, "tuple[float, Provider | str]"] = {}


class ProviderError(Exception):
    """The provider does not respond, or its response is invalid; the text says which."""


@dataclass(frozen=True, slots=True)
class Provider:
    """The endpoints of the provider. `end_session` is empty if it has none."""

    issuer: str
    authorization: str
    token: str
    userinfo: str
    jwks: str
    end_session: str


def provider() -> Provider:
    """The configured provider. Raises ProviderError; while it does not respond, a known document remains in use."""
    issuer = settings.OIDC_ISSUER
    with _lock:
        kept = _known.get(issuer)
        if kept is None or kept[0] <= time.monotonic():
            kept = _known[issuer] = _renewed(issuer, kept[1] if kept else "")
    if isinstance(kept[1], str):
        raise ProviderError(kept[1])
    return kept[1]


def _renewed(issuer: str, known: "Provider | str") -> "tuple[float, Provider | str]":
    """Until when to use which description; a sentence where there is none. Those who wait for it do not ask again."""
    try:
        return time.monotonic() + KEPT_S, read(_ask(issuer), issuer)
    except ProviderError as error:
        if isinstance(known, str):
            return time.monotonic() + FAILED_S, str(error)
        return time.monotonic() + KEPT_S, known


def read(document: Any, issuer: str) -> Provider:
    """Parse a discovery document. Raises ProviderError if it belongs to another issuer."""
    if not isinstance(document, dict) or document.get("issuer") != issuer:
        raise ProviderError("The provider's document names another issuer: set OIDC_ISSUER to exactly that value.")
    names = ("authorization_endpoint", "token_endpoint", "userinfo_endpoint", "jwks_uri", "end_session_endpoint")
    places = {name: document.get(name) or "" for name in names}
    for name, place in places.items():
        if (not place and name != "end_session_endpoint") or not (isinstance(place, str) and is_safe(place)):
            raise ProviderError(f"The provider's document has no usable {name}: it must be an https address.")
    return Provider(issuer, *places.values())


def is_safe(place: str) -> bool:
    """Whether the connection is encrypted or stays on this host. An empty address is safe."""
    parts = urlsplit(place)
    return not place or parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)


def _ask(issuer: str) -> Any:
    try:
        with requests.Session() as session:
            bound(session)
            answer = session.get(f"{issuer.rstrip('/')}/.well-known/openid-configuration", timeout=TIMEOUT_S)
        answer.raise_for_status()
        return answer.json()
    except (requests.RequestException, ValueError, RecursionError) as error:
        raise ProviderError(f"The provider does not answer ({type(error).__name__}).") from error
