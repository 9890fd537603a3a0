"""The primary namespace: where it is, and how it writes itself in links and tokens."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import certifi

from pairing.ends import Endpoint

_PORT, _PLAIN_PORT = 5671, 5672


@dataclass(frozen=True, slots=True)
class Namespace:
    """The namespace that clients are passed on to. `address` need not be the one that its name resolves to."""

    host: str
    """As links and tokens name it: with the port where that is an emulator's."""
    hostname: str
    address: str
    port: int
    tls: ssl.SSLContext | None = field(repr=False)

    @classmethod
    def of(cls, endpoint: Endpoint, address: str | None) -> Namespace:
        """The namespace of an endpoint, to be found at another address where one is given. Raises ValueError."""
        hostname = urlsplit(f"//{endpoint.host}").hostname or ""
        place = urlsplit(f"//{address or endpoint.host}")
        port = place.port if address or endpoint.emulator else None
        return cls(
            endpoint.address,
            hostname,
            place.hostname or "",
            port or (_PLAIN_PORT if endpoint.emulator else _PORT),
            None if endpoint.emulator else _authorities(),
        )

    def address_here(self, address: str) -> str:
        """An address of a link or a token, such as `amqps://localhost:5672/orders`, with the primary as its host."""
        scheme, separator, rest = address.partition("://")
        host, slash, path = rest.partition("/")
        try:
            named = host.lower() if self.tls is None else urlsplit(f"//{host}").hostname
        except ValueError:
            return address  # the primary refuses it
        return f"{scheme}://{self.host}{slash}{path}" if separator and named != self.host else address


def _authorities() -> ssl.SSLContext:
    """The authorities of the system, or of SSL_CERT_FILE, and those that the SDK trusts."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context
