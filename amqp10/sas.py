"""Shared access signatures: the tokens that `$cbs` and the administration require, and the keys that sign them.

A token says which resource may be used until when, signed with a key of the namespace. The signature covers the
resource as it was written in the token, percent-encoding included, so the text is never decoded before it is checked.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, quote_plus, unquote, unquote_plus, urlsplit

SCHEME = "SharedAccessSignature"
SEND, LISTEN, MANAGE = "Send", "Listen", "Manage"
EVERY_RIGHT = frozenset({SEND, LISTEN, MANAGE})
_SEGMENTS = frozenset((".", ".."))  # a namespace may resolve them, and leave what a token covers


class TokenError(Exception):
    """The token is malformed, expired or not signed with a key of this namespace; the text never quotes it."""


class TokenExpired(TokenError):
    """A key of this namespace signed the token, and its time is over."""


@dataclass(frozen=True, slots=True)
class Token:
    """What a verified token allows: `resource` is an address, `expires_at` in seconds since the epoch."""

    resource: str
    key_name: str
    expires_at: float

    def covers(self, path: str) -> bool:
        """Whether the token's resource is `path` or a parent of it; the root of the namespace covers everything."""
        granted = unquote(urlsplit(self.resource).path).strip("/").casefold()
        wanted = path.strip("/").casefold()
        return not strays(path) and (not granted or wanted == granted or wanted.startswith(granted + "/"))


@dataclass(frozen=True, slots=True)
class KeyRing:
    """Keys by name with the same rights: those of the namespace (`entity` is None) or of an entity's rule."""

    keys: Mapping[str, str] = field(repr=False)
    rights: frozenset[str] = EVERY_RIGHT
    entity: str | None = None

    def has(self, name: str, key: str) -> bool:
        """Whether this key is in the ring under this name, compared in constant time."""
        expected = self.keys.get(name)
        return expected is not None and hmac.compare_digest(expected.encode(), key.encode())


def sign(key_name: str, key: str, resource: str, expires_at: int) -> str:
    """Return a token for the resource, as the SDK does."""
    encoded = quote_plus(resource)
    signature = quote(_signature(key, encoded, str(expires_at)), safe="")
    return f"{SCHEME} sr={encoded}&sig={signature}&se={expires_at}&skn={quote_plus(key_name)}"


def verify(token: str, keys: Mapping[str, str], now: float) -> Token:
    """Return what the token allows at `now`; raise TokenError unless one of the keys, by name, signed it."""
    fields = _fields(token)
    try:
        resource, signature, expiry, key_name = fields["sr"], fields["sig"], fields["se"], fields["skn"]
        expires_at = float(int(expiry))
        urlsplit(unquote_plus(resource))
    except (KeyError, ValueError, OverflowError):
        raise TokenError("The token is malformed: sr, sig, se and skn are needed.") from None
    _check_signature(keys.get(unquote_plus(key_name)), resource, expiry, unquote(signature))
    if expires_at <= now:
        raise TokenExpired(f"ExpiredToken: The token is expired. Expiration time: {expiry}.")
    return Token(unquote_plus(resource), unquote_plus(key_name), expires_at)


def verify_by_rings(token: str, rings: Iterable[KeyRing], now: float) -> tuple[Token, KeyRing]:
    """Return what the token allows, and the first ring with the key that signed it; raise TokenError."""
    refused = TokenError("There is no key.")
    for ring in rings:
        try:
            return verify(token, ring.keys, now), ring
        except TokenExpired:
            raise
        except TokenError as error:
            refused = error
    raise refused


def strays(path: str) -> bool:
    """Whether a path may be resolved to one that is not below what it seems to be below."""
    return not _SEGMENTS.isdisjoint(unquote(path).replace("\\", "/../").split("/"))


def expiry(token: str) -> float:
    """When a token, also a JSON Web Token, says that it expires; 0 for one that cannot be read."""
    try:
        if " " in token.strip():
            return float(int(_fields(token)["se"]))
        claims = token.split(".")[1]
        return float(json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"])
    except (IndexError, KeyError, OverflowError, TokenError, TypeError, ValueError):
        return 0.0


def _check_signature(key: str | None, resource: str, expiry: str, signature: str) -> None:
    """Check in constant time; an unknown key name and a wrong key give the same error."""
    expected = _signature(key or "", resource, expiry)
    if not _same(expected, signature) or key is None:
        raise TokenError("The token's signature does not match: check the name and the value of the shared access key.")


def _same(expected: str, given: str) -> bool:
    try:
        return hmac.compare_digest(base64.b64decode(expected), base64.b64decode(given, validate=True))
    except (binascii.Error, ValueError):
        return False


def _signature(key: str, encoded_resource: str, expiry: str) -> str:
    digest = hmac.new(key.encode(), f"{encoded_resource}\n{expiry}".encode(), hashlib.sha256).digest()
    return base64.b64encode(digest).decode()


def _fields(token: str) -> dict[str, str]:
    scheme, _, rest = token.strip().partition(" ")
    if scheme.casefold() != SCHEME.casefold():
        raise TokenError(f"The token must begin with {SCHEME}.")
    pairs = [part.split("=", 1) for part in rest.strip().split("&") if "=" in part]
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise TokenError("The token says something twice.")
    return fields
