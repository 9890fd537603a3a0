"""The `$cbs` node: shared access signatures, checked, and what they open."""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus, unquote_plus

from emulator.broker.namespace import strip_host

NODE = "$cbs"


class TokenError(Exception):
    """A token that opens nothing; the text says why, without the token."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What a valid token opens, as a path in lower case (empty: the whole namespace), and until when (unix seconds)."""

    path: str
    until: float

    def covers(self, path: str, now: float) -> bool:
        """Whether this grant opens an entity or one of its nodes."""
        path = path.lower()
        return now < self.until and (not self.path or path == self.path or path.startswith(self.path + "/"))


def check_token(token: str, keys: dict[str, str], now: float) -> Grant:
    """What a `SharedAccessSignature` opens. `keys` maps key names to keys. Raises TokenError."""
    kind, _, rest = token.partition(" ")
    if kind != "SharedAccessSignature":
        raise TokenError("The token is no SharedAccessSignature.")
    fields = dict(part.partition("=")[::2] for part in rest.split("&"))
    resource, expiry = fields.get("sr", ""), fields.get("se", "")
    key = keys.get(unquote_plus(fields.get("skn", "")))
    if key is None:
        raise TokenError("The token names an unknown key.")
    if not hmac.compare_digest(signature(resource, expiry, key), unquote_plus(fields.get("sig", ""))):
        raise TokenError("The token's signature is wrong.")
    if not expiry.isdecimal() or len(expiry) > 15 or int(expiry) <= now:
        raise TokenError("The token has expired.")
    return Grant(strip_host(unquote_plus(resource)).strip("/").lower(), float(expiry))


def signature(resource: str, expiry: str, key: str) -> str:
    """HMAC-SHA256 over the resource as it was sent (percent-encoded) and the expiry, in base64."""
    digest = hmac.new(key.encode(), f"{resource}\n{expiry}".encode(), hashlib.sha256).digest()
    return base64.b64encode(digest).decode()


def sign(audience: str, key_name: str, key: str, expires_at: int) -> str:
    """A token for an audience, as a client makes it."""
    resource = quote_plus(audience)
    sig = quote_plus(signature(resource, str(expires_at), key))
    return f"SharedAccessSignature sr={resource}&sig={sig}&se={expires_at}&skn={key_name}"


def audience_path(name: Any) -> str:
    """The entity path of the audience a client put a token for."""
    return strip_host(name).strip("/") if isinstance(name, str) else ""


