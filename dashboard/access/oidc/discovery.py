"""The provider's discovery document, fetched when it is first needed: no start and no other page waits for it."""

import threading
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import requests
from django.conf import settings

TIMEOUT_S = 5
KEPT_S = 3600
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_lock = threading.Lock()
_known: dict[str, tuple[float, "Provider"]] = {}


class ProviderError(Exception):
    """The provider does not answer, or not as it should; the text says which."""


@dataclass(frozen=True, slots=True)
class Provider:
    """Where its endpoints are. `end_session` is empty where it offers none."""

    issuer: str
    authorization: str
    token: str
    userinfo: str
    jwks: str
    end_session: str


def provider() -> Provider:
    """The configured provider. Raises ProviderError; a known document is used further while it does not answer."""
    issuer = settings.OIDC_ISSUER
    with _lock:
        kept = _known.get(issuer)
        if kept and time.monotonic() < kept[0]:
            return kept[1]
        try:
            found = read(_ask(issuer), issuer)
        except ProviderError:
            if kept is None:
                raise
            found = kept[1]
        _known[issuer] = (time.monotonic() + KEPT_S, found)
        return found


def read(document: Any, issuer: str) -> Provider:
    """The provider of a discovery document. Raises ProviderError if the document is of another issuer."""
    if not isinstance(document, dict) or document.get("issuer") != issuer:
        raise ProviderError("The provider's document is of another issuer: write OIDC_ISSUER exactly as it does.")
    names = ("authorization_endpoint", "token_endpoint", "userinfo_endpoint", "jwks_uri", "end_session_endpoint")
    places = {name: document.get(name) or "" for name in names}
    for name, place in places.items():
        if (not place and name != "end_session_endpoint") or not (isinstance(place, str) and is_safe(place)):
            raise ProviderError(f"The provider's document has no usable {name}: it must be an https address.")
    return Provider(issuer, *places.values())


def is_safe(place: str) -> bool:
    """Whether the connection is encrypted or stays on this machine. An empty address is safe."""
    parts = urlsplit(place)
    return not place or parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)


def _ask(issuer: str) -> Any:
    try:
        answer = requests.get(f"{issuer.rstrip('/')}/.well-known/openid-configuration", timeout=TIMEOUT_S)
        answer.raise_for_status()
        return answer.json()
    except (requests.RequestException, ValueError) as error:
        raise ProviderError(f"The provider does not answer ({type(error).__name__}).") from error
